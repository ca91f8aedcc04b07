"""The appointments as the audit sees them: their measures, what these show of a request, and their laws."""

from __future__ import annotations

from dataclasses import replace

from oneslot.declaration.declaration import Declaration
from oneslot.pipeline.columns import worded
from oneslot.pipeline.judge.measures import (
    LEDGER_MEASURES,
    LOG_PACKED,
    Measure,
    Measures,
    count,
    link,
    log_measures,
    value,
)
from oneslot.pipeline.judge.states import Shown
from oneslot.pipeline.model import ExportedTable, Listing, Model, Words
from oneslot.pipeline.read.sources import LEDGER, LEDGER_ATTRIBUTES, LEDGER_KEY, attributes
from oneslot.pipeline.vocabulary import Kind, Verdict
from workload.audit import facts, tables
from workload.audit.vocabulary import ANSWERS, AppointmentStatus, Outcome, OwnKind, SlotStatus

SLOT_TEXTS = (
    "practice",
    "slot_id",
    "status",
    "appointment_id",
    "free_key",
    "delivery_channel",
    "service_type",
    "start",
    "end",
)
APPOINTMENT_TEXTS = (
    "appointment_id",
    "status",
    "practice",
    "slot_id",
    "start",
    "end",
    "delivery_channel",
    "cancelled_by",
)
APPOINTMENT_TIMES = ("created", "updated")
NOT_READ = ("nhs_number", "service_type", "payload_hash", "not_before", "not_after")
"""Attributes of an appointment that the audit does not read, the patient's number among them."""

MEASURES = Measures(
    (
        *LEDGER_MEASURES,
        link("ledger_names", Kind.LEDGER),
        count("expects_cancelled", OwnKind.EXPECTS_CANCELLED),
        count("appointment_rows", OwnKind.APPOINTMENT),
        value("appointment_status", OwnKind.APPOINTMENT, "code"),
        value("appointment_channel", OwnKind.APPOINTMENT, "number"),
        value("appointment_created", OwnKind.APPOINTMENT, "at"),
        value("appointment_start", OwnKind.APPOINTMENT, "until"),
        # 0 where the recorded answer, the appointment made and the appointment cancelled agree on one place or appointment.
        link("answer_differs", Kind.LEDGER, OwnKind.APPOINTMENT, OwnKind.CANCELLED),
        count("cancellations", OwnKind.CANCELLED),
        value("cancelled_at", OwnKind.CANCELLED, "at"),
        count("held_slots", OwnKind.HELD),
        link("held_differs", OwnKind.HELD, OwnKind.APPOINTMENT),
        count("slot_rows", OwnKind.SLOT),
        value("slot_status", OwnKind.SLOT, "code"),
        value("slot_date", OwnKind.SLOT, "number"),
        count("holdings", OwnKind.HOLDING),
        link("holder_differs", OwnKind.SLOT, OwnKind.HOLDING),
        *log_measures(ANSWERS.values()),
        Measure("practice", (OwnKind.APPOINTMENT,), "extra", "xor"),
    ),
    (
        ("ledger_outcome", "ledger_rows"),
        ("ledger_complete", "cancellations"),
        ("appointment_status", "appointment_rows"),
        ("appointment_channel", "expects_cancelled"),
        ("slot_status", "slot_rows"),
        ("held_slots", "holdings"),
        *LOG_PACKED,
    ),
)


def _status(*wanted: AppointmentStatus) -> str:
    return f"appointment_status IN ({', '.join(str(int(status)) for status in wanted)})"


GONE = _status(AppointmentStatus.CANCELLED, AppointmentStatus.TOMBSTONE)
MADE = f"(appointment_rows > 0 AND NOT {_status(AppointmentStatus.TOMBSTONE)})"
BOOKED = f"(appointment_rows > 0 AND {_status(AppointmentStatus.BOOKED)})"
WAITS = f"(appointment_rows > 0 AND {_status(AppointmentStatus.WAITLIST)})"
CANCELLED = f"(appointment_rows > 0 AND {GONE})"
CANCELLATION = f"({int(Outcome.CANCELLED)}, {int(Outcome.CANCELLED_OTHER)})"
AGREES = "answer_differs = 0"
NAMED = f"({AGREES} AND ledger_names != 0)"
EXPECTED = f"""(CASE
    WHEN ledger_outcome = {int(Outcome.BOOKED)} THEN ({BOOKED} OR {CANCELLED}) AND {NAMED}
    WHEN ledger_outcome = {int(Outcome.WAITLIST)} THEN ({WAITS} OR {CANCELLED}) AND {NAMED}
    WHEN ledger_outcome = {int(Outcome.CANCELLED)} THEN {CANCELLED}
    WHEN ledger_outcome IN ({int(Outcome.CANCELLED_OTHER)}, {int(Outcome.REFUSED)}) THEN NOT {MADE}
    ELSE false END AND (cancellations = 0 OR {AGREES}))"""
# With two appointments on one slot (I3), or two slots of one request (I1), the combined link is meaningless. Those findings
# report both.
HELD_BY_ITS_OWN = "(holdings > 1 OR (holdings = 1 AND holder_differs = 0))"

