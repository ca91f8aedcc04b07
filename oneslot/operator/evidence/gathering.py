"""Gather the evidence of a stack: tables, delivery log, dead letters, and the archive of accepted requests."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import declared
from oneslot.laws.evidence import Evidence
from oneslot.laws.form import UNIDENTIFIED_PREFIX
from oneslot.operator.evidence.dead_letters import count_hidden, list_dead_letters
from oneslot.operator.evidence.deliveries import valid_deliveries
from oneslot.operator.evidence.malformed import Malformed
from oneslot.operator.evidence.operator_log import drops, sent_as
from oneslot.operator.evidence.tables import Missing, scan, unless_missing
from oneslot.operator.evidence.unsent import Undelivered, find_undelivered
from oneslot.operator.sending.archive import AcceptedRequest, read_archive
from oneslot.operator.target import Target, ledger_forgotten_before, ledger_retention_seconds
from oneslot.runtime.sqs.dead_letters import DeadLetter
from oneslot.runtime.sqs.queue import QueueDepth, queue_depth

# A log line may be this much older than the first archived request, because the clocks differ.
CLOCK_DIFFERENCE_MS = 60_000


@dataclass(frozen=True)
class Gathered:
    """The evidence for the invariants, and what a verdict needs beside it.

    Attributes:
        accepted: the archive, as far back as the ledger's retention; None if it has no request of that time, as without
            `oneslot send`.
        queue: the depth of the queue when reading began; if that was empty, when reading ended.
        too_old: number of archived requests before the ledger's retention, which ledger and log may have forgotten.
        hidden: about how many dead letters the queue did not show.
        malformed_lines: malformed attributes of the delivery log's lines, which are not part of the evidence.
        missing: missing tables; the evidence has no rows of them.
        undelivered: the messages that follow commits and wait for their targets.
    """

    evidence: Evidence
    accepted: Sequence[AcceptedRequest] | None
    dead_letters: Sequence[DeadLetter]
    queue: QueueDepth
    too_old: int = 0
    hidden: int = 0
    malformed_lines: Sequence[Malformed] = ()
    missing: Sequence[Missing] = ()
    declaration: Declaration = field(default_factory=declared)
    undelivered: Undelivered | None = None

    @property
    def complete(self) -> bool:
        """Return whether every message in a queue is known, so that a request found nowhere is lost."""
        return self.queue.empty and not self.hidden


def gather(target: Target, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> Gathered:
    """Read all evidence, the tables in parallel, into about 2 KB of memory for each request.

    Raises `OneslotError` if the consumer's settings about the ledger's retention are missing or invalid.
    """
    outputs = target.outputs
    # The archive first, so that no request is expected that was sent during the reading.
    archived = list(read_archive(target.archive, target.identity))
    queue = queue_depth(target.sqs, outputs.queue_url)
    seconds = ledger_retention_seconds(target)
    retention_ms = None if seconds is None else seconds * 1000
    forgotten_before = ledger_forgotten_before(target, now_ms())
    since = max(0, min((line.sent for line in archived), default=0) - CLOCK_DIFFERENCE_MS)
    schema = target.declaration.schema
    with ThreadPoolExecutor(4, "gather") as executor:
        tables = {table: executor.submit(_rows, target, table, *named) for table, named in target.tables.items()}
        dead_letters = executor.submit(list_dead_letters, target)
        malformed_lines: list[Malformed] = []
        deliveries = list(valid_deliveries(target, malformed_lines, since_ms=since))
    found = {name: each.result() for name, each in tables.items()}
    rows = {name: [] if isinstance(each, Missing) else each for name, each in found.items()}
    letters = dead_letters.result()
    hidden = count_hidden(target, len(letters))
    if queue.empty:  # a redrive may have moved messages to it before the dead-letter queue was read
        queue = queue_depth(target.sqs, outputs.queue_url)
    dropped = {line.get("message_id") or UNIDENTIFIED_PREFIX + sent_as(line) for line in drops(target)}
    evidence = Evidence(
        ledger={row["message_id"]: row for row in rows["ledger"]},
        tables={name: table.by_key(rows[name]) for name, table in schema.tables.items()},
        quarantined={letter.message_id for letter in letters if letter.message_id},
        dropped=dropped,
        deliveries=deliveries,
        # SQS cannot list a queue, so what waits is known only when both queues are empty or shown.
        waiting=frozenset() if queue.empty and not hidden else None,
        dead_letters_known=not hidden,
        now=now_ms(),
        retention_ms=retention_ms,
        forgotten_before=forgotten_before,
        schema=schema,
    )
    accepted = [line for line in archived if not evidence.may_be_gone(line.sent, evidence.now)] or None
    sent: dict[str, int] = {}
    for line in accepted or ():
        if message_id := line.request.message_id:
            sent[message_id] = min(line.sent, sent.get(message_id, line.sent))
    return Gathered(
        replace(evidence, requests=None if accepted is None else set(sent), sent=sent),
        accepted,
        letters,
        queue,
        len({line.subject for line in archived} - {line.subject for line in accepted or ()}),
        hidden,
        malformed_lines,
        [each for each in found.values() if isinstance(each, Missing)],
        target.declaration,
        find_undelivered(target, rows["ledger"]),
    )


def _rows(target: Target, table: str, name: str, attributes: Sequence[str]) -> list[dict[str, Any]] | Missing:
    return unless_missing(lambda: list(scan(target.dynamodb, name, attributes)), table, name)
