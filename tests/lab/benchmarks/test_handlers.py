"""The peers book each request once, and twice where the pages say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from lab.benchmarks.handlers import ledger_by_hand, powertools
from lab.benchmarks.harness.batches import Handler, LambdaContext, booking, event, week
from lab.benchmarks.rush import consumer as rush_consumer
from lab.benchmarks.standin.metered_dynamodb import MeteredDynamoDB
from oneslot.runtime.values import to_attributes

PRACTICE = "A81001"
PEERS = {"(a)": powertools, "(b)": ledger_by_hand}
Before = Callable[[str, Mapping[str, Any]], None]


class Dies(BaseException):
    """The consumer's process dies."""


class Client:
    """The metered port as boto3's client. `before` runs before each call."""

    def __init__(self, slots: int = 20) -> None:
        self.port = MeteredDynamoDB()
        self.before: Before = lambda name, request: None
        self.port.seed("slots", map(to_attributes, week(PRACTICE, slots)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.before(name, request)
            return getattr(self.port, name)(**request)

        return call

    def held(self) -> list[str]:
        """Return the holder of each busy slot."""
        rows = self.port.contents.tables["slots"].values()
        return sorted(row["appointment_id"]["S"] for row in rows if "appointment_id" in row)

    def appointments(self) -> list[str]:
        """Return each appointment with its status."""
        rows = self.port.contents.tables["appointments"].values()
        return sorted(f"{row['appointment_id']['S']} {row['status']['S']}" for row in rows)


def bodies(*ids: str) -> Sequence[dict[str, Any]]:
    return [booking(one, PRACTICE) for one in ids]


def deliver(handler: Handler, *ids: str) -> int:
    """Deliver a batch; return the number of failed records."""
    return len(handler(event(bodies(*ids)), LambdaContext())["batchItemFailures"])


@pytest.mark.parametrize("peer", PEERS)
def test_peer_books_each_request_once(peer: str) -> None:
    client = Client()
    handler = PEERS[peer](client)
    assert [deliver(handler, "a", "b"), deliver(handler, "b", "c", "a")] == [0, 0]
    assert client.held() == ["a", "b", "c"]
    assert client.appointments() == ["a booked", "b booked", "c booked"]


@pytest.mark.parametrize("peer", PEERS)
def test_peer_waitlists_when_no_slot_is_free(peer: str) -> None:
    client = Client(slots=1)
    assert deliver(PEERS[peer](client), "a", "b") == 0
    assert client.held() == ["a"]
    assert client.appointments() == ["a booked", "b waitlist"]


@pytest.mark.parametrize("peer", PEERS)
def test_peer_searches_again_when_the_slot_was_taken(peer: str) -> None:
    client = Client()
    other = PEERS[peer](client)

    def take(name: str, request: Mapping[str, Any]) -> None:
        if name == "update_item" and request["TableName"] == "slots":
            client.before = lambda name, request: None
            deliver(other, "quicker")

    client.before = take
    assert deliver(PEERS[peer](client), "a") == 0
    assert client.held() == ["a", "quicker"]


@pytest.mark.parametrize("peer", PEERS)
def test_peer_books_twice_when_killed_before_its_record(peer: str) -> None:
    client = Client()
    handler = PEERS[peer](client)

    def die(name: str, request: Mapping[str, Any]) -> None:
        if name == "put_item" and request["TableName"] == "appointments":
            raise Dies

    client.before = die
    with pytest.raises(Dies):
        deliver(handler, "a")
    client.before = lambda name, request: None
    assert deliver(handler, "a") == 1, "its row is still in progress"
    for table, name in (("ledger", "updated"), ("idempotency", "in_progress_expiration")):
        rows: Any = client.port.contents.tables[table]
        for row in rows.values():
            row[name] = {"N": "0"}  # a day later
    assert deliver(handler, "a") == 0
    assert client.held() == ["a", "a"]


def test_ledger_by_hand_books_concurrent_copies_twice() -> None:
    held = {}
    for name, peer in PEERS.items():
        client = Client()
        other = peer(client)

        def come(call: str, request: Mapping[str, Any], client: Client = client, other: Handler = other) -> None:
            if call == "put_item":  # after (b) has read, before it writes its row
                client.before = lambda name, request: None
                deliver(other, "a")

        client.before = come
        deliver(peer(client), "a")
        held[name] = client.held()
    assert held == {"(a)": ["a"], "(b)": ["a", "a"]}


@pytest.mark.parametrize(
    ("make", "age_seconds", "failed"),
    [
        (ledger_by_hand, 20, 1),
        (ledger_by_hand, 40, 0),
        (lambda client: rush_consumer.HANDLERS["by-hand"](), 5, 1),
        (lambda client: rush_consumer.HANDLERS["by-hand"](), 20, 0),
    ],
)
def test_ledger_by_hand_takes_over_after_its_lease(
    make: Callable[[Client], Handler], age_seconds: int, failed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    monkeypatch.setattr(rush_consumer, "_client", lambda service: client)
    client.put_item(
        TableName="ledger",
        Item={
            "message_id": {"S": "a"},
            "status": {"S": "IN_PROGRESS"},
            "consumption_count": {"N": "1"},
            "updated": {"N": str(time.time_ns() // 1_000_000 - age_seconds * 1_000)},
        },
    )
    assert deliver(make(client), "a") == failed
