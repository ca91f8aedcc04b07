"""Options that several of the application's verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from oneslot.options import Number

F = TypeVar("F", bound=Callable[..., Any])

SHARE = Number(0, 1)


def mix_options(function: F) -> F:
    """`--duplicates`, `--malformed` and `--cancellations`: shares of the requests."""
    for option in (
        click.option(
            "--cancellations",
            type=SHARE,
            metavar="SHARE",
            default=0.05,
            show_default=True,
            help="Make this share cancellations of other requests.",
        ),
        click.option(
            "--malformed",
            type=SHARE,
            metavar="SHARE",
            default=0.01,
            show_default=True,
            help="Make this share malformed.",
        ),
        click.option(
            "--duplicates",
            type=SHARE,
            metavar="SHARE",
            default=0.2,
            show_default=True,
            help="Send this share of the requests twice.",
        ),
    ):
        function = option(function)
    return function
