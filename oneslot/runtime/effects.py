"""A decision's answer: writes to perform together with a result, or the reason for having none.

A decision only describes. Nothing happens until the ledger commits the description, all or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

LEDGER = "ledger"
"""The ledger's own table among the logical names; no decision may write to it."""

MAXIMUM_RESULT_BYTES = 390_000
"""A DynamoDB item holds 400 KB (its quota page); the row's other attributes need less than 10 KB."""

MAXIMUM_WRITES = 99
"""TransactWriteItems takes 100 items; one is the ledger's row."""

MAXIMUM_SENDS = 100
"""Ten calls of ten: a relay sends a whole row within seconds, even a FIFO group one by one, and loses little if it dies."""

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


class BuiltCondition(Protocol):
    """A condition of `boto3.dynamodb.conditions`, such as `Attr("left").gte(1)`."""

    def get_expression(self) -> Mapping[str, Any]:
        """Return its format, its operator and its values."""


Path = tuple[str | int, ...]
"""The way to a nested attribute: names, and positions in lists. `("lines", 0, "price")` is `lines[0].price`."""

Attributes = Mapping[Any, Any]
"""Values by the attribute's name or `Path`."""

Expected = Attributes | BuiltCondition
"""What a write relies on: attributes that have the values given, or a condition of boto3's."""

Otherwise = Callable[[Item], "Effects"]
"""The item found (empty: there is none) → the effects in place of those whose condition failed."""


def _check_arguments(write: Put | Update | Delete | Check, **mappings: object) -> None:
    """Raise `InvalidEffects` for an argument of another type than the word takes, and for one that can have no effect."""
    for name, given in mappings.items():
        if not isinstance(given, Mapping):
            raise InvalidEffects(f"{describe(write)} has a {type(given).__name__} as its `{name}`; write a mapping")
    expect, otherwise = write.expect, write.otherwise
    if isinstance(expect, Mapping) and not expect:
        raise InvalidEffects(f"{describe(write)} has an empty `expect`; name what it relies on, or leave it out")
    if not (expect is None or isinstance(expect, Mapping) or hasattr(expect, "get_expression")):
        raise InvalidEffects(
            f'{describe(write)} has a {type(expect).__name__} as its `expect`; write {{"left": 1}}, or Attr("left").gt(0)'
        )
    if not (otherwise is None or callable(otherwise)):
        raise InvalidEffects(
            f"{describe(write)} has a {type(otherwise).__name__} as its `otherwise`; "
            "write a function of the item found: otherwise=lambda found: Effects(...)"
        )
    if otherwise and expect is None and (not isinstance(write, Put) or write.replace):
        raise InvalidEffects(f"{describe(write)} has an `otherwise` and no condition; add `expect`, or leave it out")


@dataclass(frozen=True, slots=True)
class Put:
    """Write an item: a new one, or with `replace` whatever is there.

    Where the table's key is not declared, name its partition key: `Put("charges", {...}, key="id")`.

    Attributes:
        table: the table's logical name.
        key: the name of the partition key; empty where the table's declaration names it.
        replace: whether an item under this key may exist. `expect` then says which.
        otherwise: the answer if the condition fails; without it the message is decided again.

    Raises:
        InvalidEffects: if the item lacks the named key; and for `expect` of an item that must be new.
    """

    table: str
    item: Item
    key: str = ""
    replace: bool = False
    expect: Expected | None = None
    otherwise: Otherwise | None = None

    def __post_init__(self) -> None:
        _check_arguments(self, item=self.item)
        if self.key and self.key not in self.item:
            raise InvalidEffects(
                f"a put into {self.table!r} has no attribute {self.key!r} in its item; set `key` to the table's partition key"
            )
        if self.expect is not None and not self.replace:
            raise InvalidEffects(
                f"a put into {self.table!r} must be new, so there is no item to expect; add replace=True, or leave `expect` out"
            )


