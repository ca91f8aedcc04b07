"""The decision on a ledger in memory, the law, and the handler under every fault."""

from pathlib import Path
from typing import Any

import pytest
from oneslot import Answer, JsonMessage, MemoryLedger, Unprocessable, attempt
from oneslot.laws.evidence import Evidence

from decision import take
from laws import quantity_is_positive


def test_message_takes_effect_once_when_delivered_twice() -> None:
    ledger = MemoryLedger()
    message = JsonMessage("first", body={"quantity": 2})
    deadline = ledger.surroundings.now_ms() + 30_000

    answers = [attempt(ledger, message, take, deadline) for _ in range(2)]

    assert [isinstance(each, Answer) and each.duplicate for each in answers] == [False, True]
    assert list(ledger.tables["orders"].values()) == [{"id": "first", "quantity": 2}]


@pytest.mark.parametrize("quantity", [None, 0, "2"])
def test_invalid_quantity_is_quarantined(quantity: Any) -> None:
    with pytest.raises(Unprocessable):
        take(JsonMessage("first", body={"quantity": quantity}))


def test_law_finds_a_quantity_of_zero() -> None:
    rows = {"first": {"id": "first", "quantity": 1}, "second": {"id": "second", "quantity": 0}}
    assert list(quantity_is_positive(Evidence(tables={"orders": rows}))) == [("second", "has the quantity 0")]


def test_handler_takes_effect_once_under_every_fault(explore: Any) -> None:
    result = explore(
        "app.handler",
        path=Path(__file__).parents[1] / "consumer",
        messages=[{"message_id": "first", "quantity": 2}],
        tables={"orders": "id", "ledger": "message_id"},
        ignore=["ledger.consumption_count"],  # it counts the attempts
        env={
            "ONESLOT_TABLE_ORDERS": "orders",
            "ONESLOT_LEDGER_TABLE": "ledger",
            "ONESLOT_LEDGER_RETENTION_SECONDS": "forever",
            "ONESLOT_QUEUE_URL": "https://queue",
            "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://dead-letters",
            "ONESLOT_MAX_RECEIVE_COUNT": "3",  # the explorer delivers three times once its faults end
        },
    )
    assert result.holds, str(result)
    assert not result.outside, str(result)  # a mail or a message that may go out twice
