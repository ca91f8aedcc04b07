"""The peers do the business that is compared, once for each request; and where they do it twice, as the pages say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from benchmarks.bench_kit import Handler, LambdaContext, booking, event, week
from benchmarks.peers import ledger_by_hand, powertools
from benchmarks.rush import worker as rush_worker
from benchmarks.standin import MeteredDynamoDB
from oneslot.runtime.stores.expressions import to_attributes

PRACTICE = "A81001"
PEERS = {"(a)": powertools, "(b)": ledger_by_hand}
Before = Callable[[str, Mapping[str, Any]], None]


class Dies(BaseException):
    """The consumer's process ends here."""


class Client:
    """The metered port as boto3's client. `before` may act before a call."""

    def __init__(self, slots: int = 20) -> None:
        self.port = MeteredDynamoDB()
        self.before: Before = lambda name, request: None
        for slot in week(PRACTICE, slots):
            item = to_attributes(slot)
            self.port._store("slots", self.port.tables["slots"].key_text(item), item)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.before(name, request)
            return getattr(self.port, name)(**request)

        return call

    def held(self) -> list[str]:
        """Who holds a slot, once for each."""
        rows = self.port.contents.tables["slots"].values()
        return sorted(row["appointment_id"]["S"] for row in rows if "appointment_id" in row)

    def appointments(self) -> list[str]:
        """What became of the requests."""
        rows = self.port.contents.tables["appointments"].values()
        return sorted(f"{row['appointment_id']['S']} {row['status']['S']}" for row in rows)


def bodies(*ids: str) -> Sequence[dict[str, Any]]:
    return [booking(one, PRACTICE) for one in ids]


def deliver(handler: Handler, *ids: str) -> int:
    """Deliver a batch; how many records failed."""
    return len(handler(event(bodies(*ids)), LambdaContext())["batchItemFailures"])


@pytest.mark.parametrize("peer", PEERS)
def test_each_request_is_booked_once_however_often_it_comes(peer: str) -> None:
    client = Client()
    handler = PEERS[peer](client)
    assert [deliver(handler, "a", "b"), deliver(handler, "b", "c", "a")] == [0, 0]
    assert client.held() == ["a", "b", "c"]
    assert client.appointments() == ["a booked", "b booked", "c booked"]


@pytest.mark.parametrize("peer", PEERS)
def test_without_a_free_slot_there_is_the_waiting_list(peer: str) -> None:
    client = Client(slots=1)
    assert deliver(PEERS[peer](client), "a", "b") == 0
    assert client.held() == ["a"]
    assert client.appointments() == ["a booked", "b waitlist"]


@pytest.mark.parametrize("peer", PEERS)
def test_a_slot_that_somebody_else_took_is_looked_for_again(peer: str) -> None:
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
def test_who_dies_between_the_slot_and_its_record_books_twice(peer: str) -> None:
    client = Client()
    handler = PEERS[peer](client)

    def die(name: str, request: Mapping[str, Any]) -> None:
        if name == "put_item" and request["TableName"] == "appointments":
            raise Dies

    client.before = die
    with pytest.raises(Dies):
        deliver(handler, "a")
    client.before = lambda name, request: None
    assert deliver(handler, "a") == 1, "still in progress, as far as anybody knows"
    for table, name in (("ledger", "updated"), ("idempotency", "in_progress_expiration")):
        rows: Any = client.port.contents.tables[table]
        for row in rows.values():
            row[name] = {"N": "0"}  # a day later
    assert deliver(handler, "a") == 0
    assert client.held() == ["a", "a"]


def test_two_copies_at_the_same_time_are_booked_twice_by_hand_and_once_by_powertools() -> None:
    held = {}
    for name, peer in PEERS.items():
        client = Client()
        other = peer(client)

        def come(call: str, request: Mapping[str, Any], client: Client = client, other: Handler = other) -> None:
            if call == "put_item":  # after (b)'s look, before its row
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
        (lambda client: rush_worker.HANDLERS["by-hand"](), 5, 1),
        (lambda client: rush_worker.HANDLERS["by-hand"](), 20, 0),
    ],
)
def test_a_row_in_progress_is_left_alone_for_as_long_as_the_function_may_run(
    make: Callable[[Client], Handler], age_seconds: int, failed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    monkeypatch.setattr(rush_worker, "_client", lambda service: client)
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