WORDS_OF_CODES = {int(code): word for word, code in ANSWERS.items()} | {int(Outcome.CANCELLED_OTHER): "cancelled"}


def _word(code: str) -> str:
    return worded(code, WORDS_OF_CODES, Verdict.STUCK)


SHOWN = Shown(
    made=MADE,
    acted=f"({MADE} OR cancellations > 0)",
    committed_at=f"CASE WHEN {MADE} THEN appointment_created WHEN cancellations > 0 THEN cancelled_at END",
    twice="(held_slots > 1 OR appointment_rows > 1)",
    reversed=GONE,
    answered=f"CASE WHEN delivered_outcome = {int(Outcome.CANCELLED)} THEN ledger_outcome IN {CANCELLATION} "
    "ELSE ledger_outcome = delivered_outcome END",
    recorded=f"CASE WHEN {GONE} THEN 'cancelled' ELSE {_word('ledger_outcome')} END",
    told=f"CASE WHEN {MADE} THEN {_word('appointment_status')} ELSE 'cancelled' END",
    logged=_word("delivered_outcome"),
)
VIOLATIONS = {
    "I1": "held_slots > 1",
    "I3": "holdings > 1",
    "I4": f"(slot_status = {int(SlotStatus.BUSY)} AND NOT {HELD_BY_ITS_OWN}) OR slot_status = {int(SlotStatus.BROKEN)} "
    f"OR ({BOOKED} AND held_slots <= 1 AND held_differs != 0)",
    "I5": f"(ledger_complete > 0 AND NOT {EXPECTED}) OR (expects_cancelled > 0 AND NOT {CANCELLED})",
    "S1": "ledger_rows NOT IN (0, 1) OR appointment_rows NOT IN (0, 1) OR slot_rows NOT IN (0, 1)",
}
WORDS = Words(
    verdicts={
        "booked": "has one slot",
        "waitlist": "no slot was free; recorded, and waits",
        "cancelled": "was cancelled, or is a cancellation that took effect",
        "refused": "was answered with a recorded refusal",
    },
    ends={
        "booked": ("has one slot", "have one slot each"),
        "waitlist": ("waits, because no slot fitted", "wait, because no slot fitted"),
        "cancelled": ("is cancelled or was a cancellation", "are cancelled or were cancellations"),
        "refused": ("was refused", "were refused"),
    },
    twice_first="stop the consumer, then decide for each line of repair/look-at.jsonl which booking stays.",
    twice_laws=("I1", "I3"),
    subjects="request and slot",
    figures=(("Did not fit", "COUNT_OF_DID_NOT_FIT"),),
    days_note="Did not fit: the practice had no free slot of that time, channel and service.",
    marks={
        "booked": ("booked", "■"),
        "waitlist": ("requests", "■"),
        "cancelled": ("quiet", "■"),
        "refused": ("quiet", "▲"),
    },
)
LISTING = Listing(
    summary="practices",
    title="Practices",
    note="with the most requests that did not fit.",
    order=("-COUNT_OF_DID_NOT_FIT", "-COUNT_OF_REQUESTS", "GP_CODE"),
    head="GP code",
    key="GP_CODE",
    columns=(
        ("Requests", "COUNT_OF_REQUESTS", "count"),
        ("Booked", "BOOKED", "count"),
        ("Did not fit", "COUNT_OF_DID_NOT_FIT", "count"),
        ("Waiting", "WAITLIST", "count"),
        ("Duplicates", "DUPLICATE_RATE", "share"),
        ("Slots", "COUNT_OF_SLOTS", "count"),
        ("Utilisation", "UTILISATION", "share"),
    ),
)


def model_of_appointments(declaration: Declaration) -> Model:
    """Return the model of the appointments application."""
    return Model(
        exports={
            "ledger": ExportedTable(LEDGER, LEDGER_KEY, LEDGER_ATTRIBUTES, facts.ledger_facts, "ledger_rows"),
            "slots": ExportedTable(
                attributes(SLOT_TEXTS), ("practice", "slot_id"), frozenset(SLOT_TEXTS), facts.slot_facts, "slot_rows"
            ),
            "appointments": ExportedTable(
                attributes(APPOINTMENT_TEXTS, APPOINTMENT_TIMES),
                ("appointment_id",),
                frozenset((*APPOINTMENT_TEXTS, *APPOINTMENT_TIMES, *NOT_READ)),
                facts.appointment_facts,
                "appointment_rows",
            ),
        },
        answers=ANSWERS,
        other_answer=None,
        measures=MEASURES,
        row_counts=("expects_cancelled", "appointment_rows", "cancellations", "held_slots", "slot_rows", "holdings"),
        shown=SHOWN,
        violations=VIOLATIONS,
        tables=tables.TABLES,
        summaries=tables.SUMMARIES,
        words=replace(WORDS, twice=declaration.twice),
        row_subject="slot",
        effect_subject="appointment",
        listing=LISTING,
    )
