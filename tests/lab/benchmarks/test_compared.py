"""What the measurements rest on: Powertools' handler does what its page says, and each start is measured."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.counter import CONSUMERS, WAYS, measured, tables
from lab.benchmarks.explored import KINDS
from lab.benchmarks.explored import measured as explored
from lab.benchmarks.handlers import book, booking, week
from lab.peers.powertools import Handler, powertools
from oneslot.runtime.sqs.lambda_event import Context, event_of
from oneslot.runtime.values import to_attributes
from tests.lab.benchmarks.test_units import Meter

PRACTICE = "A81001"


class Dies(BaseException):
    """The consumer's process dies."""


def metered(slots: int = 20) -> Meter:
    """Return the clients of an account with this many free slots."""
    meter = Meter()
    meter.port.seed("slots", map(to_attributes, week(PRACTICE, slots)))
    return meter


def rows(client: Meter, table: str) -> list[Any]:
    return list(client.port.contents.tables[table].values())


def held(client: Meter) -> list[str]:
    """Return the holder of each busy slot."""
    return sorted(row["appointment_id"]["S"] for row in rows(client, "slots") if "appointment_id" in row)


def deliver(handler: Handler, *ids: str) -> int:
    """Deliver a batch; return the number of failed records."""
    bodies = [booking(one, PRACTICE) for one in ids]
    return len(handler(event_of(*bodies), Context())["batchItemFailures"])


def test_powertools_books_each_request_once_when_nothing_dies() -> None:
    client = metered(slots=3)
    handler = powertools(client, book)
    assert [deliver(handler, "a", "b"), deliver(handler, "b", "c", "a", "d")] == [0, 0]
    assert held(client) == ["a", "b", "c"]
    assert Counter(row["status"]["S"] for row in rows(client, "appointments")) == {"booked": 3, "waitlist": 1}


def test_powertools_searches_again_when_the_slot_was_taken() -> None:
    client = metered()

    def take(name: str, request: Mapping[str, Any]) -> None:
        if name == "update_item" and request["TableName"] == "slots":
            client.before = lambda name, request: None
            deliver(powertools(client, book), "quicker")

    client.before = take
    assert deliver(powertools(client, book), "a") == 0
    assert held(client) == ["a", "quicker"]


def test_powertools_books_twice_when_killed_before_its_record() -> None:
    client = metered()
    handler = powertools(client, book)

    def die(name: str, request: Mapping[str, Any]) -> None:
        if name == "put_item" and request["TableName"] == "appointments":
            raise Dies

    client.before = die
    with pytest.raises(Dies):
        deliver(handler, "a")
    client.before = lambda name, request: None
    assert deliver(handler, "a") == 1, "its row is still in progress"
    for row in rows(client, "idempotency"):
        row["in_progress_expiration"] = {"N": "0"}  # a day later
    assert deliver(handler, "a") == 0
    assert held(client) == ["a", "a"]


PAGE = Path(__file__).resolve().parents[3] / "lab" / "docs" / "performance.md"


def test_page_has_the_table() -> None:
    assert tables(short=False) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("pieces", [CONSUMERS, 5, 0])
def test_decision_is_made_once_when_the_stock_is_counted_with_otherwise(pieces: int) -> None:
    client, left = measured(WAYS["`add` with `otherwise`"], pieces)
    assert (client.decisions, left) == (CONSUMERS, 0)
    assert client.calls == {"update_item": CONSUMERS, "transact_write_items": 2 * CONSUMERS - pieces}


def test_order_makes_three_calls_with_powertools() -> None:
    client, left = measured(WAYS["Powertools around `ADD`, which may count twice"], CONSUMERS)
    assert (client.calls.total(), left) == (3 * CONSUMERS, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_two_calls_is_complete(kind: str) -> None:
    label, calls, _, schedules, *_, complete = explored(kind, 2)

    assert (label, calls, complete) == (KINDS[kind], "2", "all levels")
    assert schedules in ("2,394", "1,491")


def test_five_calls_need_few_states_when_answers_are_forgotten() -> None:
    _, _, states, schedules, *_ = explored("one_item", 5)

    assert (states, schedules) == ("400", "344,854")


def test_level_is_named_when_the_budget_ends() -> None:
    assert explored("one_item", 5, budget=0.0)[-1] == 'not "twice"'
