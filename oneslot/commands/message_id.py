"""The argument MESSAGE_ID: the id of one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from oneslot.application import contains_nhs_number
from oneslot.runtime.identity import MESSAGE_ID_FORM, is_message_id

F = TypeVar("F", bound=Callable[..., Any])


class MessageId(click.ParamType[str]):
    """A request's message id, or SQS's own id of a message. Rejects an NHS number."""

    name = "message_id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id. Raise a usage error, which does not quote the value, for anything else."""
        text = str(value)
        if not is_message_id(text):
            self.fail(f"MESSAGE_ID must be {MESSAGE_ID_FORM}", param, ctx)
        if contains_nhs_number(text):
            self.fail("That is an NHS number. Give the request's message_id.", param, ctx)
        return text


def message_id_argument(function: F) -> F:
    """`MESSAGE_ID`: passed on as `message_id`."""
    return click.argument("message_id", metavar="MESSAGE_ID", type=MessageId())(function)
