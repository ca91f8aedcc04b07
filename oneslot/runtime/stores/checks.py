"""A decision's writes: what every ledger refuses before it sends anything, and the words that DynamoDB has for them.

The rules hold wherever the rows are kept: DynamoDB, Valkey or Redis, or memory.

`tests/oneslot/runtime/stores/test_contract.py` holds all of them to the same behaviour. docs/do/choose-a-store.md says
how they differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    Update,
    Write,
)
from oneslot.runtime.values import InvalidValue, canonical_json, size, to_attribute, to_attributes

# DynamoDB's quotas, in bytes.
LARGEST_ITEM = 409_600
LARGEST_TRANSACTION = 4 * 1_048_576
LONGEST_RETENTION_SECONDS = 100 * 366 * 86_400
LONGEST_PARTITION_KEY, LONGEST_SORT_KEY = 2_048, 1_024
LONGEST_EXPRESSION = 4_096
FEW_ATTRIBUTES = 128
"""An expression of up to this many attributes is always short enough, so only longer ones are measured."""
_OF_VALUES = ("Item", "Key", "ExpressionAttributeValues")
"""The parts of a request that hold values."""


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
    if not isinstance(effects, Effects):
        raise InvalidEffects(f"the decision returned a {type(effects).__name__}; return Effects")
    writes = effects.all_writes
    if len(writes) > MAXIMUM_WRITES:
        raise InvalidContent(f"{len(writes)} writes, more than {MAXIMUM_WRITES} in one transaction; split the message")
    for write in writes:
        _check_form(write, tables)
    items = {(write.table, *sorted(key_of(write).items())) for write in writes}
    parts = [_parts(write) for write in writes]
    result = _result_text(effects.result)
    total = len(result)
    for write, (left, *named) in zip(writes, parts, strict=True):
        try:
            # As mappings, without what DynamoDB adds for one: three bytes, and one for each entry.
            of_item, *others = [size(to_attribute(part)) - 3 - len(part) for part in (left, *named)]
        except InvalidValue as error:
            raise _refused(error, write.table) from None
        if of_item > LARGEST_ITEM:
            raise InvalidContent(
                f"an item for {write.table!r} has {of_item:,} bytes, more than 400 KB; "
                "store the content elsewhere, and its name in the item"
            )
        total += of_item + sum(others)
    if total > LARGEST_TRANSACTION:
        raise InvalidContent(f"the writes have {total:,} bytes, more than 4 MB in one transaction; split the message")
    if len(items) < len(writes):
        raise InvalidContent("two writes change the same item; a transaction takes one write for each: merge them")
    return result


def key_of(write: Write) -> Item:
    """Return the key of the item that is written: a `Put` names its key attribute, an `Update` gives the key."""
    return {write.key: write.item[write.key]} if isinstance(write, Put) else write.key


def _check_form(write: Write, tables: Collection[str] | None) -> None:
    if write.table == LEDGER:
        raise InvalidEffects(f"a write to {LEDGER!r}, the ledger's own table; call your table by another name")
    if tables is not None and write.table not in tables:
        raise InvalidEffects(f"there is no table {write.table!r}; name it in `tables`, or in ONESLOT_TABLE_...")
    _check_key(write)
    if isinstance(write, Update):
        _check_expressions(write)


def _check_expressions(update: Update) -> None:
    changed, expected = len(update.set) + len(update.remove), len(update.expect)
    if changed + expected > FEW_ATTRIBUTES and max(map(len, _update_expressions(update)[:2])) > LONGEST_EXPRESSION:
        raise InvalidContent(
            f"an update of {update.table!r} changes {changed:,} attributes and expects {expected:,}, more than DynamoDB's "
            "expression of 4 KB names; keep what belongs together in one attribute, as a mapping"
        )


def _parts(write: Write) -> tuple[Item, ...]:
    """Return what the write leaves in the item, then what it only names."""
    if isinstance(write, Put):
        return (write.item,)
    return {**write.key, **write.set}, {**dict.fromkeys(write.remove), **write.expect}


def _refused(error: InvalidValue, table: str) -> InvalidEffects:
    what = f"{error.place!r} in {table!r}" if error.path else f"a write to {table!r}"
    text = f"{what} {error.problem}"
    return InvalidContent(text) if error.of_content else InvalidEffects(text)


def _result_text(result: Result) -> str:
    if not isinstance(result, Mapping) or not all(isinstance(name, str) for name in result):
        raise InvalidEffects('the result must be a mapping with text keys, such as {"outcome": "shipped"}')
    try:
        text = canonical_json(result)
    except InvalidValue as error:
        raise InvalidContent(f"a number in the result {error.problem}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEffects(
            "the result cannot be written as JSON; return text, numbers, lists and mappings, moderately nested"
        ) from error
    if len(text) > MAXIMUM_RESULT_BYTES:
        raise InvalidContent(f"the result has {len(text)} bytes, more than {MAXIMUM_RESULT_BYTES}; store it elsewhere")
    return text


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


def transact_items(writes: Iterable[Write], tables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the writes as `TransactItems`; `tables` maps logical names to real ones."""
    requests = [_request(write, tables) for write in writes]
    return [
        {kind: {**request, **{name: to_attributes(request[name]) for name in _OF_VALUES if name in request}}}
        for kind, request in requests
    ]


def _request(write: Write, tables: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of one element of `TransactItems`, still with plain values.

    A refusal returns the item found (`ALL_OLD`), so that no further read is needed to explain it.
    """
    table = {"TableName": tables[write.table], "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    if isinstance(write, Put):
        absent = {"ConditionExpression": "attribute_not_exists(#key)", "ExpressionAttributeNames": {"#key": write.key}}
        return "Put", {**table, "Item": write.item, **absent}
    change, condition, names, values = _update_expressions(write)
    return "Update", {
        **table,
        "Key": write.key,
        "UpdateExpression": change,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _update_expressions(update: Update) -> tuple[str, str, dict[str, str], dict[str, Any]]:
    """Return what changes, the condition, the attributes' names, and the values."""
    names: dict[str, str] = {}
    values: dict[str, Any] = {}

    # Numbered, because an attribute's name may hold characters that a placeholder must not.
    def name(attribute: str) -> str:
        return names.setdefault(attribute, f"#n{len(names)}")

    def equals(attribute: str, value: Any) -> str:
        placeholder = f":v{len(values)}"
        values[placeholder] = value
        return f"{name(attribute)} = {placeholder}"

    clauses = []
    if update.set:
        clauses.append("SET " + ", ".join(equals(*pair) for pair in update.set.items()))
    if update.remove:
        clauses.append("REMOVE " + ", ".join(name(attribute) for attribute in update.remove))
    condition = " AND ".join(equals(*pair) for pair in update.expect.items())
    return " ".join(clauses), condition, {placeholder: attribute for attribute, placeholder in names.items()}, values
