"""What a ledger must be able to do, wherever its rows are kept: in DynamoDB, in Valkey or Redis, or in memory.

`tests/oneslot/runtime/stores/test_contract.py` holds all of them to the same behaviour. They differ in what survives: see
docs/stores.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oneslot.runtime.effects import Effects, Item, Put, Update, Write
from oneslot.runtime.stores.dynamodb import (
    Busy,
    Claim,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    InvalidEffects,
    Surroundings,
    Taken,
)


def require_identity(message_id: object, payload_hash: object) -> None:
    """Refuse what is no id, as DynamoDB does by itself. Under one made of nothing, different messages would be the same.

    Raises:
        ValueError: unless the id is text, and not empty.
        TypeError: unless the digest is text. A number's duplicate would be a conflict to a store that keeps texts.
    """
    if not isinstance(message_id, str) or not message_id:
        raise ValueError(
            "the message's id must be text and not empty; where a message has none, raise Unprocessable in its place"
        )
    if not isinstance(payload_hash, str):
        raise TypeError("the digest of the message's content must be text, such as a hexdigest()")


def require_one_write_each(items: Sequence[str]) -> None:
    """Refuse two writes to one item in one commit, as DynamoDB does by itself: both conditions would hold before either.

    Raises:
        InvalidEffects: if one of `items`, the table and key of each write as a text, is there twice.
    """
    if len(set(items)) < len(items):
        raise InvalidEffects("two writes are about one item; a transaction takes one for each: make them one")


def key_of(write: Write) -> Item:
    """The key of the item that is written: a `Put` names its key attribute, an `Update` gives the key.

    Raises:
        InvalidEffects: unless each part of it is text, and not empty: the tables' keys are, and DynamoDB takes no other. Nor
            does it take an update that changes its key, or one attribute twice.
    """
    key = {write.key: write.item[write.key]} if isinstance(write, Put) else write.key
    for name, value in key.items():
        if not isinstance(value, str) or not value:
            raise InvalidEffects(f"the key {name!r} of a write to {write.table!r} must be text and not empty")
    if isinstance(write, Update) and (wrong := {*key} & {*write.set, *write.remove} or {*write.set} & {*write.remove}):
        raise InvalidEffects(
            f"an update of {write.table!r} changes its key, or sets and removes the same: {', '.join(sorted(wrong))}; "
            "DynamoDB refuses that"
        )
    return key


class Store(Protocol):
    """The verbs of the protocol. Times are epoch milliseconds. Each verb is one atomic step."""

    surroundings: Surroundings

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Get the right to work on the message until `lease_until`, or learn who had it, has it, or why nobody may."""

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects, or do nothing and say why."""

    def release(self, claim: Claim) -> bool:
        """End the lease now. False if the claim is no longer ours."""

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` at least. False if it was released, or is no longer ours.

        It never shortens a lease: an extension may land late, behind a longer one.
        """
