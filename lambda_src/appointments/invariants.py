"""The invariants: one list for the explorer, the simulation, the local check and the audit.

Each invariant reads `Evidence`, what a run left behind, and yields a sentence for each breach. Invariants about calls and
interleavings have no `breaches`, because no history shows them: the explorer checks those, and the simulation those named Q.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from appointments.outcomes import ANSWERED
from appointments.slot_choice import free_key
from appointments.statuses import BOOKED, BUSY, CANCELLED, COMPLETE, FREE, IN_PROGRESS, WAITLIST

TIMES = ("start", "end")
PLACE = ("practice", "slot_id", *TIMES)
"""Place and time of an appointment; the recorded answer names the same."""
_STATUSES: Mapping[str, Collection[str]] = {
    "ledger": (IN_PROGRESS, COMPLETE),
    "slots": (FREE, BUSY),
    "appointments": (BOOKED, WAITLIST, CANCELLED),
}


@dataclass(frozen=True)
class Evidence:
    """The traces of a run, in plain Python values.

    Attributes:
        requests: the message ids that the queue accepted; None without an archive.
        ledger: rows by message_id. appointments: by appointment_id. slots: by (practice, slot_id).
        quarantined: message ids with a copy in the dead-letter queue.
        deliveries: lines of the delivery log.
        waiting: message ids that the queue still holds; None if unknown, and then no request counts as lost.
        now: epoch ms; leases that ended earlier are over.
        retention_ms: how long the ledger keeps a row after its last change; None for ever. A request completed longer ago
            needs no row: appointments, archive and log outlive it.
        forgotten_before: epoch ms; a request completed earlier needs no row either, from a time of shorter retention.
    """

    requests: Collection[str] | None = None
    ledger: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    slots: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    appointments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quarantined: Collection[str] = frozenset()
    deliveries: Sequence[Mapping[str, Any]] = ()
    waiting: Collection[str] | None = None
    now: int = 0
    retention_ms: int | None = None
    forgotten_before: int = 0

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
            if line["outcome"] in ANSWERED | {"duplicate"}:
                finished = line.get("finished", self.now) if line["outcome"] in ANSWERED else 0
                latest[line["message_id"]] = max(latest[line["message_id"]], finished)
        for appointment_id, appointment in self.appointments.items():
            if appointment.get("practice"):
                latest[appointment_id] = max(latest[appointment_id], appointment.get("created", self.now))
            if canceller := appointment.get("cancelled_by"):
                latest[canceller] = max(latest[canceller], appointment.get("updated", self.now))
        return latest


@dataclass(frozen=True)
class Breach:
    """A broken invariant, its subject (a message or slot id), and how it is broken."""

    invariant: str
    subject: str
    detail: str


@dataclass(frozen=True)
class Invariant:
    """A law of the system. `breaches` yields (subject, detail); None if no history shows it."""

    name: str
    sentence: str
    breaches: Callable[[Evidence], Iterator[tuple[str, str]]] | None


def check(evidence: Evidence) -> list[Breach]:
    """Return all breaches, in the order of `INVARIANTS`."""
    return [
        Breach(invariant.name, subject, detail)
        for invariant in INVARIANTS
        if invariant.breaches is not None
        for subject, detail in invariant.breaches(evidence)
    ]


def lacking(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yield (table, key, attribute) for each attribute that an invariant needs and a row lacks or has as another type.

    `check` raises for such a row. Call this first where people may write to the tables.
    """
    for message_id, row in evidence.ledger.items():
        of_status: dict[str, type] = {"lease_until": int} if row.get("status") == IN_PROGRESS else {}
        yield from _lacks("ledger", message_id, row, {"status": str, "consumption_count": int, **of_status}, {})
    for (practice, slot_id), slot in evidence.slots.items():
        yield from _lacks("slots", f"{practice}/{slot_id}", slot, {"status": str}, {"appointment_id": str})
    for appointment_id, appointment in evidence.appointments.items():
        of_status = {"practice": str, "slot_id": str} if appointment.get("status") == BOOKED else {}
        others = {"created": int, "updated": int, "cancelled_by": str}
        yield from _lacks("appointments", appointment_id, appointment, {"status": str, **of_status}, others)


