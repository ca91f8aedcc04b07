"""The appointments as the audit sees them: the checks of their rows, their tables and words."""

from __future__ import annotations

from dataclasses import replace

from demo.audit import tables
from demo.audit.plain import PLAIN
from oneslot.audit.model import Listing, Model, Words, exports_of, model_of_declaration, subjects_of
from oneslot.audit.read.carry import ExportedTable, absent, reserved
from oneslot.declaration.declaration import Declaration
from oneslot.laws.form import LATEST_EPOCH_MS, Problem

TIMES = ("created", "updated")
"""An appointment's, in epoch milliseconds."""
NOT_READ = ("service_type", "payload_hash", "not_before", "not_after")
"""Attributes of an appointment that the audit does not read, beside the patient's number."""

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
    usual = model_of_declaration(declaration)
    return replace(
        usual,
        exports=exports_of(declaration, slots=_slots(declaration), appointments=_appointments(declaration)),
        tables=tables.TABLES,
        summaries=tables.SUMMARIES,
        words=replace(WORDS, twice=usual.words.twice, twice_laws=usual.words.twice_laws),
        row_subject="slot",
        effect_subject="appointment",
        listing=LISTING,
        plain=PLAIN,
    )


def _slots(declaration: Declaration) -> ExportedTable:
    table = declaration.declared_tables["slots"]
    return ExportedTable(
        key=table.key,
        texts=table.attributes,
        subjects=subjects_of(table),
        # The day of the start, far cheaper than a timestamp.
        derived=("try_cast(replace(substring(Item.start.S, 1, 10), '-', '') AS BIGINT) AS date",),
        problems={
            Problem.MISSING_ATTRIBUTE: absent("practice", "slot_id", "status", "date"),
            Problem.UNKNOWN_VALUE: f"status NOT IN ('free', 'busy') OR {reserved('appointment_id')}",
        },
        counted="slot_rows",
        known=frozenset(table.attributes),
    )


def _appointments(declaration: Declaration) -> ExportedTable:
    table = declaration.declared_tables["appointments"]
    return ExportedTable(
        key=table.key,
        texts=tuple(name for name in table.attributes if name not in (*TIMES, *NOT_READ)),
        numbers=dict.fromkeys(TIMES, LATEST_EPOCH_MS),
        subjects=subjects_of(table),
        derived=("try_to_timestamp(Item.start.S) AS starts",),
        problems={
            Problem.MISSING_ATTRIBUTE: f"{absent('appointment_id', 'status', 'created')} "
            f"OR (status = 'booked' AND {absent('slot_id', 'starts')}) "
            "OR (status = 'cancelled' AND cancelled_by IS NULL) OR (practice IS NULL AND status != 'cancelled')",
            Problem.UNKNOWN_VALUE: "status NOT IN ('booked', 'waitlist', 'cancelled') "
            f"OR {reserved('appointment_id')} OR {reserved('cancelled_by')}",
        },
        counted="appointment_rows",
        known=frozenset((*table.attributes, "nhs_number")),
    )
