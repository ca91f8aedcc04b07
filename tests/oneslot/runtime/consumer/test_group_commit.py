"""Group commit on moto: what goes together, who leaves the group and how, and what each costs in calls."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest

from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.group_commit import Decided, GroupCommit
from oneslot.runtime.effects import Effects, Put
from oneslot.runtime.protocol import Duplicate
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from tests.kits.consumer import (
    Bench,
    bench,
    booking,
    cancellation,
    cancelled,
    raising,
    record,
    service_error,
    surroundings,
)


class Counting:
    """A DynamoDB client that counts its calls, and lets a test have its say before each."""

    def __init__(self, client: Any, before: Callable[[str, dict[str, Any]], None] = lambda name, request: None) -> None:
        self.client = client
        self.before = before
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.calls[name] += 1
            self.before(name, request)
            return getattr(self.client, name)(**request)

        return call


def before_first(name: str, act: Callable[[Any], object]) -> Callable[[str, dict[str, Any]], None]:
    """For `Counting`: act before the first call of this operation."""
    waiting = [act]

    def before(called: str, request: dict[str, Any]) -> None:
        if called == name and waiting:
            waiting.pop()(request)

    return before


@pytest.fixture
def made() -> Iterator[Bench]:
    with bench(slots=12) as made:
        yield made


def grouped(made: Bench, client: Any = None, **changes: Any) -> Consumer[Any]:
    return made.another_consumer({"GROUP_COMMIT": "true"}, dynamodb=client or made.dynamodb, **changes)


def bookings(number: int, **changes: Any) -> list[dict[str, Any]]:
    return [record(booking(f"m-{position}", **changes)) for position in range(number)]


def booked(made: Bench) -> list[str]:
    return sorted(row["appointment_id"] for row in made.rows("slots") if row["status"] == "busy")


def test_ten_for_one_practice_cost_three_calls(made: Bench) -> None:
    client = Counting(made.dynamodb)
    assert made.deliver(*bookings(10), consumer=grouped(made, client)) == []
    assert client.calls == {"batch_get_item": 1, "query": 1, "transact_write_items": 1}
    assert booked(made) == [f"m-{position}" for position in range(10)]
    assert made.outcomes == ["booked"] * 10
    assert {(row["status"], row["consumption_count"]) for row in made.rows("ledger")} == {("COMPLETE", 1)}
    assert len({row["claimed_by"] for row in made.rows("ledger")}) == 10


def test_ten_duplicates_cost_one_call(made: Bench) -> None:
    made.deliver(*bookings(10), consumer=grouped(made))
    client = Counting(made.dynamodb)
    assert made.deliver(*bookings(10), consumer=grouped(made, client)) == []
    assert client.calls == {"batch_get_item": 1}
    assert made.outcomes[10:] == ["duplicate"] * 10
    assert [one.answer for one in made.deliveries[10:]] == [one.answer for one in made.deliveries[:10]]
    assert [one.claimed_by for one in made.deliveries[10:]] == [one.claimed_by for one in made.deliveries[:10]]


def test_a_group_answers_as_every_duplicate_is_answered(made: Bench) -> None:
    """JSON has no tuples, and names are text in it."""
    ledger = DynamoDBLedger(made.dynamodb, "ledger", retention_seconds=None, surroundings=surroundings(made.clock))
    effects = Effects({"seats": (1, 2), "by_row": {9: "nine", 10: "ten"}})
    answers = GroupCommit[Any](ledger, nothing).commit_first([Decided("m-0", "h", effects)])
    assert answers["m-0"].result == {"seats": [1, 2], "by_row": {"9": "nine", "10": "ten"}}
    assert ledger.claim("m-0", "h", made.clock() + 30_000) == Duplicate(
        answers["m-0"].result, 1, answers["m-0"].claimed_by
    )


def test_missed_duplicate_leaves_the_group_with_its_answer(made: Bench) -> None:
    """It is finished by another consumer between the look and the commit."""
    client = Counting(made.dynamodb, before_first("query", lambda _: made.deliver(record(booking("m-5")))))
    assert made.deliver(*bookings(10), consumer=grouped(made, client)) == []
    assert client.calls["transact_write_items"] >= 2
    assert Counter(made.outcomes) == {"booked": 10, "duplicate": 1}
    assert booked(made) == sorted(f"m-{position}" for position in range(10))


def test_message_that_loses_its_slot_leaves_the_group(made: Bench) -> None:
    def take(request: dict[str, Any]) -> None:
        slot = next(item["Update"] for item in request["TransactItems"] if "Update" in item)
        made.dynamodb.update_item(
            TableName="slots",
            Key=slot["Key"],
            UpdateExpression="SET #status = :busy, appointment_id = :other REMOVE free_key",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":busy": {"S": "busy"}, ":other": {"S": "another"}},
        )

    client = Counting(made.dynamodb, before_first("transact_write_items", take))
    assert made.deliver(*bookings(5), consumer=grouped(made, client)) == []
    assert client.calls == {"batch_get_item": 1, "query": 2, "transact_write_items": 3, "update_item": 1}
    assert booked(made) == ["another", "m-0", "m-1", "m-2", "m-3", "m-4"]
    assert Counter(row["consumption_count"] for row in made.rows("ledger")) == {1: 5}


@pytest.mark.parametrize("item", [3, 4], ids=["over its row", "over its slot"])
def test_message_in_transaction_conflict_leaves_the_group(made: Bench, item: int) -> None:
    conflicts: list[int] = []

    def conflict(request: dict[str, Any]) -> None:
        conflicts.append(len(request["TransactItems"]))
        codes = ["None"] * len(request["TransactItems"])
        codes[item] = "TransactionConflict"
        raise cancelled(*codes)

    client = Counting(made.dynamodb, before_first("transact_write_items", conflict))
    assert made.deliver(*bookings(3), consumer=grouped(made, client)) == []
    assert conflicts == [9]
    assert client.calls == {"batch_get_item": 1, "query": 2, "transact_write_items": 3, "update_item": 1}
    assert booked(made) == ["m-0", "m-1", "m-2"]


@pytest.mark.parametrize("call", ["batch_get_item", "query", "transact_write_items"])
def test_whatever_fails_each_record_takes_its_turn(made: Bench, call: str, caplog: pytest.LogCaptureFixture) -> None:
    client = Counting(made.dynamodb, before_first(call, raising(service_error("AccessDeniedException"))))
    with caplog.at_level(logging.WARNING):
        assert made.deliver(*bookings(3), consumer=grouped(made, client)) == []
    assert caplog.messages == ["these records are committed one by one: AccessDeniedException"]
    assert "for the test" not in caplog.text, "a service may quote what it was sent"
    assert booked(made) == ["m-0", "m-1", "m-2"]


@pytest.mark.parametrize("reasons", [0, 6], ids=["no reasons", "no reason among them"])
def test_cancellation_without_a_reason_is_not_success(
    made: Bench, reasons: int, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = before_first("transact_write_items", raising(cancelled(*["None"] * reasons)))
    with caplog.at_level(logging.WARNING):
        assert made.deliver(*bookings(2), consumer=grouped(made, Counting(made.dynamodb, refusal))) == []
    assert caplog.messages == ["these records are committed one by one: TransactionCanceledException"]
    assert booked(made) == ["m-0", "m-1"]


def test_own_commit_is_not_a_duplicate_when_its_answer_was_lost(made: Bench) -> None:
    """moto forgets tokens, as DynamoDB does after ten minutes: the second attempt finds the first one's rows."""

    def meanwhile(name: str, request: dict[str, Any]) -> None:
        if name == "transact_write_items":
            made.dynamodb.transact_write_items(**request)

    assert made.deliver(*bookings(2), consumer=grouped(made, Counting(made.dynamodb, meanwhile))) == []
    assert made.outcomes == ["booked", "booked"]
    assert booked(made) == ["m-0", "m-1"]


