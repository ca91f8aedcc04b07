"""What the measurements rest on: Powertools' handler does what its page says, and each start is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lab.benchmarks.handlers import Handler, booking, powertools, week
from lab.benchmarks.standin import MeteredDynamoDB
from oneslot.runtime.sqs.lambda_event import Context, event_of
from oneslot.runtime.values import to_attributes

PRACTICE = "A81001"


class Dies(BaseException):
    """The consumer's process dies."""


class Client:
    """The metered port as boto3's client. `before` runs before each call."""

    def __init__(self, slots: int = 20) -> None:
        self.port = MeteredDynamoDB()
        self.before: Callable[[str, Mapping[str, Any]], None] = lambda name, request: None
        self.port.seed("slots", map(to_attributes, week(PRACTICE, slots)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.before(name, request)
            return getattr(self.port, name)(**request)

        return call

    def rows(self, table: str) -> list[Any]:
        return list(self.port.contents.tables[table].values())

    def held(self) -> list[str]:
        """Return the holder of each busy slot."""
        return sorted(row["appointment_id"]["S"] for row in self.rows("slots") if "appointment_id" in row)


def deliver(handler: Handler, *ids: str) -> int:
    """Deliver a batch; return the number of failed records."""
    bodies = [booking(one, PRACTICE) for one in ids]
    return len(handler(event_of(*bodies), Context())["batchItemFailures"])


def test_powertools_books_each_request_once_when_nothing_dies() -> None:
    client = Client(slots=3)
    handler = powertools(client)
    assert [deliver(handler, "a", "b"), deliver(handler, "b", "c", "a", "d")] == [0, 0]
    assert client.held() == ["a", "b", "c"]
    assert Counter(row["status"]["S"] for row in client.rows("appointments")) == {"booked": 3, "waitlist": 1}


def test_powertools_searches_again_when_the_slot_was_taken() -> None:
    client = Client()
    other = powertools(client)

    def take(name: str, request: Mapping[str, Any]) -> None:
        if name == "update_item" and request["TableName"] == "slots":
            client.before = lambda name, request: None
            deliver(other, "quicker")

    client.before = take
    assert deliver(powertools(client), "a") == 0
    assert client.held() == ["a", "quicker"]


def test_powertools_books_twice_when_killed_before_its_record() -> None:
    client = Client()
    handler = powertools(client)

    def die(name: str, request: Mapping[str, Any]) -> None:
        if name == "put_item" and request["TableName"] == "appointments":
            raise Dies

    client.before = die
    with pytest.raises(Dies):
        deliver(handler, "a")
    client.before = lambda name, request: None
    assert deliver(handler, "a") == 1, "its row is still in progress"
    for row in client.rows("idempotency"):
        row["in_progress_expiration"] = {"N": "0"}  # a day later
    assert deliver(handler, "a") == 0
    assert client.held() == ["a", "a"]
