"""Gathers what a stack left behind: tables, delivery log, dead letters, and the archive of what its queue accepted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from appointments.invariants import Evidence
from oneslot.evidence.consumer_configuration import ledger_forgotten_before, ledger_retention_seconds
from oneslot.evidence.deliveries import sound_deliveries
from oneslot.evidence.missing import Missing, unless_missing
from oneslot.evidence.scanning import APPOINTMENTS, LEDGER, SLOTS, scan
from oneslot.evidence.stack_dead_letters import letters_of
from oneslot.evidence.unusable import Table, Unusable
from oneslot.repair.operator_log import dropped
from oneslot.runtime.sqs.dead_letters import DeadLetter, waiting_behind
from oneslot.runtime.sqs.queue_depth import QueueDepth, queue_depth
from oneslot.sending.archive import AcceptedRequest, read_archive
from oneslot.target import Target

# How much older than its first archived request a log line may be, for clocks that differ.
CLOCK_DIFFERENCE_MS = 60_000


@dataclass(frozen=True)
class Gathered:
    """The evidence in the invariants' shape, and what they do not look at.

    Attributes:
        accepted: the archive, as far back as the ledger's retention; None if it has nothing of that time, as when nobody
            sent with `oneslot send`.
        queue: what the queue held when the reading began; where that was nothing, when it ended.
        too_old: how many requests of the archive are older: neither ledger nor log need still know them.
        behind: about how many dead letters a FIFO queue did not show, because others of their groups are before them.
        unusable_lines: what lines of the delivery log lack; those are not among the evidence.
        missing: tables that are not there; the evidence has no row of them.
    """

    evidence: Evidence
    accepted: Sequence[AcceptedRequest] | None
    dead_letters: Sequence[DeadLetter]
    queue: QueueDepth
    too_old: int = 0
    behind: int = 0
    unusable_lines: Sequence[Unusable] = ()
    missing: Sequence[Missing] = ()

    @property
    def complete(self) -> bool:
        """Whether every message that a queue holds is known, so that what is nowhere is lost."""
        return self.queue.empty and not self.behind


def gather(target: Target, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> Gathered:
    """Read everything; the tables in parallel. It all stays in memory: about 2 KB for each request.

    Raises `OneslotError` if the consumer does not say how long its ledger keeps a row, or says what cannot be.
    """
    outputs = target.outputs
    # First the archive: what is sent from now on is not asked for.
    archived = list(read_archive(target.archive, target.identity))
    queue = queue_depth(target.sqs, outputs.queue_url)
    seconds = ledger_retention_seconds(target)
    retention_ms = None if seconds is None else seconds * 1000
    forgotten_before = ledger_forgotten_before(target, now_ms())
    since = max(0, min((line.sent for line in archived), default=0) - CLOCK_DIFFERENCE_MS)
    with ThreadPoolExecutor(4, "gather") as executor:
        ledger = executor.submit(_rows, target, outputs.ledger_table_name, "ledger", LEDGER)
        slots = executor.submit(_rows, target, outputs.slots_table_name, "slots", SLOTS)
        appointments = executor.submit(_rows, target, outputs.appointments_table_name, "appointments", APPOINTMENTS)
        dead_letters = executor.submit(letters_of, target)
        unusable_lines: list[Unusable] = []
        deliveries = list(sound_deliveries(target, unusable_lines, since_ms=since))
    tables = [each.result() for each in (ledger, slots, appointments)]
    rows = [[] if isinstance(each, Missing) else each for each in tables]
    letters = dead_letters.result()
    behind = waiting_behind(target.sqs, outputs.dead_letter_queue_url, len(letters))
    if queue.empty:  # a redrive since then took messages out of the dead-letter queue before that was looked at
        queue = queue_depth(target.sqs, outputs.queue_url)
    now = now_ms()
    evidence = Evidence(
        ledger={row["message_id"]: row for row in rows[0]},
        slots={(row["practice"], row["slot_id"]): row for row in rows[1]},
        appointments={row["appointment_id"]: row for row in rows[2]},
        # What a person dropped from there, by the audit trail, is not lost: somebody answers for it.
        quarantined={letter.message_id for letter in letters if letter.message_id} | set(dropped(target)),
        deliveries=deliveries,
        # Which messages a queue holds cannot be asked; that it holds none that we do not know can.
        waiting=frozenset() if queue.empty and not behind else None,
        now=now,
        retention_ms=retention_ms,
        forgotten_before=forgotten_before,
    )
    accepted = [line for line in archived if not evidence.may_be_gone(line.sent)] or None
    requests = accepted and {line.request.message_id for line in accepted if line.request.message_id}
    return Gathered(
        replace(evidence, requests=requests),
        accepted,
        letters,
        queue,
        len(archived) - len(accepted or ()),
        behind,
        unusable_lines,
        [each for each in tables if isinstance(each, Missing)],
    )


def _rows(target: Target, name: str, table: Table, attributes: Sequence[str]) -> list[dict[str, Any]] | Missing:
    return unless_missing(lambda: list(scan(target.dynamodb, name, attributes)), table, name)
