"""What a decision may answer: writes to perform together with its result, or a reason why there can be none.

A decision only describes. Nothing happens until the ledger commits the description, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Item = Mapping[str, Any]
"""Attribute names and plain Python values: text, whole numbers, booleans, lists and mappings of these."""

Result = Mapping[str, Any]
"""The answer to a request. It must survive JSON, because every duplicate gets it back from the ledger."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write a new item, on condition that no item has its key.

    `key` names the table's partition key attribute, `table` is the table's logical name. An item without that attribute is
    refused (`ValueError`): the condition would hold for whatever is there, and the write would replace it.
    """

    table: str
    key: str
    item: Item

    def __post_init__(self) -> None:
        if self.key not in self.item:
            raise ValueError(
                f"a put into {self.table!r} names the key {self.key!r}, which its item lacks: it would overwrite what is "
                "there; name the table's partition key, as the item spells it"
            )


@dataclass(frozen=True, slots=True)
class Update:
    """Change an item, on condition that each attribute in `expect` has the value given there.

    `expect` may not be empty: a write without a condition can be done twice. Nor may `set` and `remove` both be: to rely
    on an item without changing it, set an attribute to the value that it has.
    """

    table: str
    key: Item
    expect: Item
    set: Item = field(default_factory=dict)
    remove: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.expect:
            raise ValueError(f"an update of {self.table!r} expects nothing; name the attributes that it relies on")
        if not self.set and not self.remove:
            raise ValueError(
                f"an update of {self.table!r} changes nothing; give what it expects a value, if need be the same"
            )


Write = Put | Update


@dataclass(frozen=True, slots=True)
class Once:
    """The write that marks the effect as done, for as long as its item lives.

    If the item is there already, the effect has happened (the ledger's row may be gone by then, its time to live ended),
    and `answer` turns the item that was found into the result. It may raise `conflict()` instead, if the item shows that
    it was another message which had this id: keep the message's `payload_hash` in the item, and compare.
    """

    write: Put
    answer: Callable[[Item], Result]

    def __post_init__(self) -> None:
        if not isinstance(self.write, Put):
            raise TypeError("`once` must hold a Put: an item that is there says that the effect has happened")


@dataclass(frozen=True, slots=True)
class Effects:
    """All that one request does: `writes` and `once` in one transaction with the ledger, and the `result` recorded there."""

    result: Result
    writes: tuple[Write, ...] = ()
    once: Once | None = None

    @property
    def all_writes(self) -> tuple[Write, ...]:
        """Every write, `once` last."""
        return self.writes if self.once is None else (*self.writes, self.once.write)


INVALID_MESSAGE_ID = "invalid_message_id"
"""The reason of an id that is not fit to be a key or to stand in a log; such an id is written nowhere."""


class Unprocessable(ValueError):
    """This message can never succeed as it is: it is quarantined with `reason` (a code) and `detail` (a sentence).

    `detail` names the field and the remedy, never a value: it is read by people who may not see the message.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def conflict() -> Unprocessable:
    """The problem of a message whose id was used before, for another content."""
    return Unprocessable("conflict", "message_id was used before with another content; send it with a new id")
