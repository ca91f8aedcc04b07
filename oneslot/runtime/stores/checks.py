"""What every ledger refuses before it sends anything.

The rules hold wherever the rows are kept: DynamoDB, Valkey or Redis, or memory.

`tests/oneslot/runtime/stores/test_contract.py` holds all of them to the same behaviour. docs/do/choose-a-store.md says
how they differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oneslot.runtime.effects import (
    LEDGER,
    MAXIMUM_RESULT_BYTES,
    MAXIMUM_WRITES,
    Effects,
    InvalidContent,
    InvalidEffects,
    Item,
    Put,
    Result,
    Write,
)
from oneslot.runtime.protocol import Taken
from oneslot.runtime.stores.elements import Element, Keys, describe, element
from oneslot.runtime.values import InvalidValue, canonical_json

# DynamoDB's quotas, in bytes.
LARGEST_ITEM = 409_600
LARGEST_TRANSACTION = 4 * 1_048_576
LONGEST_RETENTION_SECONDS = 100 * 366 * 86_400
LONGEST_PARTITION_KEY, LONGEST_SORT_KEY = 2_048, 1_024
LONGEST_EXPRESSION = 4_096


def require_identity(message_id: object, payload_hash: object) -> None:
    """Reject an id that cannot be a key: one that is empty, for which all such messages would count as one.

    Raises:
        ValueError: unless the id is text of 1 to 2,048 bytes.
        TypeError: unless the digest is text. A store that keeps texts would call a number's duplicate a conflict.
    """
    if not isinstance(message_id, str) or not message_id:
        raise ValueError("the message id must be text and not empty; raise Unprocessable for a message that has none")
    if len(message_id.encode("utf-8", "surrogatepass")) > LONGEST_PARTITION_KEY:
        raise ValueError(f"the message id has more than {LONGEST_PARTITION_KEY:,} bytes; use a digest of it as the id")
    if not isinstance(payload_hash, str):
        raise TypeError("the digest of the message's content must be text, such as a hexdigest()")


def require_retention(seconds: float | None) -> None:
    """Reject a retention after which a row would expire at once, or beyond what a server counts. Raises ValueError."""
    if seconds is not None and not 1 <= seconds <= LONGEST_RETENTION_SECONDS:
        raise ValueError(
            f"retention_seconds must be from 1 second to 100 years, not {seconds}; None keeps rows for ever"
        )


def checked(
    effects: Effects,
    tables: Mapping[str, str] | None = None,
    keys: Keys | None = None,
    *,
    sends: Mapping[str, str] | None = None,
    ledger: str = LEDGER,
    message_id: str = "",
    for_ever: bool = False,
) -> tuple[dict[str, str], list[Element]]:
    """Return what the ledger's row records, and the writes as elements, if DynamoDB would take the effects.

    The row records the result, and the sends if there are any.

    Args:
        tables: the logical names that there are → real ones; None for any.
        keys: the key of each table whose key is declared.
        sends: the targets by their logical names; None for any.
        ledger: the ledger's name, which the sends' ids depend on.
        for_ever: whether the ledger keeps its rows for ever.

    Raises:
        InvalidEffects: if no ledger can commit the effects. The text names the attribute and the remedy, and no value.
        InvalidContent: if they exceed a limit because of the message.
    """
    if not isinstance(effects, Effects):
        raise InvalidEffects(f"the decision returned a {type(effects).__name__}; return Effects")
    writes = effects.all_writes
    if len(writes) > MAXIMUM_WRITES:
        raise InvalidContent(f"{len(writes)} writes, more than {MAXIMUM_WRITES} in one transaction; split the message")
    elements = _checked_elements(writes, tables, keys or {})
    recorded = {"result": _result_text(effects.result)}
    if effects.sends:
        from oneslot.runtime.sends.outbox import SENDS, sends_text  # imported by who sends: a cold start is short

        recorded[SENDS] = sends_text(effects.sends, sends, ledger, message_id)
    total = sum(len(text.encode()) for text in recorded.values())
    if total > MAXIMUM_RESULT_BYTES:
        what = "result and the sends have" if effects.sends else "result has"
        raise InvalidContent(f"the {what} {total} bytes, more than {MAXIMUM_RESULT_BYTES}; store the content elsewhere")
    for write, made in zip(writes, elements, strict=True):
        if made.left > LARGEST_ITEM:
            raise InvalidContent(
                f"an item for {write.table!r} has {made.left:,} bytes, more than 400 KB; "
                "store the content elsewhere, and its name in the item"
            )
        total += made.left + made.named
    if total > LARGEST_TRANSACTION:
        raise InvalidContent(f"the writes have {total:,} bytes, more than 4 MB in one transaction; split the message")
    names = [(tables or {}).get(write.table, write.table) for write in writes]
    if len({item_of(name, made.key) for name, made in zip(names, elements, strict=True)}) < len(writes):
        raise InvalidContent("two writes change the same item; a transaction takes one write for each: merge them")
    if not for_ever and effects.once is None:
        _refuse_repeats(writes, elements, message_id)
    return recorded, elements


def item_of(table: str, key: Mapping[str, Any]) -> tuple[str, str]:
    """Return what names an item: its table's real name, and its typed key as text."""
    return table, repr(sorted((name, *value.items()) for name, value in key.items()))


