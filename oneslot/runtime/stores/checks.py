"""What every ledger refuses before it sends anything, wherever its rows are kept: DynamoDB, Valkey or Redis, or memory.

`tests/oneslot/runtime/stores/test_contract.py` holds all of them to the same behaviour. docs/do/choose-a-store.md says
how they differ.
"""

from __future__ import annotations

from collections.abc import Collection

from oneslot.runtime.effects import Effects, InvalidContent, InvalidEffects, Item, Put, Update, Write, result_text
from oneslot.runtime.stores.expressions import expressions_of
from oneslot.runtime.values import InvalidValue, size, to_attribute

# DynamoDB's quotas, in bytes.
LARGEST_ITEM = 409_600
LARGEST_TRANSACTION = 4 * 1_048_576
LONGEST_RETENTION_SECONDS = 100 * 366 * 86_400
LONGEST_PARTITION_KEY, LONGEST_SORT_KEY = 2_048, 1_024
LONGEST_EXPRESSION = 4_096
FEW_ATTRIBUTES = 128
"""An expression with so many is always short enough, so usual ones are not made twice."""


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


def checked(effects: Effects, tables: Collection[str] | None = None) -> str:
    """Return the result as the ledger records it, if DynamoDB would take the effects.

    Args:
        tables: the logical names that there are; None for any.

    Raises:
        InvalidEffects: if no ledger can commit the effects. The text names the attribute and the remedy, and no value.
        InvalidContent: if they exceed a limit because of the message.
    """
    result = result_text(effects)
    writes = effects.all_writes
    total = len(result) + sum(_checked_size(write, tables) for write in writes)
    if total > LARGEST_TRANSACTION:
        raise InvalidContent(f"the writes have {total:,} bytes, more than 4 MB in one transaction; split the message")
    if len({(write.table, *sorted(key_of(write).items())) for write in writes}) < len(writes):
        raise InvalidContent("two writes change the same item; a transaction takes one write for each: merge them")
    return result


def key_of(write: Write) -> Item:
    """Return the key of the item that is written: a `Put` names its key attribute, an `Update` gives the key."""
    return {write.key: write.item[write.key]} if isinstance(write, Put) else write.key


def _checked_size(write: Write, tables: Collection[str] | None) -> int:
    """Return the bytes that a write sends. Raises as `checked` does."""
    if tables is not None and write.table not in tables:
        raise InvalidEffects(f"there is no table {write.table!r}; name it in `tables`, or in ONESLOT_TABLE_...")
    _check_key(write)
    bytes_of = [_size(write.table, part) for part in _parts(write)]
    if bytes_of[0] > LARGEST_ITEM:
        raise InvalidContent(
            f"an item for {write.table!r} has {bytes_of[0]:,} bytes, more than 400 KB; "
            "store the content elsewhere, and its name in the item"
        )
    if isinstance(write, Update):
        _check_expressions(write)
    return sum(bytes_of)


def _check_expressions(update: Update) -> None:
    changed, expected = len(update.set) + len(update.remove), len(update.expect)
    if changed + expected > FEW_ATTRIBUTES and max(map(len, expressions_of(update))) > LONGEST_EXPRESSION:
        raise InvalidContent(
            f"an update of {update.table!r} changes {changed:,} attributes and expects {expected:,}, more than DynamoDB's "
            "expression of 4 KB names; keep what belongs together in one attribute, as a mapping"
        )


def _parts(write: Write) -> tuple[Item, ...]:
    """Return what the write leaves in the item, then what it only names."""
    if isinstance(write, Put):
        return (write.item,)
    return {**write.key, **write.set}, {**dict.fromkeys(write.remove), **write.expect}


def _size(table: str, item: Item) -> int:
    try:
        # As a mapping, without what DynamoDB adds for one: three bytes, and one for each entry.
        return size(to_attribute(item)) - 3 - len(item)
    except InvalidValue as error:
        what = f"{error.place!r} in {table!r}" if error.path else f"a write to {table!r}"
        text = f"{what} {error.problem}"
        raise (InvalidContent(text) if error.of_content else InvalidEffects(text)) from None


def _check_key(write: Write) -> None:
    key = key_of(write)
    if not key:
        raise InvalidEffects(f"an update of {write.table!r} has no key; name the item's key attributes in `key`")
    longest = LONGEST_PARTITION_KEY
    for name, value in sorted(key.items(), key=_length, reverse=True):
        if not isinstance(value, str):
            raise InvalidEffects(f"the key {name!r} of a write to {write.table!r} must be text and not empty")
        if not value:
            raise InvalidContent(f"the key {name!r} of a write to {write.table!r} must be text and not empty")
        if _length((name, value)) > longest:
            raise InvalidContent(
                f"the key {name!r} of a write to {write.table!r} has more than {longest:,} bytes; use a digest as the key"
            )
        longest = LONGEST_SORT_KEY  # of a key's two parts, one is the sort key
    if isinstance(write, Update) and (wrong := {*key} & {*write.set, *write.remove} or {*write.set} & {*write.remove}):
        raise InvalidEffects(
            f"an update of {write.table!r} changes its key, or sets and removes one attribute: {', '.join(sorted(wrong))}; "
            "DynamoDB refuses that"
        )


def _length(part: tuple[str, object]) -> int:
    value = part[1]
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 0
