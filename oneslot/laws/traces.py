"""The traces of a run: the ledger, the consumer's tables, the delivery log and the queues, in plain Python values."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from oneslot.laws.form import object_of
from oneslot.laws.schema import Effect, Key, Row, Schema, Table, text_of

IN_PROGRESS, COMPLETE = "IN_PROGRESS", "COMPLETE"
"""The ledger's statuses, as `oneslot.runtime.protocol` defines them; repeated here, where no AWS library is imported."""
LEDGER = "ledger"
PATIENCE_MS = 4 * 24 * 3600 * 1000
"""How long SQS keeps a message, unless a queue is set otherwise."""


class Made(NamedTuple):
    """An effect with the table and the key of its row."""

    table: Table
    key: Key
    row: Row
    effect: Effect


@dataclass(frozen=True)
class Traces:
    """What a run left behind.

    Attributes:
        requests: the message ids that the queue accepted; None without an archive.
        sent: when the producer sent them first (epoch ms), where the archive says so.
        ledger: rows by message_id.
        tables: the rows of the consumer's own tables, by table and key.
        quarantined: message ids with a copy in the dead-letter queue.
        dropped: message ids of which an operator deleted a copy from there.
        deliveries: lines of the delivery log.
        waiting: message ids that the queue still holds; None if unknown. Then a request counts as lost after the patience.
        dead_letters_known: whether `quarantined` is the whole dead-letter queue.
        now: epoch ms; leases that ended earlier are over.
        patience_ms: how long a request may be unseen while the content of the queue is not known.
        retention_ms: how long the ledger keeps a row after its last change; None for ever. A request completed longer ago
            needs no row: effects, archive and log outlive it.
        forgotten_before: epoch ms; a request completed earlier needs no row either, from a time of shorter retention.
        schema: the consumer's tables and outcomes.
    """

    requests: Collection[str] | None = None
    sent: Mapping[str, int] = field(default_factory=dict)
    ledger: Mapping[str, Row] = field(default_factory=dict)
    tables: Mapping[str, Mapping[Any, Row]] = field(default_factory=dict)
    quarantined: Collection[str] = frozenset()
    dropped: Collection[str] = frozenset()
    deliveries: Sequence[Mapping[str, Any]] = ()
    waiting: Collection[str] | None = None
    dead_letters_known: bool = True
    now: int = 0
    patience_ms: int = PATIENCE_MS
    retention_ms: int | None = None
    forgotten_before: int = 0
    schema: Schema = field(default_factory=Schema)

    def rows(self, table: str) -> Mapping[Any, Row]:
        """Return the rows of one of the consumer's tables, by key."""
        return self.tables.get(table, {})

    def effects(self) -> Iterator[Made]:
        """Yield each effect with the table and the key of its row."""
        for table in self.schema.effect_tables:
            for key, row in self.rows(table.name).items():
                for effect in table.effects(row) if table.effects else ():
                    yield Made(table, key, row, effect)

    def complete(self, message_id: str) -> bool:
        """Return whether the request has a COMPLETE row."""
        return self.ledger.get(message_id, {}).get("status") == COMPLETE

    def may_be_gone(self, since: int | None, at: int | None) -> bool:
        """Return whether the ledger may have deleted, at `at`, a row last written at `since` (epoch ms; None: unknown)."""
        if since is None or at is None:
            return False
        return since < self.forgotten_before or (self.retention_ms is not None and since + self.retention_ms < at)

    @cached_property
    def lines(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The lines of the delivery log by request. A line without an id is about none."""
        found = defaultdict(list)
        for line in self.deliveries:
            if line["message_id"] is not None:
                found[line["message_id"]].append(line)
        return found

    @cached_property
    def made(self) -> Mapping[str, Sequence[Made]]:
        """The effects by request; an effect that names none is under the key of its row."""
        found = defaultdict(list)
        for made in self.effects():
            found[made.effect.request or text_of(made.key)].append(made)
        return found

    @cached_property
    def undone(self) -> Mapping[str, str]:
        """The deed by which another request undid a request's effect, such as `cancelled`, by the first one's id."""
        every = (made for several in self.made.values() for made in several)
        return {text_of(key): effect.deed for table, key, _, effect in every if table.by_request and effect.undoes}


def result_of(row: Row) -> Mapping[str, Any]:
    """Return the recorded result of a COMPLETE row; empty if it cannot be read."""
    return object_of(row.get("result")) or {}


def outcome_of(row: Row) -> str:
    """Return the outcome in a row's result; `complete` if it names none."""
    return str(result_of(row).get("outcome", "complete"))
