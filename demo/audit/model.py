"""The appointments as the audit sees them: the checks of their rows, their tables and words."""

from dataclasses import replace

from demo.audit import tables
from demo.audit.plain import PLAIN
from oneslot.audit.model import Listing, Model, ReportWords, model_of_declaration
from oneslot.audit.read.source import ExportedTable
from oneslot.declaration.declaration import Declaration
from oneslot.laws.form import Form

COUNTED = {"slots": "slot_rows", "appointments": "appointment_rows"}
NOT_READ = {"slots": (), "appointments": ("service_type", "payload_hash", "not_before", "not_after")}
"""Attributes that the audit does not read, beside the patient's number."""
PRIVATE = {"slots": (), "appointments": ("nhs_number",)}

WORDS = ReportWords(
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
        exports={name: _known(name, export, declaration) for name, export in usual.exports.items()},
        tables_read=tables.READ,
        tables=tables.TABLES,
        summaries=tables.SUMMARIES,
        words=replace(WORDS, twice=usual.words.twice, twice_laws=usual.words.twice_laws),
        row_subject="slot",
        effect_subject="appointment",
        listing=LISTING,
        plain=PLAIN,
    )


def _known(name: str, export: ExportedTable, declaration: Declaration) -> ExportedTable:
    """Return an export without the attributes that the audit does not read."""
    if name not in COUNTED:
        return export
    table = declaration.declared_tables[name]
    form = Form({each: of for each, of in export.form.attributes.items() if each not in NOT_READ[name]})
    return replace(export, form=form, counted=COUNTED[name], known=frozenset((*table.attributes, *PRIVATE[name])))
