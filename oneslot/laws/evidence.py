"""What a run of a consumer left behind, in plain Python values, and the laws that judge it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from oneslot.laws.schema import Effect, Key, Row, Schema, Table, is_answer, text_of

IN_PROGRESS, COMPLETE = "IN_PROGRESS", "COMPLETE"
"""The ledger's statuses, as `oneslot.runtime.protocol` defines them; repeated here, where no AWS library is imported."""
LEDGER = "ledger"


@dataclass(frozen=True)
class Evidence:
    """The traces of a run.

    Attributes:
        requests: the message ids that the queue accepted; None without an archive.
        ledger: rows by message_id.
        tables: the rows of the consumer's own tables, by table and key.
        quarantined: message ids with a copy in the dead-letter queue.
        deliveries: lines of the delivery log.
        waiting: message ids that the queue still holds; None if unknown, and then no request counts as lost.
        now: epoch ms; leases that ended earlier are over.
        retention_ms: how long the ledger keeps a row after its last change; None for ever. A request completed longer ago
            needs no row: effects, archive and log outlive it.
        forgotten_before: epoch ms; a request completed earlier needs no row either, from a time of shorter retention.
        schema: the consumer's tables and outcomes.
    """

    requests: Collection[str] | None = None
    ledger: Mapping[str, Row] = field(default_factory=dict)
    tables: Mapping[str, Mapping[Any, Row]] = field(default_factory=dict)
    quarantined: Collection[str] = frozenset()
    deliveries: Sequence[Mapping[str, Any]] = ()
    waiting: Collection[str] | None = None
    now: int = 0
    retention_ms: int | None = None
    forgotten_before: int = 0
    schema: Schema = field(default_factory=Schema)

    def rows(self, table: str) -> Mapping[Any, Row]:
        """Return the rows of one of the consumer's tables, by key."""
        return self.tables.get(table, {})

    def effects(self) -> Iterator[tuple[Table, Key, Effect]]:
        """Yield each effect with the table and the key of its row."""
        for table in self.schema.effect_tables:
            for key, row in self.rows(table.name).items():
                for effect in table.effects(row) if table.effects else ():
                    yield table, key, effect

    def complete(self, message_id: str) -> bool:
        """Return whether the request has a COMPLETE row."""
        return self.ledger.get(message_id, {}).get("status") == COMPLETE

    def may_be_gone(self, since: int) -> bool:
        """Return whether the ledger may have deleted the row of a request completed at `since` (epoch ms)."""
        return since < self.forgotten_before or (self.retention_ms is not None and since + self.retention_ms < self.now)

    def forgotten(self, message_id: str) -> bool:
        """Return whether the request was completed so long ago that its row may be gone."""
        return message_id in self._completed and self.may_be_gone(self._completed[message_id])

    def remembered(self) -> Iterator[Mapping[str, Any]]:
        """Yield the delivery log's lines about rows that still exist, rather than about earlier rows of the same id.

        DynamoDB deletes late: a duplicate's line may be young, and about the row of a request that was sent long ago.
        """

        def since(line: Mapping[str, Any]) -> int:
            return int(line.get("sent", line.get("finished", self.now)))

        renewed = {line["message_id"] for line in self.deliveries if self.may_be_gone(since(line))}
        yield from (line for line in self.deliveries if line["message_id"] not in renewed)

    @cached_property
    def _completed(self) -> Mapping[str, int]:
        """The last completion of each request (epoch ms); 0 where only a duplicate's answer shows it."""
        latest: dict[str, int] = defaultdict(int)
        for line in self.deliveries:
            if is_answer(line["outcome"]) or line["outcome"] == "duplicate":
                finished = line.get("finished", self.now) if is_answer(line["outcome"]) else 0
                latest[line["message_id"]] = max(latest[line["message_id"]], finished)
        for _, _, effect in self.effects():
            latest[effect.request] = max(latest[effect.request], self.now if effect.at is None else effect.at)
        return latest


@dataclass(frozen=True)
class Breach:
    """A broken law, its subject (an id or a key), and how it is broken."""

    invariant: str
    subject: str
    detail: str


Breaches = Callable[[Evidence], Iterable[tuple[str, str]]]
"""A law as a plain function: the evidence → (subject, detail) for each breach."""


@dataclass(frozen=True)
class Law:
    """A law of a consumer. `breaches` is None if no history shows whether it holds."""

    name: str
    sentence: str
    breaches: Breaches | None


def check(evidence: Evidence, laws: Iterable[Law]) -> list[Breach]:
    """Return all breaches, in the order of the laws."""
    return [
        Breach(law.name, subject, detail)
        for law in laws
        if law.breaches is not None
        for subject, detail in law.breaches(evidence)
    ]


def lacking(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yield (table, key, attribute) for each attribute that a law needs and a row lacks or has as another type.

    `check` raises for such a row. Call this first where people may write to the tables.
    """
    for message_id, row in evidence.ledger.items():
        status = row.get("status")
        valid = {
            "status": status in (IN_PROGRESS, COMPLETE),
            "consumption_count": isinstance(row.get("consumption_count"), int),
            "lease_until": status != IN_PROGRESS or isinstance(row.get("lease_until"), int),
        }
        yield from ((LEDGER, message_id, name) for name, holds in valid.items() if not holds)
    for table in evidence.schema.tables.values():
        for key, row in evidence.rows(table.name).items():
            yield from ((table.name, text_of(key), name) for name in table.lacking(row))


def lacks(row: Row, must: Mapping[str, type], may: Mapping[str, type] | None = None) -> Iterator[str]:
    """Yield the attributes that the row lacks or has as another type; those in `may` only if it has them."""
    there = {name: kind for name, kind in (may or {}).items() if name in row}
    yield from (name for name, kind in {**must, **there}.items() if not isinstance(row.get(name), kind))


def result_of(row: Row) -> Mapping[str, Any]:
    """Return the recorded result of a COMPLETE row; empty if it cannot be read."""
    try:
        recorded = json.loads(row.get("result") or "{}")
    except (TypeError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}