def _lacks(
    table: str, key: str, row: Mapping[str, Any], must: Mapping[str, type], may: Mapping[str, type]
) -> Iterator[tuple[str, str, str]]:
    there = {name: kind for name, kind in may.items() if name in row}
    for name, kind in {**must, **there}.items():
        if not isinstance(row.get(name), kind) or (name == "status" and row[name] not in _STATUSES[table]):
            yield table, key, name


def result_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the recorded result of a COMPLETE row; empty if it cannot be read."""
    try:
        recorded = json.loads(row.get("result") or "{}")
    except (TypeError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def _one_slot_per_request(evidence: Evidence) -> Iterator[tuple[str, str]]:
    held = defaultdict(list)
    for (_, slot_id), slot in evidence.slots.items():
        if slot.get("appointment_id"):
            held[slot["appointment_id"]].append(slot_id)
    for appointment_id, slots in held.items():
        if len(slots) > 1:
            yield appointment_id, f"holds {len(slots)} slots"


def _nothing_lost(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.requests is None or evidence.waiting is None:
        return
    for message_id in evidence.requests:
        complete = evidence.ledger.get(message_id, {}).get("status") == COMPLETE
        held = message_id in evidence.quarantined or message_id in evidence.waiting
        if not complete and not held and not evidence.forgotten(message_id):
            yield message_id, "accepted by the queue, and now nowhere: no result, not waiting, not quarantined"


def _one_appointment_per_slot(evidence: Evidence) -> Iterator[tuple[str, str]]:
    holders = defaultdict(list)
    for appointment_id, appointment in evidence.appointments.items():
        if appointment["status"] == BOOKED:
            holders[appointment["practice"], appointment["slot_id"]].append(appointment_id)
    for (practice, slot_id), appointment_ids in holders.items():
        if len(appointment_ids) > 1:
            yield f"{practice}/{slot_id}", f"booked by {len(appointment_ids)} appointments"


def _busy_means_held(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for (practice, slot_id), slot in evidence.slots.items():
        holder = evidence.appointments.get(slot.get("appointment_id", ""), {})
        is_held = (holder.get("status"), holder.get("practice"), holder.get("slot_id")) == (BOOKED, practice, slot_id)
        if slot["status"] == BUSY and not is_held:
            yield f"{practice}/{slot_id}", "busy, and no booked appointment holds it"
        if slot["status"] == FREE and (slot.get("appointment_id") or not _findable(slot)):
            yield f"{practice}/{slot_id}", "free, but it names an appointment or cannot be found as what it is"
    for appointment_id, appointment in evidence.appointments.items():
        if appointment["status"] == BOOKED:
            held = evidence.slots.get((appointment["practice"], appointment["slot_id"]), {})
            if held.get("status") != BUSY or held.get("appointment_id") != appointment_id:
                yield appointment_id, "booked, and its slot is not busy with it"
            elif _differ(appointment, held, TIMES):
                yield appointment_id, "booked, and its slot is at another time"


def _findable(slot: Mapping[str, Any]) -> bool:
    try:
        return slot.get("free_key") == free_key(slot)
    except KeyError:  # without these attributes a slot has no key
        return False


def _complete_means_done(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for message_id, row in evidence.ledger.items():
        if row["status"] != COMPLETE:
            continue
        result = result_of(row)
        appointment_id = str(result.get("appointment_id", ""))
        appointment = evidence.appointments.get(appointment_id, {})
        status, outcome = appointment.get("status"), result.get("outcome")
        own = appointment_id == message_id
        made = bool(evidence.appointments.get(message_id, {}).get("practice"))
        agrees = {
            "booked": own and status in (BOOKED, CANCELLED) and not _differ(appointment, result, PLACE),
            "waitlist": own and status in (WAITLIST, CANCELLED) and not _differ(appointment, result, PLACE),
            "cancelled": own or not made,
            "refused": own and not made and status in (None, CANCELLED),
        }.get(str(outcome), False)
        if outcome == "cancelled" and status != CANCELLED:
            yield appointment_id, f"cancelled by {message_id}, which is COMPLETE, but it is {status or 'not there'}"
        if not agrees:
            is_not = f"is {status or 'not there'}, or not what was answered"
            yield message_id, f"COMPLETE with outcome {outcome}, but its appointment {is_not}"
    for appointment_id, appointment in evidence.appointments.items():
        canceller = _canceller(appointment)
        row = evidence.ledger.get(canceller or "", {})
        if canceller and row.get("status") == COMPLETE:
            result = result_of(row)
            if (result.get("outcome"), result.get("appointment_id")) != ("cancelled", appointment_id):
                yield canceller, f"its recorded answer is not that {appointment_id}, which names it, is cancelled"


def _done_means_complete(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for appointment_id, appointment in evidence.appointments.items():
        maker = appointment_id if appointment.get("practice") else None
        for author, deed in ((maker, "made"), (_canceller(appointment), "cancelled")):
            complete = evidence.ledger.get(author or "", {}).get("status") == COMPLETE
            if author is not None and not complete and not evidence.forgotten(author):
                yield author or appointment_id, f"{deed} appointment {appointment_id}, and has no COMPLETE row"


def _canceller(appointment: Mapping[str, Any]) -> str | None:
    """Return the request that cancelled an appointment; empty if none is named, None if it is not cancelled."""
    return appointment.get("cancelled_by", "") if appointment["status"] == CANCELLED else None


def _differ(one: Mapping[str, Any], other: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(one.get(name) != other.get(name) for name in names)


def _complete_stays(evidence: Evidence) -> Iterator[tuple[str, str]]:
    completed = {line["message_id"] for line in evidence.deliveries if line["outcome"] in ANSWERED | {"duplicate"}}
    for message_id in completed:
        if evidence.ledger.get(message_id, {}).get("status") != COMPLETE and not evidence.forgotten(message_id):
            yield message_id, "a delivery completed it, and its row no longer says so"


def _same_answer(evidence: Evidence) -> Iterator[tuple[str, str]]:
    answers, outcomes = defaultdict(set), defaultdict(set)
    for line in evidence.remembered():
        if line.get("answer"):
            answers[line["message_id"]].add(line["answer"])
        if line["outcome"] in ANSWERED:
            outcomes[line["message_id"]].add(line["outcome"])
    broken = {
        message_id: f"its deliveries were given {len(given)} different answers"
        for message_id, given in answers.items()
        if len(given) > 1
    }
    for message_id, said in outcomes.items():
        row = evidence.ledger.get(message_id, {})
        result = result_of(row) if row.get("status") == COMPLETE else {}
        kept, own = str(result.get("outcome")), result.get("appointment_id") == message_id
        # I5 judges a row that holds another request's answer.
        if (kept == "cancelled" or (own and kept in ANSWERED)) and said != {kept}:
            broken.setdefault(
                message_id, f"answered {', '.join(sorted(said))}, and its row keeps {kept} for duplicates"
            )
    yield from broken.items()


def _nothing_stuck(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.waiting is None:
        return
    for message_id, row in evidence.ledger.items():
        over = row["status"] == IN_PROGRESS and row["lease_until"] < evidence.now
        if over and message_id not in evidence.waiting and message_id not in evidence.quarantined:
            yield message_id, "IN_PROGRESS, its lease long over, and nothing in a queue will wake it"


def _claims_counted(evidence: Evidence) -> Iterator[tuple[str, str]]:
    claims = defaultdict(set)
    counted: dict[str, int] = defaultdict(int)
    for line in evidence.remembered():
        if count := line.get("consumption_count"):
            counted[line["message_id"]] = max(counted[line["message_id"]], count)
        if line.get("claimed_by"):
            claims[line["message_id"]].add(line["claimed_by"])
    for message_id, row in evidence.ledger.items():
        if row["consumption_count"] < max(1, len(claims[message_id]), counted[message_id]):
            yield message_id, f"consumption_count {row['consumption_count']}, below the claims that were granted"


def _quarantined_means_not_done(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for message_id in evidence.quarantined:
        made = evidence.appointments.get(message_id, {}).get("practice")
        complete = evidence.ledger.get(message_id, {}).get("status") == COMPLETE
        if made and not complete and not evidence.forgotten(message_id):
            yield message_id, "in the dead-letter queue with an appointment, and its row is not COMPLETE"


INVARIANTS = (
    Invariant("I1", "A request holds at most one slot.", _one_slot_per_request),
    Invariant("I2", "An acknowledged request has an appointment or a recorded refusal.", _nothing_lost),
    Invariant("I3", "A slot has at most one appointment.", _one_appointment_per_slot),
    Invariant("I4", "A slot is busy if, and only if, a booked appointment holds it.", _busy_means_held),
    Invariant("I5", "A COMPLETE row's recorded outcome exists.", _complete_means_done),
    Invariant("I5r", "An appointment's request has a COMPLETE row.", _done_means_complete),
    Invariant("I6", "COMPLETE never reverts and never disappears.", _complete_stays),
    Invariant("I7", "Duplicates get the original's answer.", _same_answer),
    Invariant("I8", "Nothing is acknowledged after an exception.", None),
    Invariant("I9", "Once faults stop, redelivery brings every request to its end.", _nothing_stuck),
    Invariant("I10", "consumption_count counts every claim that was granted.", _claims_counted),
    Invariant(
        "I11", "A message in the dead-letter queue has no appointment, or is COMPLETE.", _quarantined_means_not_done
    ),
    Invariant("E1", "One delivery with one transient fault of a write finishes within that delivery.", None),
    Invariant("E2", "A live lease is never taken over.", None),
    Invariant("E3", "A duplicate of a finished request costs one call.", None),
    Invariant("L1", "No NHS number is in anything that is logged.", None),
    Invariant("Q1", "A request is committed once at most, counted where DynamoDB performs the writes.", None),
    Invariant("Q2", "Without a fault, each message is received once.", None),
    Invariant(
        "Q3",
        "b crashes cost a message 2b + 1 receives at most, and one for each request that lands after its process died. "
        "They send it to no dead-letter queue if it has as many.",
        None,
    ),
    Invariant("Q4", "Messages of a FIFO group are sent, begun and committed in their order.", None),
    Invariant("Q5", "A worker has no more messages at work than threads, and asks for no more than are idle.", None),
    Invariant("Q6", "The queue drains soon after the last fault: the longest lease, a visibility timeout, 5 s.", None),
    Invariant("Q7", "The archive holds every message of which an ended sender knows that it was accepted.", None),
    Invariant("Q8", "Every dead letter has its reason.", None),
    Invariant("Q9", "No thread dies.", None),
    Invariant("Q10", "A redrive ends, however often it is killed and resumed.", None),
    Invariant("Q11", "A redrive sends each message as its producer did, and nothing again that its journal has.", None),
    Invariant("Q12", "An operator's change is in the operator log before it is made.", None),
    Invariant("Q13", "The archive holds nothing that the queue did not accept.", None),
    Invariant("Q14", "A producer gives one result for each message, also for one that it is given twice.", None),
    Invariant("Q15", "Every sender and every backfill ends.", None),
    Invariant("Q16", "A backfill that succeeds has handed over or counted each row.", None),
    Invariant("Q17", "A redelivery of a request that a backfill entered is not quarantined.", None),
    Invariant("Q18", "A renewed lease never ends later than its claim asked for.", None),
    Invariant("Q19", "A renewed claim is not taken over while its process lives and its calls are answered.", None),
    Invariant(
        "Q20",
        "In the history of Valkey that survives, each request takes effect once, whole, and by its claim's holder.",
        None,
    ),
    Invariant("Q21", "A request in Valkey is lost only if a failover lost its commit.", None),
    Invariant("M1", "A mapping keeps the limits of its function: environments, batch size, payload.", None),
    Invariant("M2", "A mapping offers no message that is visible in its queue again.", None),
    Invariant("M3", "A mapping that stops has accounted for every message that it received.", None),
)
