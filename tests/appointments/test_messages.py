"""Parsing requests: every field is checked, and an error names its field but not its value."""

from datetime import UTC, datetime
from typing import Any

import pytest

from appointments.messages import BookRequest, CancelRequest, parse_message
from oneslot.runtime.effects import Unprocessable
from tests.kits.consumer import NHS_NUMBER, booking, cancellation


def test_booking_is_parsed() -> None:
    request = parse_message("m-1", "hash", booking(not_before="2099-11-23T09:00:00+01:00"))
    assert request == BookRequest(
        message_id="m-1",
        payload_hash="hash",
        practice="A81001",
        nhs_number=NHS_NUMBER,
        not_before=datetime(2099, 11, 23, 8, tzinfo=UTC),
        not_after=datetime(2099, 11, 24, 8, tzinfo=UTC),
        delivery_channel="Telephone",
        service_type="General Consultation Routine",
    )
    assert NHS_NUMBER not in repr(request)


def test_cancellation_is_parsed() -> None:
    assert parse_message("c-1", "hash", cancellation("m-1")) == CancelRequest("c-1", "hash", "m-1")


def test_unknown_field_is_ignored() -> None:
    assert isinstance(parse_message("m-1", "hash", booking(note="from a later version")), BookRequest)


FIELDS = ("practice", "nhs_number", "not_before", "not_after", "delivery_channel", "service_type")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [None, 7, True, [], {}, "", " ", "x" * 100, "\ud800", "A81001\n"])
def test_error_names_invalid_field_without_value(field: str, value: Any) -> None:
    body = {**booking(), field: value}
    with pytest.raises(Unprocessable) as problem:
        parse_message("m-1", "hash", body)
    assert problem.value.reason == "invalid_field"
    assert problem.value.detail.startswith(f"{field} must be ")
    assert len(str(value)) < 3 or str(value) not in problem.value.detail


@pytest.mark.parametrize("value", [NHS_NUMBER, "999 000 0018", "Smith 999-000-0018"])
def test_service_type_is_refused_when_it_holds_an_nhs_number(value: str) -> None:
    with pytest.raises(Unprocessable, match="service_type must be a service, never an NHS number"):
        parse_message("m-1", "hash", {**booking(), "service_type": value})
