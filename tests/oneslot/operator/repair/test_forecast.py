"""The rows that a forecast reads: all that it asked for, consistently, and what it foresees from them."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from oneslot.declaration.declaration import Declaration, Tools
from oneslot.errors import TableThrottled
from oneslot.operator.evidence.tables import read_rows
from oneslot.operator.repair.forecast import facts_of
from oneslot.runtime.handlers import performing, set_aside
from oneslot.runtime.record import Identity
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import booking, cancellation, record
from tests.kits.moto_stack import NOW, MotoStack, document, invoke


class Throttled:
    """A table that answers one key of each call; with `answers` = 0 none at all."""

    def __init__(self, answers: int = 1) -> None:
        self.calls = 0
        self._answers = answers

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803 - boto3's own
        self.calls += 1
        asked = RequestItems["ledger"]
        assert asked["ConsistentRead"] is True
        now, later = asked["Keys"][: self._answers], asked["Keys"][self._answers :]
        rows = [to_attributes({"message_id": key["message_id"]["S"], "status": "COMPLETE"}) for key in now]
        return {
            "Responses": {"ledger": rows},
            "UnprocessedKeys": {"ledger": {**asked, "Keys": later}} if later else {},
        }


def read(client: Any) -> dict[str, dict[str, Any]]:
    slept: list[float] = []
    surroundings = Surroundings(now_ms=lambda: round(sum(slept) * 1000), sleep=slept.append, jitter=lambda: 1.0)
    return read_rows(
        client, "ledger", "message_id", ["m-1", "m-2", "m-3"], ("message_id", "status"), surroundings=surroundings
    )


def test_forecast_asks_again_for_keys_that_were_throttled() -> None:
    """A row that looks missing would make its request look untouched."""
    client = Throttled()
    assert set(read(client)) == {"m-1", "m-2", "m-3"}
    assert client.calls == 3


def test_forecast_is_refused_when_a_table_stays_throttled() -> None:
    client = Throttled(answers=0)
    with pytest.raises(TableThrottled):
        read(client)
    assert client.calls > 10


class Lagging:
    """DynamoDB whose replicas lag behind: only a consistent read finds the slots."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query(self, **question: Any) -> Any:
        answer = self._client.query(**question)
        return answer if question.get("ConsistentRead") else answer | {"Count": 0, "Items": []}


def test_forecast_knows_a_practice_opened_a_moment_ago(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "oneslot.local.aws.connection.Connection.dynamodb", lambda _: Lagging(moto_stack.bench.dynamodb)
    )
    moto_stack.put_dead_letter(booking("m-1", **NOW))
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"retried": 1}
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1


def test_forecast_for_a_practice_without_slots_comes_true(moto_stack: MotoStack) -> None:
    """A request that was answered before its slots were deleted keeps its answer; no other gets one."""
    bench = moto_stack.bench
    bench.deliver(record(booking("done", **NOW)), record(booking("other", **NOW)), record(cancellation("withdrawn")))
    for message_id in ("done", "other"):
        bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": message_id}})
    for slot in bench.rows("slots"):
        key = {name: {"S": slot[name]} for name in ("practice", "slot_id")}
        bench.dynamodb.delete_item(TableName="slots", Key=key)
    for message_id in ("done", "withdrawn", "unknown"):
        moto_stack.put_dead_letter(booking(message_id, **NOW))
    moto_stack.put_dead_letter(booking("other", **NOW, service_type="Clinical Triage"))
    listed = document(invoke("dlq", "list", "--json"))["messages"]
    assert {each["message_id"]: each["outlook"] for each in listed} == {
        **dict.fromkeys(("done", "withdrawn"), "done_before"),
        **dict.fromkeys(("other", "unknown"), "fails_again"),
    }
    bench.deliveries.clear()
    assert document(invoke("dlq", "redrive", "--all", "--yes", "--json"))["moved"] == 4
    moto_stack.consume()
    assert {each.message_id: (each.outcome, each.reason) for each in bench.deliveries} == {
        "done": ("booked", None),
        "withdrawn": ("cancelled", None),
        "other": ("quarantined", "conflict"),
        "unknown": ("quarantined", "unknown_practice"),
    }


def id_of_record(raw: Any) -> Identity:
    """Read all that Lambda passes: a message's group, and a binary attribute."""
    group, mark = raw["attributes"]["MessageGroupId"], raw["messageAttributes"]["mark"]["binaryValue"]
    return Identity(f"{group}-{mark}-{len(raw['md5OfBody'])}", "content")


def fail(message_id: str, payload_hash: str, body: Any) -> Any:
    raise KeyError(body)


def declared_with(**tools: str) -> Declaration:
    dotted = {name: f"{__name__}.{function}" for name, function in tools.items()}
    return Declaration("orders", None, "app.handler", "Orders", tools=Tools(**dotted))


def message(body: str) -> dict[str, Any]:
    mark = {"mark": {"DataType": "Binary", "BinaryValue": b"abc"}}
    return {"Body": body, "MessageAttributes": mark, "Attributes": {"MessageGroupId": "north"}}


def test_forecast_finds_the_id_when_the_consumers_rule_reads_all_of_a_record() -> None:
    assert facts_of(message("text"), declared_with(identity="id_of_record")).message_id == "north-YWJj-32"


def test_forecast_says_that_a_message_fails_again_when_its_parser_fails_on_it() -> None:
    """It is in the dead-letter queue for that, so the list of all letters must not end with it."""
    problem = facts_of(message('{"secret": 1}'), declared_with(parse="fail"), "m-1").problem
    assert problem == f"parse raised KeyError at {__file__}:{fail.__code__.co_firstlineno + 1}"


def test_message_that_is_set_aside_says_what_to_do(moto_stack: MotoStack) -> None:
    """`dlq` and `check` show the reason; a redrive comes true as forecast, and helps once the row is forgotten."""
    bench = moto_stack.bench
    moto_stack.put_dead_letter(booking("m-1", **NOW))
    decide, calls = bench.consumer.decide, itertools.count()

    def fail_once(request: Any) -> Any:
        if not next(calls):
            raise TimeoutError
        return decide(request)

    bench.consumer = replace(bench.consumer, decide=fail_once, attempt=performing(set_aside))
    bench.deliver(record(booking("m-1", **NOW)))
    document(invoke("dlq", "redrive", "--all", "--yes", "--json"))
    moto_stack.consume()

    listed = document(invoke("dlq", "list", "--json"))
    assert (listed["reasons"], listed["outlooks"]) == ({"outcome_unknown": 1}, {"fails_again": 1})
    assert "if not, run `oneslot ledger forget m-1`, then redrive" in listed["messages"][0]["because"]
    checked = document(invoke("check", "--json"))
    assert (checked["counts"]["dead_letters"], checked["breaches"]) == ({"outcome_unknown": 1}, [])

    document(invoke("ledger", "forget", "m-1", "--yes", "--json"))
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1
    moto_stack.consume()
    assert bench.deliveries[-1].outcome == "booked"


def test_inspect_finds_a_message_by_sqs_own_id(moto_stack: MotoStack) -> None:
    bad = record("not json")
    moto_stack.bench.deliver(bad)
    moto_stack.write_log()
    found = document(invoke("inspect", bad["messageId"], "--json"))
    assert found["summary"] == "Quarantined: not_json."
    assert found["dead_letters"][0]["source_sqs_message_id"] == bad["messageId"]
