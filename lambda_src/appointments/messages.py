"""The two requests, `book` and `cancel`, parsed from a message's body. Every error names its field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from appointments import nhs_number
from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable
from oneslot.runtime.record import MESSAGE_ID

DELIVERY_CHANNELS = ("In-person", "Telephone", "Video")
"""GP Connect's delivery channels (Slot extension `DeliveryChannel`)."""

# Codes of the Organisation Data Service: three to six capitals and digits; practices have six (`A81001`).
ODS_CODE = re.compile(r"[A-Z0-9]{3,6}")
# Part of a key, so it must not hold the key's separator.
SERVICE_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 -]{0,63}")
# RFC 3339 rather than all of ISO 8601, of which each Python version reads another part. Zeros, as JavaScript writes them.
TIME = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.0+)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)


@dataclass(frozen=True, slots=True)
class BookRequest:
    """A patient's request for one slot at a practice that starts from `not_before` on and before `not_after` (UTC)."""

    message_id: str
    payload_hash: str
    practice: str
    nhs_number: str
    not_before: datetime
    not_after: datetime
    delivery_channel: str
    service_type: str

    def __repr__(self) -> str:  # keeps the patient out of tracebacks
        return f"BookRequest({self.message_id!r}, practice={self.practice!r})"


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Cancel an appointment. Its id is the `message_id` of its booking, which may arrive later."""

    message_id: str
    payload_hash: str
    appointment_id: str


Request = BookRequest | CancelRequest


def parse_message(message_id: str, payload_hash: str, body: Mapping[str, Any]) -> Request:
    """Parse a body.

    Raises:
        Unprocessable: `unknown_type`, `invalid_field` or `invalid_message_id`; its detail names field and remedy.
    """
    if nhs_number.contains_one(message_id):
        raise Unprocessable(INVALID_MESSAGE_ID, "message_id must not be an NHS number; use a random id")
    match body.get("type"):
        case "book":
            number = body.get("nhs_number")
            if not isinstance(number, str) or not nhs_number.is_valid(number):
                raise _invalid("nhs_number", "text of ten digits with a valid check digit (Modulus 11)")
            if nhs_number.contains_one(str(body.get("service_type"))):
                raise _invalid("service_type", "a service, never an NHS number")
            return _book(message_id, payload_hash, number, body)
        case "cancel":
            appointment_id = _text(body, "appointment_id", MESSAGE_ID, "the message_id of the booking")
            if nhs_number.contains_one(appointment_id):
                raise _invalid("appointment_id", "the message_id of the booking, never an NHS number")
            return CancelRequest(message_id, payload_hash, appointment_id)
    raise Unprocessable("unknown_type", "type must be 'book' or 'cancel'")


def _book(message_id: str, payload_hash: str, number: str, body: Mapping[str, Any]) -> BookRequest:
    channel = body.get("delivery_channel")
    if channel not in DELIVERY_CHANNELS:
        raise _invalid("delivery_channel", f"one of {', '.join(DELIVERY_CHANNELS)}")
    request = BookRequest(
        message_id=message_id,
        payload_hash=payload_hash,
        practice=_text(body, "practice", ODS_CODE, "an ODS code, e.g. A81001"),
        nhs_number=number,
        not_before=_time(body, "not_before"),
        not_after=_time(body, "not_after"),
        delivery_channel=str(channel),
        service_type=_text(body, "service_type", SERVICE_TYPE, "1 to 64 letters, digits, spaces or hyphens"),
    )
    if request.not_before >= request.not_after:
        raise _invalid("not_after", "later than not_before")
    return request


def _text(body: Mapping[str, Any], field: str, pattern: re.Pattern[str], remedy: str) -> str:
    value = body.get(field)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _invalid(field, remedy)
    return value


def _time(body: Mapping[str, Any], field: str) -> datetime:
    remedy = "a time with its offset, in whole seconds, e.g. 2026-11-23T08:00:00Z"
    text = _text(body, field, TIME, remedy)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # a day that its month lacks, or a year outside 1 to 9999
        raise _invalid(field, remedy) from None


def _invalid(field: str, remedy: str) -> Unprocessable:
    return Unprocessable("invalid_field", f"{field} must be {remedy}")
