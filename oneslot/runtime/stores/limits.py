"""What DynamoDB refuses of a transaction, and what a late copy of the message would repeat: refused before anything is sent.

Few decisions come here: `transaction.py` sees at once that a key is short, and that everything together is small.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oneslot.runtime.effects import (
    MAXIMUM_RESULT_BYTES,
    InvalidContent,
    InvalidEffects,
    Item,
    Put,
    Update,
    Write,
    describe,
)
from oneslot.runtime.stores.conditions import repeats
from oneslot.runtime.values import size

# DynamoDB's quotas, in bytes.
LARGEST_ITEM = 409_600
LARGEST_TRANSACTION = 4 * 1_048_576
LONGEST_RETENTION_SECONDS = 100 * 366 * 86_400
LONGEST_PARTITION_KEY, LONGEST_SORT_KEY = 2_048, 1_024
LONGEST_EXPRESSION = 4_096
LARGEST_TEXT = LONGEST_EXPRESSION // 4
"""Bytes of a transaction in Python's own form that are within every limit, an expression's too."""
ALWAYS_FITS = LONGEST_SORT_KEY // 4
"""Characters that fit a key: UTF-8 has four bytes for one at most."""

Keys = Mapping[str, tuple[str, ...]]
"""The names of a table's key attributes, the partition key first, by the table's logical name."""


class Element(NamedTuple):
    """One element of `TransactItems`.

    Attributes:
        kind: its name there, such as `Put`.
        key: the item's key, in typed values, in the order of the table's key or else of the names.
        request: its content, without the table.
        given: what the write leaves in the item, as the decision gave it.
        left: the same in typed values.
        named: what more the request names, in typed values.
    """

    kind: str
    key: Mapping[str, Any]
    request: Mapping[str, Any]
    given: object
    left: Sequence[Mapping[str, Any]]
    named: Sequence[Mapping[str, Any]] = ()


def require_retention(seconds: float | None) -> None:
    """Reject a retention after which a row would expire at once, or beyond what a server counts. Raises ValueError."""
    if seconds is not None and not 1 <= seconds <= LONGEST_RETENTION_SECONDS:
        raise ValueError(
            f"retention_seconds must be from 1 second to 100 years, not {seconds}; None keeps rows for ever"
        )


def declared_keys(keys: Mapping[str, str | tuple[str, ...]] | None) -> dict[str, tuple[str, ...]]:
    """Return the key of each table as the names of its attributes. Raises `ValueError` for what is no key."""
    named = {table: tuple(name for name, _ in _attributes(key)[0]) for table, key in (keys or {}).items()}
    for table, names in named.items():
        if not (0 < len({*names}) == len(names) <= 2 and all(names)):  # noqa: PLR2004 - a partition key and a sort key
            raise ValueError(
                f'the key of {table!r} must be one name, or two for a partition key and a sort key: ("customer", "order")'
            )
    return named


def declared_types(keys: Mapping[str, str | tuple[str, ...]] | None) -> dict[str, dict[str, str]]:
    """Return the types that are declared of each table's attributes: those in its key and in the keys of its indexes."""
    every = {table: [each for part in _attributes(key) for each in part] for table, key in (keys or {}).items()}
    return {table: {name: kind for name, kind in declared if kind} for table, declared in every.items()}


