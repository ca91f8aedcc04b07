"""The appointments' own laws, which join the ledger's (`oneslot.laws.ledger`), and what their rows name and need.

Each law reads `Evidence`, what a run left behind, and yields a sentence for each breach.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from appointments.allocation import APPOINTMENTS, SLOTS, free_key
from appointments.statuses import BOOKED, BUSY, CANCELLED, FREE, WAITLIST
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.form import ID, NEEDED_TIME, TEXT, TIME, Attribute, Form, Kind, is_encodable
from oneslot.laws.schema import Effect
from oneslot.laws.traces import result_of
from oneslot.runtime.protocol import COMPLETE

TIMES = ("start", "end")
PLACE = ("practice", "slot_id", *TIMES)
"""Place and time of an appointment; the recorded answer names the same."""


def effects_of(appointment: Mapping[str, Any]) -> Iterator[Effect]:
    """Yield the requests that an appointment names: the one that made it, and the one that cancelled it."""
    if appointment.get("practice"):
        yield Effect(appointment["appointment_id"], appointment.get("created"), "made")
    canceller = _canceller(appointment)
    if canceller is not None:
        yield Effect(canceller, appointment.get("updated"), "cancelled")


SLOT_ROW = Form(
    {
        **dict.fromkeys(("practice", "slot_id", "free_key", "delivery_channel", "service_type", "end"), TEXT),
        "status": Attribute(needed=True, words=(FREE, BUSY)),
        "appointment_id": ID,
        "start": Attribute(Kind.MOMENT, needed=True),
    }
)
APPOINTMENT_ROW = Form(
    {
        "appointment_id": ID,
        "status": Attribute(needed=True, words=(BOOKED, WAITLIST, CANCELLED)),
        "practice": Attribute(needed=(BOOKED, WAITLIST)),
        "slot_id": Attribute(needed=(BOOKED,)),
        "start": Attribute(Kind.MOMENT, needed=(BOOKED,)),
        **dict.fromkeys(("end", "delivery_channel"), TEXT),
        "cancelled_by": Attribute(Kind.ID, needed=(CANCELLED,)),
        "created": NEEDED_TIME,
        "updated": TIME,
    }
)


def _one_slot_per_request(evidence: Evidence) -> Iterator[tuple[str, str]]:
    held = defaultdict(list)
    for (_, slot_id), slot in evidence.rows(SLOTS).items():
        if slot.get("appointment_id"):
            held[slot["appointment_id"]].append(slot_id)
    for appointment_id, slots in held.items():
        if len(slots) > 1:
            yield appointment_id, f"holds {len(slots)} slots"


def _one_appointment_per_slot(evidence: Evidence) -> Iterator[tuple[str, str]]:
    holders = defaultdict(list)
    for appointment_id, appointment in evidence.rows(APPOINTMENTS).items():
        if appointment["status"] == BOOKED:
            holders[appointment["practice"], appointment["slot_id"]].append(appointment_id)
    for (practice, slot_id), appointment_ids in holders.items():
        if len(appointment_ids) > 1:
            yield f"{practice}/{slot_id}", f"booked by {len(appointment_ids)} appointments"


def _busy_means_held(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for (practice, slot_id), slot in evidence.rows(SLOTS).items():
        holder = evidence.rows(APPOINTMENTS).get(slot.get("appointment_id", ""), {})
        is_held = (holder.get("status"), holder.get("practice"), holder.get("slot_id")) == (BOOKED, practice, slot_id)
        if slot["status"] == BUSY and not is_held:
            yield f"{practice}/{slot_id}", "busy, and no booked appointment holds it"
        if slot["status"] == FREE and (slot.get("appointment_id") or not _findable(slot)):
            yield f"{practice}/{slot_id}", "free, but it names an appointment or cannot be found as what it is"
    for appointment_id, appointment in evidence.rows(APPOINTMENTS).items():
        if appointment["status"] == BOOKED:
            held = evidence.rows(SLOTS).get((appointment["practice"], appointment["slot_id"]), {})
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
        named = result.get("appointment_id")
        appointment_id = named if isinstance(named, str) and is_encodable(named) else ""
        appointment = evidence.rows(APPOINTMENTS).get(appointment_id, {})
        status, outcome = appointment.get("status"), result.get("outcome")
        own = appointment_id == message_id
        mine = evidence.rows(APPOINTMENTS).get(message_id, {})
        made = bool(mine.get("practice"))
        agrees = {
            "booked": own and status in (BOOKED, CANCELLED) and not _differ(appointment, result, PLACE),
            "waitlist": own and status in (WAITLIST, CANCELLED) and not _differ(appointment, result, PLACE),
            "cancelled": bool(appointment_id) and (own or not made),
            "refused": own and not made and status in (None, CANCELLED),
        }.get(str(outcome), False)
        if outcome == "cancelled" and appointment_id and status != CANCELLED:
            yield appointment_id, f"cancelled by {message_id}, which is COMPLETE, but it is {status or 'not there'}"
        if not agrees:
            is_not = f"is {mine.get('status') or 'not there'}, or not what was answered"
            yield message_id, f"COMPLETE with outcome {outcome}, but its appointment {is_not}"
    for appointment_id, appointment in evidence.rows(APPOINTMENTS).items():
        canceller = _canceller(appointment)
        row = evidence.ledger.get(canceller or "", {})
        if canceller and row.get("status") == COMPLETE:
            result = result_of(row)
            if (result.get("outcome"), result.get("appointment_id")) != ("cancelled", appointment_id):
                yield canceller, f"its recorded answer is not that {appointment_id}, which names it, is cancelled"


def _canceller(appointment: Mapping[str, Any]) -> str | None:
    """Return the request that cancelled an appointment; empty if none is named, None if it is not cancelled."""
    return appointment.get("cancelled_by", "") if appointment["status"] == CANCELLED else None


def _differ(one: Mapping[str, Any], other: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(one.get(name) != other.get(name) for name in names)


LAWS = (
    Law("I1", "A request holds at most one slot.", _one_slot_per_request, twice=True),
    Law("I3", "A slot has at most one appointment.", _one_appointment_per_slot, twice=True),
    Law("I4", "A slot is busy if, and only if, a booked appointment holds it.", _busy_means_held),
    Law("I5", "A COMPLETE row's recorded outcome exists.", _complete_means_done),
    Law("L1", "No NHS number is in anything that is logged."),
)
