"""The argument MESSAGE_ID: the id of one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from oneslot.declaration.reading import find_declaration
from oneslot.runtime.identity import MESSAGE_ID_FORM, is_message_id

F = TypeVar("F", bound=Callable[..., Any])


class MessageId(click.ParamType[str]):
    """A request's message id, or SQS's own id of a message. Rejects what the consumer declares as private."""

    name = "message_id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id. Raise a usage error, which does not quote the value, for anything else."""
        text = str(value)
        if not is_message_id(text):
            self.fail(f"MESSAGE_ID must be {MESSAGE_ID_FORM}", param, ctx)
        declaration = find_declaration()
        if declaration and declaration.private and declaration.is_private(text):
            self.fail(f"That is {declaration.private.name}. Give the request's message_id.", param, ctx)
        return text


def message_id_argument(function: F) -> F:
    """`MESSAGE_ID`: passed on as `message_id`."""
    return click.argument("message_id", metavar="MESSAGE_ID", type=MessageId())(function)
