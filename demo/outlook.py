"""What a redrive would do for an appointment request, and what its rows tell: the rules of the consumer, without a write."""

from collections.abc import Iterator, Mapping
from typing import Any

from appointments.allocation import APPOINTMENTS, SLOTS, answer_of
from appointments.messages import BookRequest, Request
from appointments.statuses import CANCELLED
from oneslot.laws.form import TIME
from oneslot.operator.evidence.malformed import Malformed
from oneslot.operator.evidence.tables import Missing
from oneslot.operator.repair.forecast import OTHER_CONTENT, Outlook, Rows, TableReader

PROCESSED = (Outlook.RETRIED, "the consumer processes it")
"""The outlook of a request without an answer: each reason for which the consumer refuses one was looked for."""


def foresee(request: Request, rows: Rows, reader: TableReader, now_ms: int) -> tuple[Outlook, str] | Missing:
    """Return the outlook, by the consumer's rules in the consumer's order; see `oneslot.operator.repair.forecast.Foresight`."""
    appointment = rows[APPOINTMENTS]
    if isinstance(appointment, Missing):
        return appointment
    if not isinstance(request, BookRequest):
        return PROCESSED
    return _answered(request, appointment) if appointment is not None else _unanswered(request, reader, now_ms)


def _unanswered(request: BookRequest, reader: TableReader, now_ms: int) -> tuple[Outlook, str] | Missing:
    if int(request.not_after.timestamp() * 1000) <= now_ms:
        return Outlook.REFUSED, "its window has passed, so it is refused"
    known = reader.has(SLOTS, request.practice)
    if isinstance(known, Missing):
        return known
    if not known:
        return (
            Outlook.FAILS_AGAIN,
            f"practice {request.practice} has no slots. Correct its code, or open its slots, then redrive",
        )
    return PROCESSED


def _answered(request: BookRequest, appointment: Mapping[str, Any]) -> tuple[Outlook, str]:
    """Return the outlook of a request that the ledger forgot, from its appointment."""
    if appointment.get("payload_hash", request.payload_hash) != request.payload_hash:
        return OTHER_CONTENT
    try:
        answer_of(appointment)
    except KeyError as missing:
        malformed = Malformed(APPOINTMENTS, appointment["appointment_id"], missing.args[0])
        return Outlook.FAILS_AGAIN, f"{malformed}. Complete it by hand"
    return (
        Outlook.DONE_BEFORE,
        f"its ledger row expired, but its appointment is there ({appointment['status']}); it gets that answer",
    )


def story(message_id: str, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[int | None, str, str]]:
    """Yield when and by whom the request's appointment was cancelled: (epoch ms, event, sentence)."""
    appointment = rows.get(APPOINTMENTS, {})
    if appointment.get("status") == CANCELLED:
        at = appointment["updated"] if TIME.problem(appointment.get("updated")) is None else None
        canceller = appointment.get("cancelled_by")
        since = appointment.get("practice") and appointment["appointment_id"] == message_id
        said = f"Cancelled since, by {canceller}." if since else ""
        yield at, f"appointment cancelled by {canceller}", said
