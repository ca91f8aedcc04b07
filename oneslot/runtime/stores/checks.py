"""What every ledger refuses before it writes, wherever its rows are kept: DynamoDB, Valkey or Redis, or memory.

`tests/oneslot/runtime/stores/test_contract.py` holds all of them to the same behaviour; docs/stores.md says how they differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from oneslot.runtime.effects import Effects, Item, Put, Update, Write
from oneslot.runtime.protocol import InvalidEffects

LEDGER = "ledger"
"""The ledger's own table among the logical names; no decision may write to it."""

MAXIMUM_RESULT_BYTES = 390_000
"""A DynamoDB item holds 400 KB (its quota page); the row's other attributes need less than 10 KB."""

MAXIMUM_WRITES = 99
"""TransactWriteItems takes 100 items; one is the ledger's row."""


def result_text(effects: Effects) -> str:
    """Return the result as the JSON text that the ledger records.

    Raises:
        InvalidEffects: if the effects cannot be committed by any ledger; the message names the remedy.
    """
    if not isinstance(effects, Effects):
        raise InvalidEffects(f"the decision returned a {type(effects).__name__}; return Effects")
    if not isinstance(effects.result, Mapping) or not all(isinstance(name, str) for name in effects.result):
        raise InvalidEffects('the result must be a mapping with text keys, such as {"outcome": "shipped"}')
    try:
        result = json.dumps(effects.result, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEffects(
            "the result cannot be written as JSON; return text, numbers, lists and mappings, moderately nested"
        ) from error
    if len(result) > MAXIMUM_RESULT_BYTES:
        raise InvalidEffects(
            f"the result has {len(result)} bytes, more than {MAXIMUM_RESULT_BYTES}; store it elsewhere"
        )
    if len(effects.all_writes) > MAXIMUM_WRITES:
        raise InvalidEffects(f"{len(effects.all_writes)} writes, more than {MAXIMUM_WRITES} in one transaction")
    if any(write.table == LEDGER for write in effects.all_writes):
        raise InvalidEffects(f"a write to {LEDGER!r}, the ledger's own table; call your table by another name")
    return result


def require_identity(message_id: object, payload_hash: object) -> None:
    """Reject an empty id, as DynamoDB does: all such messages would count as one.

    Raises:
        ValueError: unless the id is text and not empty.
        TypeError: unless the digest is text. A store that keeps texts would call a number's duplicate a conflict.
    """
    if not isinstance(message_id, str) or not message_id:
        raise ValueError("the message id must be text and not empty; raise Unprocessable for a message that has none")
    if not isinstance(payload_hash, str):
        raise TypeError("the digest of the message's content must be text, such as a hexdigest()")


def require_one_write_each(items: Sequence[str]) -> None:
    """Reject two writes to one item in one commit, as DynamoDB does: both conditions would be checked before either write.

    Args:
        items: the table and key of each write, as one text.

    Raises:
        InvalidEffects: if an item appears twice.
    """
    if len(set(items)) < len(items):
        raise InvalidEffects("two writes change the same item; a transaction takes one write for each: merge them")


def key_of(write: Write) -> Item:
    """Return the key of the item that is written: a `Put` names its key attribute, an `Update` gives the key.

    Raises:
        InvalidEffects: unless each part of the key is text and not empty; and for an update that changes its key or one
            attribute twice. DynamoDB refuses the same.
    """
    key = {write.key: write.item[write.key]} if isinstance(write, Put) else write.key
    for name, value in key.items():
        if not isinstance(value, str) or not value:
            raise InvalidEffects(f"the key {name!r} of a write to {write.table!r} must be text and not empty")
    if isinstance(write, Update) and (wrong := {*key} & {*write.set, *write.remove} or {*write.set} & {*write.remove}):
        raise InvalidEffects(
            f"an update of {write.table!r} changes its key, or sets and removes one attribute: {', '.join(sorted(wrong))}; "
            "DynamoDB refuses that"
        )
    return key
