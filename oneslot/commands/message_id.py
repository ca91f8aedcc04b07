"""The argument MESSAGE_ID: the id of one request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from oneslot.application import contains_nhs_number

F = TypeVar("F", bound=Callable[..., Any])


class MessageId(click.ParamType[str]):
    """A request's message id, or SQS's own id of a message. Rejects an NHS number."""

    name = "message_id"
    _form = re.compile(r"[A-Za-z0-9._:-]{1,128}")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id. Raise a usage error, which does not quote the value, for anything else."""
        text = str(value)
        if not self._form.fullmatch(text):
            self.fail("MESSAGE_ID must be 1 to 128 letters, digits or any of . _ : -", param, ctx)
        if contains_nhs_number(text):
            self.fail("That is an NHS number. Give the request's message_id.", param, ctx)
        return text


def message_id_argument(function: F) -> F:
    """`MESSAGE_ID`: passed on as `message_id`."""
    return click.argument("message_id", metavar="MESSAGE_ID", type=MessageId())(function)
