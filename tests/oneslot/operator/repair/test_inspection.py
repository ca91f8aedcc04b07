"""`inspect` for a request that the ledger has forgotten: the appointment shows its answer."""

from __future__ import annotations

import pytest

from tests.kits.consumer import booking, cancellation, record
from tests.kits.moto_stack import MotoStack, document, invoke

STANDS = "The ledger has no complete row of it; the row in appointments shows the answer."


def forget(stack: MotoStack, message_id: str) -> None:
    stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": message_id}})


def summary() -> str:
    return str(document(invoke("inspect", "m-1", "--json"))["summary"])


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, "Booked: A81001, slot 20991123T0800Z-01, 2099-11-23T08:00:00Z. "),
        (
            {"not_before": "2099-12-01T08:00:00Z", "not_after": "2099-12-02T08:00:00Z"},
            "On the waitlist of A81001: no slot was free in its window. ",
        ),
    ],
)
def test_inspect_answers_from_the_appointment_when_forgotten(
    moto_stack: MotoStack, wish: dict[str, str], expected: str
) -> None:
    moto_stack.bench.deliver(record(booking("m-1", **wish)))
    forget(moto_stack, "m-1")
    assert summary() == expected + STANDS


def test_inspect_names_a_cancellation_when_forgotten(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record(booking("m-1")), record(cancellation("m-1", "c-1")))
    forget(moto_stack, "m-1")
    assert summary() == f"Cancelled: appointment m-1. {STANDS}"


def test_inspect_shows_booking_and_conflict_when_forgotten(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record(booking("m-1")))
    forget(moto_stack, "m-1")
    moto_stack.bench.deliver(record(booking("m-1", delivery_channel="Video")))
    assert moto_stack.bench.row("m-1")["status"] == "IN_PROGRESS"
    assert summary() == (
        "Booked: A81001, slot 20991123T0800Z-01, 2099-11-23T08:00:00Z. "
        f"{STANDS} Another message with this id is quarantined: conflict."
    )


def test_inspect_shows_no_booking_when_cancelled_first(moto_stack: MotoStack) -> None:
    """It leaves a tombstone, which is not a booking."""
    moto_stack.bench.deliver(record(cancellation("m-1", "c-1")))
    assert STANDS not in summary()


def test_inspect_finds_a_message_by_sqs_own_id(moto_stack: MotoStack) -> None:
    bad = record("not json")
    moto_stack.bench.deliver(bad)
    moto_stack.write_log()
    found = document(invoke("inspect", bad["messageId"], "--json"))
    assert found["summary"] == "Quarantined: not_json."
    assert found["dead_letters"][0]["source_sqs_message_id"] == bad["messageId"]
