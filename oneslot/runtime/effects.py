"""A decision's answer: writes to perform together with a result, or the reason for having none.

A decision only describes. Nothing happens until the ledger commits the description, all or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LEDGER = "ledger"
"""The ledger's own table among the logical names; no decision may write to it."""

MAXIMUM_RESULT_BYTES = 390_000
"""A DynamoDB item holds 400 KB (its quota page); the row's other attributes need less than 10 KB."""

MAXIMUM_WRITES = 99
"""TransactWriteItems takes 100 items; one is the ledger's row."""


INVALID_EFFECTS = "invalid_effects"
"""The reason for a message whose effects exceed a limit of the store."""

INVALID_MESSAGE_ID = "invalid_message_id"
"""The reason for an id that must not become a key or enter a log; such an id is written nowhere."""


Item = Mapping[str, Any]
"""Attribute names and plain Python values, as `values.py` lists them. A fraction is a `Decimal`, never a float."""

Result = Mapping[str, Any]
"""The answer to a request. It must survive JSON, because every duplicate gets it back from the ledger."""


class Unprocessable(ValueError):
    """The message can never succeed as it is. The consumer quarantines it with `reason` (a code) and `detail` (a sentence).

    `detail` names the field and the remedy, never a value: its readers may not be allowed to see the message.
    Both are sent as message attributes, so what SQS does not carry in one is written as `\\xNN`, and nothing is empty.
    """

    def __init__(self, reason: object, detail: object) -> None:
        self.reason = _sendable(reason, 128) or "unprocessable"
        self.detail = _sendable(detail, 2_048) or "the consumer gave no detail; see its code for this reason"
        super().__init__(f"{self.reason}: {self.detail}")


_NOT_SENDABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""All but the characters that SQS's API reference allows in a message."""


def _sendable(text: object, longest: int) -> str:
    """Return a value as text that SQS carries in a message attribute; empty for None, the class of an error without text."""
    if isinstance(text, BaseException):
        text = str(text) or type(text).__name__
    # The content of an enumeration's member that is text; its `str` is the member's name.
    plain = "" if text is None else str.__str__(text) if isinstance(text, str) else str(text)
    clean = _NOT_SENDABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", plain)
    return clean[:longest]


class InvalidEffects(ValueError):
    """The decision cannot be committed, for example because a value has a type that no table holds; nothing was written.

    The decision is at fault, so the message is delivered again.
    """


class InvalidContent(InvalidEffects, Unprocessable):
    """The effects exceed a limit of the store with what this message holds, such as a number of 40 digits.

    No delivery of the message can succeed, so it is quarantined.
    """

    def __init__(self, detail: str) -> None:
        Unprocessable.__init__(self, INVALID_EFFECTS, detail)


@dataclass(frozen=True, slots=True)
class Put:
    """Write a new item, on condition that no item has its key.

    `table` is the table's logical name, `key` its partition key attribute.

    Raises:
        InvalidEffects: if the item lacks the key attribute: the condition would then hold, and the write replace an item.
    """

    table: str
    key: str
    item: Item

    def __post_init__(self) -> None:
        if self.key not in self.item:
            raise InvalidEffects(
                f"a put into {self.table!r} has no attribute {self.key!r} in its item; "
                "set `key` to the table's partition key"
            )


@dataclass(frozen=True, slots=True)
class Update:
    """Change an item, on condition that each attribute in `expect` has the value given there.

    To rely on an item without changing it, set an attribute to its present value.

    Raises:
        InvalidEffects: if `expect` is empty, since a write without a condition can happen twice; or if nothing is changed.
    """

    table: str
    key: Item
    expect: Item
    set: Item = field(default_factory=dict)
    remove: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.expect:
            raise InvalidEffects(
                f"an update of {self.table!r} has an empty `expect`; name the attributes that it relies on"
            )
        if not self.set and not self.remove:
            raise InvalidEffects(
                f"an update of {self.table!r} changes nothing; give an attribute a value, if need be its present one"
            )


Write = Put | Update


def own_result(item: Item) -> Result:  # noqa: ARG001 - recognised, and not called
    """Stand for the result of the decision itself, whatever the item says."""
    return {}


@dataclass(frozen=True, slots=True)
class Once:
    """The write that marks the effect as done, for as long as its item exists.

    If the item exists already, the effect has happened: the ledger's row may have expired since. `answer` then turns the
    item into the result; by default the result is the decision's own.
    It may raise `conflict()` if the item belongs to another message with this id: keep the message's
    `payload_hash` in the item to compare.
    """

    write: Put
    answer: Callable[[Item], Result] = own_result

    def __post_init__(self) -> None:
        if not isinstance(self.write, Put):
            raise TypeError("`once` must hold a Put, whose item marks the effect as done")


@dataclass(frozen=True, slots=True)
class Effects:
    """One request's effects: `writes` and `once` in one transaction with the ledger, and the `result` recorded there."""

    result: Result
    writes: tuple[Write, ...] = ()
    once: Once | None = None

    @property
    def all_writes(self) -> tuple[Write, ...]:
        """All writes, `once` last."""
        return self.writes if self.once is None else (*self.writes, self.once.write)


def conflict() -> Unprocessable:
    """Return the problem of a message whose id was used before with another content."""
    return Unprocessable("conflict", "message_id was used before with another content; send it with a new id")
