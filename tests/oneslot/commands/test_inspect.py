"""`oneslot inspect`: the story of one request, without its patient."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from tests.kits.consumer import NHS_NUMBER, booking, record
from tests.kits.moto_stack import MotoStack, document, invoke

Invoke = Callable[..., Result]


# Arguments


def booked_id(stack: MotoStack) -> str:
    """Book one appointment and return its id."""
    stack.bench.deliver(record(booking("m-booked")), record(booking("m-booked")))
    stack.write_log()
    return "m-booked"


def test_inspect_shows_a_booking_without_its_patient(moto_stack: MotoStack) -> None:
    message_id = booked_id(moto_stack)
    told = invoke("inspect", message_id)
    assert "Booked: A81001, slot 20991123T" in told.stdout
    assert "nhs_number" not in told.stdout
    assert "delivery 1 of 00000000: booked" in told.stdout
    assert "delivery 1 of 00000000: duplicate" in told.stdout
    as_json = document(invoke("inspect", message_id, "--json"))
    assert as_json["ledger"]["status"] == "COMPLETE"
    assert "nhs_number" not in as_json["rows"]["appointments"]
    assert as_json["rows"]["slots"]["appointment_id"] == message_id
    assert [delivery["outcome"] for delivery in as_json["deliveries"]] == ["booked", "duplicate"]
    assert NHS_NUMBER not in told.output + json.dumps(as_json)


@pytest.mark.parametrize(
    ("body", "summary"),
    [
        (
            booking("m-1", not_before="2099-12-01T08:00:00Z", not_after="2099-12-02T08:00:00Z"),
            "On the waitlist of A81001",
        ),
        (
            booking("m-1", not_before="2020-01-01T08:00:00Z", not_after="2020-01-02T08:00:00Z"),
            "Refused: window_passed.",
        ),
        ({"message_id": "m-1", "type": "cancel", "appointment_id": "m-0"}, "Cancelled: appointment m-0."),
        (booking("m-1", nhs_number="9990000019"), "Quarantined: invalid_field."),
        (booking("m-1", practice="ZZZ999"), "Quarantined: unknown_practice."),
    ],
)
def test_inspect_summarises_every_outcome(moto_stack: MotoStack, body: dict[str, Any], summary: str) -> None:
    moto_stack.bench.deliver(record(body))
    moto_stack.write_log()
    assert document(invoke("inspect", "m-1", "--json"))["summary"].startswith(summary)
    assert summary in invoke("inspect", "m-1").stdout


def test_inspect_shows_a_cancellation_and_a_conflict(moto_stack: MotoStack) -> None:
    cancel = {"message_id": "c-1", "type": "cancel", "appointment_id": "m-1"}
    moto_stack.bench.deliver(record(booking("m-1")), record(cancel), record(booking("m-1", delivery_channel="Video")))
    moto_stack.write_log()
    summary = document(invoke("inspect", "m-1", "--json"))["summary"]
    assert summary.startswith("Booked: A81001, slot")
    assert "Cancelled since, by c-1." in summary
    assert summary.endswith("Another message with this id is quarantined: conflict.")


def test_inspect_finds_a_message_by_sqs_own_id(moto_stack: MotoStack) -> None:
    bad = record("not json")
    moto_stack.bench.deliver(bad)
    moto_stack.write_log()
    found = document(invoke("inspect", bad["messageId"], "--json"))
    assert found["summary"] == "Quarantined: not_json."
    assert found["dead_letters"][0]["source_sqs_message_id"] == bad["messageId"]


def test_inspect_fails_when_nothing_is_known(moto_stack: MotoStack) -> None:
    result = invoke("inspect", "nobody")
    assert result.exit_code == 1
    assert "Nothing is known of nobody in Oneslot-dev." in result.stderr