@dataclass(frozen=True, slots=True)
class Update:
    """Change an item, or make one if nothing is expected of it.

    Attributes:
        key: the names and values of the item's key.
        set: the attributes' new values.
        remove: attributes that go.
        add: numbers to add to numbers, and elements to add to sets; a missing attribute counts as 0, or as an empty set.
        append: lists to append to lists; a missing attribute counts as an empty list.
        otherwise: the answer if the condition fails; without it the message is decided again.

    Raises:
        InvalidEffects: if nothing is changed, and for an argument that can have no effect.
    """

    table: str
    key: Item
    expect: Expected | None = None
    set: Attributes = field(default_factory=dict)
    remove: tuple[str | Path, ...] = ()
    add: Mapping[str, Any] = field(default_factory=dict)
    append: Attributes = field(default_factory=dict)
    otherwise: Otherwise | None = None

    def __post_init__(self) -> None:
        _check_arguments(self, key=self.key, set=self.set, add=self.add, append=self.append)
        if not isinstance(self.remove, tuple | list):
            raise InvalidEffects(f'{describe(self)} has no tuple as its `remove`; write remove=("name",)')
        if not (self.set or self.remove or self.add or self.append):
            raise InvalidEffects(
                f"an update of {self.table!r} changes nothing; give an attribute a value, or use Check to rely on it"
            )


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an item; without `expect` also one that does not exist."""

    table: str
    key: Item
    expect: Expected | None = None
    otherwise: Otherwise | None = None

    def __post_init__(self) -> None:
        _check_arguments(self, key=self.key)


@dataclass(frozen=True, slots=True)
class Check:
    """Rely on an item without changing it. Raises `InvalidEffects` if nothing is expected."""

    table: str
    key: Item
    expect: Expected
    otherwise: Otherwise | None = None

    def __post_init__(self) -> None:
        _check_arguments(self, key=self.key)
        if self.expect is None:
            raise InvalidEffects(f"a check of {self.table!r} has no `expect`; name what it relies on")


RAW_KINDS = ("Put", "Update", "Delete", "ConditionCheck")


@dataclass(frozen=True, slots=True)
class Raw:
    """One element of DynamoDB's `TransactItems`, for what the other words do not say.

    `element` is as boto3's client takes it, with typed values such as `{"S": "a"}`. Its `TableName` is the logical name.

    Raises:
        InvalidEffects: if it is no such element, has a plain value, or an argument that can have no effect.
    """

    element: Mapping[str, Mapping[str, Any]]
    otherwise: Otherwise | None = None

    def __post_init__(self) -> None:
        kinds = [*self.element]
        if len(kinds) != 1 or kinds[0] not in RAW_KINDS or not isinstance(self.request.get("TableName"), str):
            raise InvalidEffects(
                f"Raw takes one element of TransactItems, a mapping of {', '.join(RAW_KINDS)} to its request with TableName"
            )
        for part in ("Key", "Item", "ExpressionAttributeValues"):
            for name, value in self.request.get(part, {}).items():
                if not isinstance(value, Mapping) or len(value) != 1:
                    raise InvalidEffects(
                        f'{name!r} in the `{part}` of {describe(self)} is a plain value; write {{"S": "a"}}'
                    )
        if self.request.get("ReturnValuesOnConditionCheckFailure", "ALL_OLD") != "ALL_OLD":
            raise InvalidEffects(
                f"{describe(self)} sets ReturnValuesOnConditionCheckFailure; leave it out: the ledger needs ALL_OLD"
            )
        if self.otherwise and not (callable(self.otherwise) and "ConditionExpression" in self.request):
            raise InvalidEffects(
                f"{describe(self)} has an `otherwise` that is no function, or no condition; correct it"
            )

    @property
    def request(self) -> Mapping[str, Any]:
        """The element's content."""
        return next(iter(self.element.values()))

    @property
    def table(self) -> str:
        """The table's logical name."""
        return str(self.request["TableName"])


Write = Put | Update | Delete | Check | Raw
WRITES = (Put, Update, Delete, Check, Raw)
_WORDS = {Put: "a put into", Update: "an update of", Delete: "a delete in", Check: "a check of", Raw: "a raw write to"}


def describe(write: Write) -> str:
    """Return the write's kind and table, for an error."""
    return f"{next(words for kind, words in _WORDS.items() if isinstance(write, kind))} {write.table!r}"


@dataclass(frozen=True, slots=True)
class Send:
    """A message that follows the commit, to a queue, a topic or a bus. A relay sends it at least once, under one id.

    Attributes:
        to: the target's logical name.
        body: what JSON can hold; for a bus a mapping.
        group: the message group. A FIFO target needs one; a standard queue or topic takes one for fair queues.
    """

    to: str
    body: Any = field(repr=False)
    group: str = ""


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
        if not isinstance(self.write, Put) or self.write.replace:
            raise InvalidEffects("`once` must hold a Put of a new item, which marks the effect as done")
        if self.write.otherwise:
            raise InvalidEffects("the Put in `once` has an `otherwise`, which is never asked; use `answer` of Once")


@dataclass(frozen=True, slots=True)
class Effects:
    """One request's effects: `writes` and `once` in one transaction with the ledger, and the `result` recorded there.

    `Effects(result, [Put(...), Update(...)], once=Once(...), sends=[Send(...)])`. `all_writes` has that of `once` last.

    Raises:
        InvalidEffects: if a list holds something else, or is none.
    """

    result: Result
    writes: Sequence[Write] = ()
    once: Once | None = None
    sends: Sequence[Send] = ()
    all_writes: tuple[Write, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, given, kinds in (("writes", self.writes, WRITES), ("sends", self.sends, Send)):
            if not isinstance(given, list | tuple):
                raise InvalidEffects(f"`{name}` is a {type(given).__name__}; put all {name} into one list")
            for each in given:
                if not isinstance(each, kinds):
                    raise InvalidEffects(
                        f"`{name}` holds a {type(each).__name__}; Put, Update, Delete, Check and Raw go into `writes`, "
                        "and Send into `sends`"
                    )
        if self.once is not None and not isinstance(self.once, Once):
            raise InvalidEffects(f"`once` is a {type(self.once).__name__}; write once=Once(Put(...))")
        writes = self.writes if self.once is None else (*self.writes, self.once.write)
        object.__setattr__(self, "all_writes", tuple(writes))


def conflict() -> Unprocessable:
    """Return the problem of a message whose id was used before with another content."""
    return Unprocessable("conflict", "message_id was used before with another content; send it with a new id")
