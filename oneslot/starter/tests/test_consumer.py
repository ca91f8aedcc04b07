"""The decision on a ledger in memory, the law, and the handler under every fault."""

from pathlib import Path
from typing import Any

import pytest
from oneslot import Answer, JsonMessage, MemoryLedger, Unprocessable, attempt, typed
from oneslot.laws.evidence import Evidence

from decision import Change, take
from laws import stock_counts_each_row_once


def test_stock_is_counted_once_when_a_message_is_delivered_twice() -> None:
    ledger = MemoryLedger()
    deadline = ledger.surroundings.now_ms() + 30_000

    answers = [
        attempt(ledger, JsonMessage(message_id, body=Change(article="teapot", pieces=pieces)), take, deadline)
        for message_id, pieces in (("first", 5), ("second", -4), ("second", -4), ("third", -2))
    ]

    found = [(each.result["outcome"], each.duplicate) for each in answers if isinstance(each, Answer)]
    assert found == [("taken", False), ("taken", False), ("taken", True), ("sold_out", False)]
    assert list(ledger.tables["stock"].values()) == [{"article": "teapot", "left": 1}]
    assert [row["id"] for row in ledger.tables["orders"].values()] == ["first", "second"]


@pytest.mark.parametrize(("article", "pieces"), [("", 1), ("teapot", 0), ("teapot", "2")])
def test_invalid_message_is_quarantined(article: Any, pieces: Any) -> None:
    with pytest.raises(Unprocessable):
        take(typed(Change)("first", "", {"article": article, "pieces": pieces}))


def test_law_finds_a_stock_that_was_counted_twice() -> None:
    rows = {"first": {"id": "first", "article": "teapot", "pieces": 5}}
    stock = {"teapot": {"article": "teapot", "left": 10}}
    found = list(stock_counts_each_row_once(Evidence(tables={"orders": rows, "stock": stock})))
    assert found == [("teapot", "has 10 left, and its rows say 5")]


def test_handler_takes_effect_once_under_every_fault(explore: Any) -> None:
    result = explore(
        "app.handler",
        path=Path(__file__).parents[1] / "consumer",
        messages=[{"message_id": "first", "article": "teapot", "pieces": -2}],
        tables={"orders": "id", "stock": "article", "ledger": "message_id"},
        rows={"stock": [{"article": "teapot", "left": 3}]},
        ignore=["ledger.consumption_count"],  # it counts the attempts
        env={
            # A sort key needs "ONESLOT_KEY_ORDERS": "id:S,line:S", a Send "ONESLOT_SEND_MAILS": "https://sqs/000000000000/mails"
            "ONESLOT_TABLE_ORDERS": "orders",
            "ONESLOT_TABLE_STOCK": "stock",
            "ONESLOT_LEDGER_TABLE": "ledger",
            "ONESLOT_LEDGER_RETENTION_SECONDS": "forever",
            "ONESLOT_QUEUE_URL": "https://queue",
            "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://dead-letters",
        },
    )
    assert result.holds, str(result)
    assert not result.outside, str(result)  # a mail or a message that may go out twice
