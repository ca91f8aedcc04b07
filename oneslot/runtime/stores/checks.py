"""What every ledger refuses before it writes, wherever its rows are kept: DynamoDB, Valkey or Redis, or memory.

`tests/oneslot/runtime/stores/test_contract.py` holds all of them to the same behaviour. docs/do/choose-a-store.md says
how they differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneslot.runtime.effects import InvalidEffects, Item, Put, Update, Write


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