def test_id_twice_in_a_batch_is_one_message_or_a_conflict(made: Bench) -> None:
    other = booking("m-0", not_after="2099-11-23T12:00:00Z")
    records = [*bookings(2), record(booking("m-1")), record(other)]
    assert made.deliver(*records, consumer=grouped(made)) == []
    assert sorted(made.outcomes) == ["booked", "booked", "duplicate", "quarantined"]
    assert booked(made) == ["m-0", "m-1"]


def test_cancellation_follows_its_booking_in_the_group(made: Bench) -> None:
    records = [*bookings(2), record(cancellation("m-0"))]
    client = Counting(made.dynamodb)
    assert made.deliver(*records, consumer=grouped(made, client)) == []
    assert client.calls["transact_write_items"] == 2
    assert made.outcomes == ["booked", "booked", "cancelled"]
    assert booked(made) == ["m-1"]


def test_unprocessable_records_leave_the_group_to_the_others(made: Bench) -> None:
    records = [*bookings(2), record("not json"), record(booking("m-9", practice="B81002"))]
    client = Counting(made.dynamodb)
    assert made.deliver(*records, consumer=grouped(made, client)) == []
    assert client.calls["batch_get_item"] == 1
    assert client.calls["transact_write_items"] == 1
    assert made.outcomes == ["booked", "booked", "quarantined", "quarantined"]
    assert len(made.dead_letters()) == 2