def _attributes(key: str | tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """Return name and type of the key's attributes, and of those of indexes: `customer:S,line:N;email:S`."""
    parts = key.split(";", 1) if isinstance(key, str) else [",".join(key)]
    typed = (":S", ":N", ":B")
    return [
        [(each[:-2], each[-1]) if each.endswith(typed) else (each, "") for each in part.split(",")] for part in parts
    ]


def refuse_key(write: Write, key: Mapping[str, Any], keys: Keys) -> None:
    """Raise `InvalidEffects` for a key that DynamoDB refuses."""
    longest = LONGEST_PARTITION_KEY
    # Where the key is not declared, the longer part is taken for the partition key.
    by_length = sorted(key, key=lambda name: _length(key[name]), reverse=True)
    for name in keys.get(write.table, by_length):
        ((kind, content),) = key[name].items()
        wrong = f"the key {name!r} of a write to {write.table!r}"
        if kind not in ("S", "N", "B"):
            raise InvalidEffects(f"{wrong} must be text, a number or bytes, and not empty")
        if not content:
            raise InvalidContent(f"{wrong} must be text, a number or bytes, and not empty")
        if _length(key[name]) > longest:
            raise InvalidContent(f"{wrong} has more than {longest:,} bytes; use a digest as the key")
        longest = LONGEST_SORT_KEY


def _length(value: Mapping[str, Any]) -> int:
    ((_, content),) = value.items()
    return len(content.encode() if isinstance(content, str) else content) if isinstance(content, str | bytes) else 0


def refuse_sizes(writes: Sequence[Write], elements: Sequence[Element], recorded: Mapping[str, str]) -> None:
    """Raise `InvalidContent` for what exceeds DynamoDB's quotas."""
    total = sum(len(text.encode()) for text in recorded.values())
    if total > MAXIMUM_RESULT_BYTES:
        what = "result and the sends have" if len(recorded) > 1 else "result has"
        raise InvalidContent(f"the {what} {total} bytes, more than {MAXIMUM_RESULT_BYTES}; store the content elsewhere")
    for write, made in zip(writes, elements, strict=True):
        if max(len(made.request.get(f"{kind}Expression", "")) for kind in ("Update", "Condition")) > LONGEST_EXPRESSION:
            raise InvalidContent(
                f"{describe(write)} changes and expects more attributes than DynamoDB's expression of 4 KB names; "
                "keep what belongs together in one attribute, as a mapping"
            )
        left = sum(map(_size, made.left))
        if left > LARGEST_ITEM:
            raise InvalidContent(
                f"an item for {write.table!r} has {left:,} bytes, more than 400 KB; "
                "store the content elsewhere, and its name in the item"
            )
        total += left + sum(map(_size, made.named))
    if total > LARGEST_TRANSACTION:
        raise InvalidContent(f"the writes have {total:,} bytes, more than 4 MB in one transaction; split the message")


def _size(attributes: Mapping[str, Any]) -> int:
    """Return the bytes of attributes, without what DynamoDB adds for a mapping: three, and one for each entry."""
    return size({"M": attributes}) - 3 - len(attributes)


def refuse_repeats(writes: Sequence[Write], elements: Sequence[Element], message_id: str) -> None:
    """Raise `InvalidEffects` for a write that a copy of the message would repeat once the ledger's row has expired.

    A new item whose key holds the message's id prevents that, as `once` does: the copy then fails as a whole.
    """
    if any(_marks(write, made, message_id) for write, made in zip(writes, elements, strict=True)):
        return
    for write in writes:
        if reason := repeats(write):
            raise InvalidEffects(
                f"{describe(write)} {reason}, so a copy of the message that comes after the ledger's row has "
                "expired would repeat it; put `once` beside it, or a Put of a new item with the message's id in its key"
            )


def _marks(write: Write, made: Element, message_id: str) -> bool:
    if not isinstance(write, Put) or write.replace or not message_id:
        return False
    # The id has no letter and no digit beside it: `1` is in `day#1`, and not in `day-a1`.
    named = re.compile(rf"(?<![^\W_]){re.escape(message_id)}(?![^\W_])")
    held = [each for value in made.key.values() for each in value.items()]
    return any(content == message_id or (kind == "S" and named.search(content)) for kind, content in held)


def refuse_overlaps(update: Update, key: Item) -> None:
    """Raise `InvalidEffects` if the update writes its key, or one attribute twice, or one within another."""
    written = [
        path if isinstance(path, tuple) else (path,)
        for path in (*update.set, *update.remove, *update.add, *update.append)
    ]
    above = {path[:length] for path in written for length in range(1, len(path))}
    twice = {path for path, count in Counter(written).items() if count > 1}
    if wrong := {str(path[0]) for path in written if path[0] in key or path in above or path in twice}:
        raise InvalidEffects(
            f"{describe(update)} changes its key, or sets and removes one attribute: {', '.join(sorted(wrong))}; "
            "DynamoDB refuses that"
        )
