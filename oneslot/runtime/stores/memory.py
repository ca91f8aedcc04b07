"""A ledger in this process's memory, with tables for the effects: for tests, examples and a first try.

It forgets everything when the process ends, so it protects nothing in production. It refuses whatever DynamoDB would refuse
or would fail to protect, so that a test does not accept code that fails in production.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneslot.runtime.effects import Effects, InvalidEffects, Item, Put, Write
from oneslot.runtime.protocol import (
    COMPLETE,
    IN_PROGRESS,
    Busy,
    Claim,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    Taken,
    conflicts,
)
from oneslot.runtime.stores.checks import checked, key_of, require_identity
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import canonical_json, from_attributes, from_json, to_attributes


class MemoryLedger:
    """The `Store` verbs over dictionaries, one lock around each.

    Attributes:
        rows: the ledger, by message id.
        tables: the items that effects wrote, by logical table name and then by `key_text` of their key.
    """

    def __init__(self, *, surroundings: Surroundings | None = None) -> None:
        self.surroundings = surroundings or Surroundings()
        self.rows: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, dict[str, dict[str, Any]]] = {}
        self._key_names: dict[str, set[str]] = {}
        self._lock = self.surroundings.threads.lock()

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim the message until `lease_until` (epoch ms).

        Raises:
            ValueError: for an id that is empty or not text.
        """
        require_identity(message_id, payload_hash)
        claimed_by = self.surroundings.new_id()
        with self._lock:
            now = self.surroundings.now_ms()
            row = self.rows.get(message_id)
            if row is None:
                row = self.rows[message_id] = {"message_id": message_id, "consumption_count": 0}
            elif conflicts(row["payload_hash"], row["status"], payload_hash):
                return Conflict()
            elif row["status"] == COMPLETE:
                return Duplicate(from_json(row["result"]), row["consumption_count"], row["claimed_by"])
            elif row["lease_until"] >= now:
                return Busy(row["lease_until"] - now)
            count = row["consumption_count"] + 1
            row |= {
                "status": IN_PROGRESS,
                "consumption_count": count,
                "updated": now,
                "lease_until": lease_until,
                "claimed_by": claimed_by,
                "payload_hash": payload_hash,
            }
            return Claim(message_id, claimed_by, count, lease_until)

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects, or nothing.

        Raises:
            InvalidEffects: as the DynamoDB ledger does, and where DynamoDB itself would refuse a write or its condition
                would protect nothing.
        """
        result = checked(effects)
        with self._lock:
            for write in effects.all_writes:
                self._require_one_key(write)
            row = self.rows.get(claim.message_id, {})
            if row.get("status") == COMPLETE:
                if row["claimed_by"] == claim.claimed_by:
                    return Committed(from_json(row["result"]))
                return Duplicate(from_json(row["result"]), row["consumption_count"], row["claimed_by"])
            if row.get("claimed_by") != claim.claimed_by:
                return Fenced(claim)
            refused = [write for write in effects.all_writes if not self._holds(write)]
            if effects.once is not None and effects.once.write in refused:
                return Exists(dict(self._item(effects.once.write) or {}))
            if refused:
                return Taken()
            for write in effects.all_writes:
                self._perform(write)
            row |= {"status": COMPLETE, "updated": self.surroundings.now_ms(), "result": result}
            del row["lease_until"]
            return Committed(from_json(result))

    def release(self, claim: Claim) -> bool:
        """End the lease now."""
        return self._set_lease(claim, 0)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` (epoch ms) at least."""
        return self._set_lease(claim, lease_until, only_longer=True)

    def _set_lease(self, claim: Claim, lease_until: int, *, only_longer: bool = False) -> bool:
        with self._lock:
            row = self.rows.get(claim.message_id, {})
            if row.get("status") != IN_PROGRESS or row["claimed_by"] != claim.claimed_by:
                return False
            if only_longer and (row["lease_until"] == 0 or row["lease_until"] > lease_until):
                return bool(row["lease_until"])
            row |= {"lease_until": lease_until, "updated": self.surroundings.now_ms()}
            return True

    def _require_one_key(self, write: Write) -> None:
        names = set(key_of(write))
        known = self._key_names.setdefault(write.table, names)
        if names != known:
            raise InvalidEffects(
                f"{write.table!r} is written under the key {' and '.join(sorted(names))} and was under "
                f"{' and '.join(sorted(known))}; a table has one key, which `key` must name"
            )

    def _item(self, write: Write) -> dict[str, Any] | None:
        return self.tables.get(write.table, {}).get(key_text(write))

    def _holds(self, write: Write) -> bool:
        item = self._item(write)
        if isinstance(write, Put):
            return item is None
        # Compared as DynamoDB's values: in Python 1 equals True.
        return item is not None and all(
            name in item and to_attributes({name: item[name]}) == to_attributes({name: expected})
            for name, expected in write.expect.items()
        )

    def _perform(self, write: Write) -> None:
        table = self.tables.setdefault(write.table, {})
        if isinstance(write, Put):
            table[key_text(write)] = _as_stored(write.item)
            return
        item = table[key_text(write)]
        item |= _as_stored(write.set)
        for name in write.remove:
            item.pop(name, None)


def _as_stored(item: Item) -> dict[str, Any]:
    return from_attributes(to_attributes(item))


def key_text(write: Write) -> str:
    """Return the written item's key as one text."""
    return item_key(key_of(write))


def item_key(key: Mapping[str, Any]) -> str:
    """Return key attributes and their values as one canonical text."""
    return canonical_json(key)