@pytest.mark.parametrize("how", ["redelivered", "alone", "fifo"])
def test_record_outside_the_group_is_claimed(made: Bench, how: str) -> None:
    records = bookings(1 if how == "alone" else 2)
    for one in records:
        if how == "redelivered":
            one["attributes"]["ApproximateReceiveCount"] = "2"
        if how == "fifo":
            one["eventSourceARN"] += ".fifo"
            one["attributes"]["MessageGroupId"] = "group"
    client = Counting(made.dynamodb)
    assert made.deliver(*records, consumer=grouped(made, client)) == []
    assert client.calls["batch_get_item"] == 0
    assert client.calls["update_item"] == len(records)
    assert made.outcomes == ["booked"] * len(records)


def test_group_commits_the_same_on_threads(made: Bench) -> None:
    for number in range(4):
        made.seed(3, f"A8200{number}")
    records = [record(booking(f"m-{number}", practice=f"A8200{number % 4}")) for number in range(10)]
    with ThreadPoolExecutor(4) as executor, patch.object(executor, "submit", wraps=executor.submit) as submit:
        assert made.deliver(*records, consumer=grouped(made, executor=executor)) == []
    assert len(booked(made)) == 10
    assert submit.call_count == 4  # the look, and the reads for three of the practices; no answer needs a thread


def test_decision_for_a_duplicate_is_dropped_on_threads(made: Bench) -> None:
    made.deliver(*bookings(2), consumer=grouped(made))
    client = Counting(made.dynamodb)
    with ThreadPoolExecutor(4) as executor:
        assert made.deliver(*bookings(5), consumer=grouped(made, client, executor=executor)) == []
    assert client.calls == {"batch_get_item": 1, "query": 1, "transact_write_items": 1}
    assert Counter(made.outcomes[2:]) == {"booked": 3, "duplicate": 2}
    assert booked(made) == [f"m-{position}" for position in range(5)]


@pytest.mark.parametrize(("known", "queries"), [(2, 1), (3, 0)], ids=["half", "most"])
def test_look_comes_first_after_a_mostly_known_group(made: Bench, known: int, queries: int) -> None:
    made.deliver(*bookings(4), consumer=grouped(made))
    client = Counting(made.dynamodb)
    with ThreadPoolExecutor(4) as executor:
        consumer = grouped(made, client, executor=executor)
        first = [*bookings(known), *(record(booking(f"n-{position}")) for position in range(4 - known))]
        made.deliver(*first, consumer=consumer)
        assert client.calls.pop("query") == 1, "the ledger knew none"
        made.deliver(*bookings(4), consumer=consumer)
        assert client.calls.pop("query", 0) == queries
        made.deliver(*(record(booking(f"o-{position}")) for position in range(2)), consumer=consumer)
        assert client.calls.pop("query") == 1, "what is new is read in any case"
        made.deliver(*bookings(2), consumer=consumer)
        assert client.calls.pop("query") == 1, "and the next one is expected to be new"
    assert made.outcomes[-2:] == ["duplicate", "duplicate"]


def test_the_log_has_the_groups_time_and_that_of_the_turn(made: Bench) -> None:
    def meanwhile(name: str, request: dict[str, Any]) -> None:
        made.clock.now += {"batch_get_item": 5, "query": 7, "transact_write_items": 20}.get(name, 1)

    records = [*bookings(2), record(booking("m-2"))]
    records[2]["attributes"]["ApproximateReceiveCount"] = "2"
    assert made.deliver(*records, consumer=grouped(made, Counting(made.dynamodb, meanwhile))) == []
    assert [one.attempt_ms for one in made.deliveries] == [5 + 7 + 20, 5 + 7 + 20, 1 + 7 + 20]


