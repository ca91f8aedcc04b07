"""Group commit on moto: what it costs in calls, its limits, and who leaves the group.

What its answers must be in every order of calls, with lost answers, with a duplicate, a cancellation, another content or an
invalid record in the batch, the explorer judges: `lab/explore/scenarios.py`, through `tests/lab/explore/test_short.py`.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest

from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.group_commit import Decided, GroupCommit
from oneslot.runtime.effects import Effects, Put
from oneslot.runtime.protocol import Duplicate
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from tests.kits.consumer import Bench, bench, booking, cancelled, raising, record, service_error, surroundings


class Counting:
    """A DynamoDB client that counts its calls, and lets a test act before each."""

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


def bookings(number: int, name: str = "m") -> list[dict[str, Any]]:
    return [record(booking(f"{name}-{position}")) for position in range(number)]


def booked(made: Bench) -> list[str]:
    return sorted(row["appointment_id"] for row in made.rows("slots") if row["status"] == "busy")


def test_ten_cost_three_calls_when_new_and_one_when_known(made: Bench) -> None:
    client = Counting(made.dynamodb)
    assert made.deliver(*bookings(10), consumer=grouped(made, client)) == []
    assert client.calls == {"batch_get_item": 1, "query": 1, "transact_write_items": 1}
    assert booked(made) == [f"m-{position}" for position in range(10)]
    assert {(row["status"], row["consumption_count"]) for row in made.rows("ledger")} == {("COMPLETE", 1)}
    assert len({row["claimed_by"] for row in made.rows("ledger")}) == 10

    client = Counting(made.dynamodb)
    assert made.deliver(*bookings(10), consumer=grouped(made, client)) == []
    assert client.calls == {"batch_get_item": 1}
    assert made.outcomes == ["booked"] * 10 + ["duplicate"] * 10
    first, again = ([(one.answer, one.claimed_by) for one in made.deliveries[at : at + 10]] for at in (0, 10))
    assert first == again


def take_its_slot(made: Bench, request: dict[str, Any]) -> None:
    slot = next(item["Update"] for item in request["TransactItems"] if "Update" in item)
    made.dynamodb.update_item(
        TableName="slots",
        Key=slot["Key"],
        UpdateExpression="SET #status = :busy, appointment_id = :other REMOVE free_key",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":busy": {"S": "busy"}, ":other": {"S": "another"}},
    )


def conflict_at(item: int) -> Callable[[Bench, dict[str, Any]], None]:
    def conflict(_: Bench, request: dict[str, Any]) -> None:
        codes = ["None"] * len(request["TransactItems"])
        codes[item] = "TransactionConflict"
        raise cancelled(*codes)

    return conflict


@pytest.mark.parametrize(
    "happens",
    [take_its_slot, conflict_at(3), conflict_at(4)],
    ids=["its slot is taken", "conflict over its row", "conflict over its slot"],
)
def test_message_is_committed_alone_when_an_item_of_it_is_refused(
    made: Bench, happens: Callable[[Bench, dict[str, Any]], None]
) -> None:
    client = Counting(made.dynamodb, before_first("transact_write_items", lambda request: happens(made, request)))
    assert made.deliver(*bookings(3), consumer=grouped(made, client)) == []
    assert client.calls == {"batch_get_item": 1, "query": 2, "transact_write_items": 3, "update_item": 1}
    assert [name for name in booked(made) if name != "another"] == ["m-0", "m-1", "m-2"]
    assert Counter(row["consumption_count"] for row in made.rows("ledger")) == {1: 3}


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        *(
            (call, service_error("AccessDeniedException"), "AccessDeniedException")
            for call in ("batch_get_item", "query", "transact_write_items")
        ),
        *(
            ("transact_write_items", cancelled(*["None"] * reasons), "TransactionCanceledException")
            for reasons in (0, 9)
        ),
    ],
    ids=["look", "read", "commit", "cancellation without reasons", "cancellation with no reason among them"],
)
def test_records_are_committed_one_by_one_when_a_call_fails(
    made: Bench, call: str, error: Exception, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Counting(made.dynamodb, before_first(call, raising(error)))
    with caplog.at_level(logging.WARNING):
        assert made.deliver(*bookings(3), consumer=grouped(made, client)) == []
    # Without the error's text: a service may quote what it was sent.
    assert caplog.messages == [f"these records are committed one by one: {named}"]
    assert booked(made) == ["m-0", "m-1", "m-2"]


def test_row_is_left_to_the_ordinary_way_when_it_is_not_complete(made: Bench) -> None:
    made.consumer.ledger.claim("m-0", "another content", made.clock() + 30_000)
    client = Counting(made.dynamodb)
    assert made.deliver(*bookings(3), consumer=grouped(made, client)) == []
    assert client.calls == {"batch_get_item": 1, "query": 1, "transact_write_items": 1, "update_item": 1}
    assert made.outcomes == ["quarantined", "booked", "booked"]


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
    assert (client.calls["batch_get_item"], client.calls["update_item"]) == (0, len(records))
    assert made.outcomes == ["booked"] * len(records)


def test_group_needs_a_thread_for_the_look_and_for_each_further_read(made: Bench) -> None:
    for number in range(4):
        made.seed(3, f"A8200{number}")
    records = [record(booking(f"m-{number}", practice=f"A8200{number % 4}")) for number in range(10)]
    with ThreadPoolExecutor(4) as executor, patch.object(executor, "submit", wraps=executor.submit) as submit:
        assert made.deliver(*records, consumer=grouped(made, executor=executor)) == []
    assert len(booked(made)) == 10
    assert submit.call_count == 4


@pytest.mark.parametrize(("known", "queries"), [(2, 1), (3, 0)], ids=["half", "most"])
def test_look_comes_first_when_most_of_the_last_group_was_known(made: Bench, known: int, queries: int) -> None:
    made.deliver(*bookings(4), consumer=grouped(made))
    client = Counting(made.dynamodb)
    with ThreadPoolExecutor(4) as executor:
        consumer = grouped(made, client, executor=executor)
        made.deliver(*bookings(known), *bookings(4 - known, "n"), consumer=consumer)
        made.deliver(*bookings(4), consumer=consumer)
        made.deliver(*bookings(2, "o"), consumer=consumer)
        made.deliver(*bookings(2), consumer=consumer)
    # What is new is read in any case, and after it the next group is expected to be new.
    assert client.calls["query"] == 1 + queries + 1 + 1
    assert client.calls["transact_write_items"] == 2, "a decision for a known message is dropped"
    assert made.outcomes[-2:] == ["duplicate", "duplicate"]


def test_log_has_the_groups_time_and_that_of_a_record_outside(made: Bench) -> None:
    def meanwhile(name: str, request: dict[str, Any]) -> None:
        made.clock.now += {"batch_get_item": 5, "query": 7, "transact_write_items": 20}.get(name, 1)

    records = [*bookings(2), record(booking("m-2"), receive_count=2)]
    assert made.deliver(*records, consumer=grouped(made, Counting(made.dynamodb, meanwhile))) == []
    assert [one.attempt_ms for one in made.deliveries] == [5 + 7 + 20, 5 + 7 + 20, 1 + 7 + 20]


@pytest.mark.parametrize("answered", [{"ledger": []}, {}], ids=["none of the table", "no table"])
def test_transaction_finds_a_row_when_the_look_missed_it(made: Bench, answered: dict[str, Any]) -> None:
    """DynamoDB may leave keys for later: they count neither as new nor as done."""
    made.deliver(record(booking("m-0")))

    class Overloaded(Counting):
        def batch_get_item(self, **request: Any) -> Any:
            return {"Responses": answered, "UnprocessedKeys": request["RequestItems"]}

    client = Overloaded(made.dynamodb)
    assert made.deliver(*bookings(3), consumer=grouped(made, client)) == []
    assert client.calls == {"query": 1, "transact_write_items": 2}, "no message is claimed"
    assert made.outcomes == ["booked", "duplicate", "booked", "booked"]
    assert made.deliveries[0].answer == made.deliveries[1].answer


def group(made: Bench, client: Any) -> GroupCommit[Any]:
    tables = {"appointments": "appointments", "visits": "appointments"}
    ledger = DynamoDBLedger(
        client, "ledger", retention_seconds=None, tables=tables, surroundings=surroundings(made.clock)
    )
    return GroupCommit(ledger, lambda messages, executor: [None for _ in messages])


def put(name: str, table: str = "appointments") -> Put:
    return Put(table, {"appointment_id": name}, key="appointment_id")


def decided(number: int, writes: int) -> list[Decided]:
    return [
        Decided(f"m-{at}", "h", Effects({}, tuple(put(f"{at}-{write}") for write in range(writes))))
        for at in range(number)
    ]


@pytest.mark.parametrize(("number", "writes", "transactions"), [(33, 2, 1), (34, 2, 2), (50, 1, 1), (52, 1, 2)])
def test_transaction_holds_a_hundred_items(made: Bench, number: int, writes: int, transactions: int) -> None:
    client = Counting(made.dynamodb)
    answers = group(made, client).commit_first(decided(number, writes))
    assert list(answers) == [f"m-{position}" for position in range(number)]
    assert client.calls == {"transact_write_items": transactions}
    assert "expires_at" not in made.row("m-0")


def test_message_is_in_one_transaction_when_the_group_needs_two(made: Bench) -> None:
    """Its row in the one and a refused effect in the other: it would be complete without its effect."""
    made.dynamodb.put_item(TableName="appointments", Item={"appointment_id": {"S": "33-1"}})
    answers = group(made, made.dynamodb).commit_first(decided(34, 2))
    assert list(answers) == [f"m-{position}" for position in range(33)]
    assert {row["message_id"] for row in made.rows("ledger")} == set(answers)
    assert "33-0" not in {row["appointment_id"] for row in made.rows("appointments")}


def test_refused_message_has_no_answer_and_the_others_have(made: Bench) -> None:
    """The item that is there need not look like a row of the ledger."""
    made.dynamodb.put_item(TableName="appointments", Item={"appointment_id": {"S": "0-0"}})
    tokens: list[str] = []
    client = Counting(made.dynamodb, lambda name, request: tokens.append(request["ClientRequestToken"]))
    assert list(group(made, client).commit_first(decided(3, 1))) == ["m-1", "m-2"]
    assert len(tokens) == len(set(tokens)) == 2, "DynamoDB refuses another transaction under a token that it has seen"


def test_message_leaves_the_group_when_it_is_invalid_or_writes_an_item_again(made: Bench) -> None:
    client = Counting(made.dynamodb)
    invalid = Decided("invalid", "h", Effects({"result": object()}))
    same = [Decided(table, "h", Effects({}, [put("same", table)])) for table in ("appointments", "visits")]
    assert list(group(made, client).commit_first([invalid, *same, *decided(1, 1)])) == ["appointments", "m-0"]
    assert client.calls == {"transact_write_items": 1}


def test_group_answers_as_every_duplicate_is_answered(made: Bench) -> None:
    """JSON has no tuples, and names are text in it."""
    effects = Effects({"seats": (1, 2), "by_row": {9: "nine", 10: "ten"}})
    one = group(made, made.dynamodb)
    answer = one.commit_first([Decided("m-0", "h", effects)])["m-0"]
    assert answer.result == {"seats": [1, 2], "by_row": {"9": "nine", "10": "ten"}}
    known = one.ledger.claim("m-0", "h", made.clock() + 30_000)
    assert known == Duplicate(answer.result, 1, answer.claimed_by)


def test_look_reads_a_hundred_rows_when_there_are_more(made: Bench) -> None:
    assert group(made, made.dynamodb).known([f"m-{position}" for position in range(101)]) == {}