def _checked_elements(writes: Sequence[Write], tables: Mapping[str, str] | None, keys: Keys) -> list[Element]:
    for table in (getattr(write, "table", "") for write in writes):
        if table == LEDGER:
            raise InvalidEffects(f"a write to {LEDGER!r}, the ledger's own table; call your table by another name")
        if tables is not None and table and table not in tables:
            raise InvalidEffects(f"there is no table {table!r}; name it in `tables`, or in ONESLOT_TABLE_...")
    elements = [element(write, keys) for write in writes]
    for write, made in zip(writes, elements, strict=True):
        if max(map(len, made.expressions)) > LONGEST_EXPRESSION:
            raise InvalidContent(
                f"{describe(write)} changes {made.changed:,} attributes and expects {made.expected:,}, more than "
                "DynamoDB's expression of 4 KB names; keep what belongs together in one attribute, as a mapping"
            )
    for write, made in zip(writes, elements, strict=True):
        _check_key(write, made.key, keys)
    return elements


def _check_key(write: Write, key: Mapping[str, Any], keys: Keys) -> None:
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


def _refuse_repeats(writes: Sequence[Write], elements: Sequence[Element], message_id: str) -> None:
    """Raise `InvalidEffects` for a write that a copy of the message would repeat once the ledger's row has expired.

    A new item whose key holds the message's id prevents that, as `once` does: the copy then fails as a whole.
    """
    if any(_marks(write, made, message_id) for write, made in zip(writes, elements, strict=True)):
        return
    for write, made in zip(writes, elements, strict=True):
        if made.repeats:
            raise InvalidEffects(
                f"{describe(write)} {made.repeats}, so a copy of the message that comes after the ledger's row has "
                "expired would repeat it; put `once` beside it, or a Put of a new item with the message's id in its key"
            )


def _marks(write: Write, made: Element, message_id: str) -> bool:
    if not isinstance(write, Put) or write.replace or not message_id:
        return False
    held = [each for value in made.key.values() for each in value.items()]
    return any(content == message_id or (kind == "S" and _names(content, message_id)) for kind, content in held)


def _names(text: str, message_id: str) -> bool:
    """Return whether the text has the id with no letter and no digit beside it: `1` is in `day#1`, and not in `day-a1`."""
    return re.search(rf"(?<![^\W_]){re.escape(message_id)}(?![^\W_])", text) is not None


def _result_text(result: Result) -> str:
    if not isinstance(result, Mapping) or not all(isinstance(name, str) for name in result):
        raise InvalidEffects('the result must be a mapping with text keys, such as {"outcome": "shipped"}')
    try:
        return canonical_json(result)
    except InvalidValue as error:
        raise InvalidContent(f"a number in the result {error.problem}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEffects(
            "the result cannot be written as JSON; return text, numbers, lists and mappings, moderately nested"
        ) from error


def taken(failed: Sequence[tuple[Write, Callable[[], Item]]]) -> Taken:
    """Return the outcome for the writes whose conditions failed, each with what returns the item found.

    The first one answers, if each of them has an `otherwise`.
    """
    answers = [(write.otherwise, found) for write, found in failed]
    otherwise, found = answers[0]
    if otherwise is None or any(each is None for each, _ in answers):
        return Taken()
    return Taken(lambda: otherwise(found()))