def test_claimed_message_is_left_to_its_owner(made: Bench) -> None:
    """Its row is there and not complete: the ordinary way finds it busy and hides it. The others go together."""
    first = bookings(3)
    client = Counting(made.dynamodb)
    ordinary = made.consumer.ledger
    message_hash = grouped(made).parse("m-0", "h", booking("m-0")).payload_hash
    ordinary.claim("m-0", message_hash, made.clock() + 30_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oneslot.runtime.consumer.record.payload_hash", lambda body: "h")
        failed = made.deliver(*first, consumer=grouped(made, client))
    assert failed == [first[0]["messageId"]]
    assert made.outcomes == ["busy", "booked", "booked"]
    assert client.calls == {"batch_get_item": 1, "query": 1, "transact_write_items": 1, "update_item": 1}


def nothing(messages: Sequence[Any], executor: Executor | None) -> list[None]:
    return [None for _ in messages]


def group(made: Bench, client: Any) -> GroupCommit[Any]:
    tables = {"appointments": "appointments", "visits": "appointments"}
    ledger = DynamoDBLedger(
        client, "ledger", retention_seconds=None, tables=tables, surroundings=surroundings(made.clock)
    )
    return GroupCommit(ledger, nothing)


def decided(number: int, writes: int) -> list[Decided]:
    return [
        Decided(
            f"m-{position}",
            "h",
            Effects(
                {},
                tuple(
                    Put("appointments", {"appointment_id": f"{position}-{write}"}, key="appointment_id")
                    for write in range(writes)
                ),
            ),
        )
        for position in range(number)
    ]


@pytest.mark.parametrize(("number", "writes", "transactions"), [(33, 2, 1), (34, 2, 2), (50, 1, 1), (51, 1, 2)])
def test_a_transaction_holds_a_hundred_items(made: Bench, number: int, writes: int, transactions: int) -> None:
    client = Counting(made.dynamodb)
    answers = group(made, client).commit_first(decided(number, writes))
    assert list(answers) == [f"m-{position}" for position in range(number)]
    assert client.calls == {"transact_write_items": transactions}
    assert "expires_at" not in made.row("m-0")


def test_no_message_is_divided_between_two_transactions(made: Bench) -> None:
    """Its row in the one and an effect in the other, refused: it would be complete without having had its effect."""
    made.dynamodb.put_item(TableName="appointments", Item={"appointment_id": {"S": "33-1"}})
    answers = group(made, made.dynamodb).commit_first(decided(34, 2))
    assert list(answers) == [f"m-{position}" for position in range(33)]
    assert {row["message_id"] for row in made.rows("ledger")} == set(answers)
    assert "33-0" not in {row["appointment_id"] for row in made.rows("appointments")}


def test_refused_message_has_no_answer_and_the_others_have(made: Bench) -> None:
    """What stands in the way need not look like a row of the ledger."""
    made.dynamodb.put_item(TableName="appointments", Item={"appointment_id": {"S": "0-0"}})
    tokens: list[str] = []
    client = Counting(made.dynamodb, lambda name, request: tokens.append(request["ClientRequestToken"]))
    assert list(group(made, client).commit_first(decided(3, 1))) == ["m-1", "m-2"]
    assert client.calls == {"transact_write_items": 2}
    assert len(set(tokens)) == 2, "DynamoDB refuses another transaction under a token that it has seen"


def test_second_message_leaves_the_group_when_it_writes_the_same_item_under_another_table_name(made: Bench) -> None:
    one, other = (
        Decided(table, "h", Effects({}, [Put(table, {"appointment_id": "same"}, key="appointment_id")]))
        for table in ("appointments", "visits")
    )
    client = Counting(made.dynamodb)
    assert list(group(made, client).commit_first([one, other, *decided(1, 1)])) == ["appointments", "m-0"]
    assert client.calls == {"transact_write_items": 1}


def test_invalid_effects_leave_the_group(made: Bench) -> None:
    unfit = Decided("unfit", "h", Effects({"result": object()}))
    assert list(group(made, made.dynamodb).commit_first([unfit, *decided(2, 1)])) == ["m-0", "m-1"]


def test_more_than_a_read_can_hold_is_looked_up_in_part(made: Bench) -> None:
    assert group(made, made.dynamodb).known([f"m-{position}" for position in range(101)]) == {}


@pytest.mark.parametrize("answered", [{"ledger": []}, {}], ids=["none of the table", "no table"])
def test_transaction_finds_a_row_that_the_look_missed(made: Bench, answered: dict[str, Any]) -> None:
    """DynamoDB may leave keys for later: neither are they taken for new ones' rows, nor for done."""
    made.deliver(record(booking("m-0")))

    class Overloaded(Counting):
        def batch_get_item(self, **request: Any) -> Any:
            return {"Responses": answered, "UnprocessedKeys": request["RequestItems"]}

    client = Overloaded(made.dynamodb)
    assert made.deliver(*bookings(3), consumer=grouped(made, client)) == []
    assert client.calls == {"query": 1, "transact_write_items": 2}, "no message is claimed"
    assert made.outcomes == ["booked", "duplicate", "booked", "booked"]
    assert made.deliveries[0].answer == made.deliveries[1].answer
    assert booked(made) == ["m-0", "m-1", "m-2"]
