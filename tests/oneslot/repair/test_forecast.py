"""What a forecast reads of the ledger: every row that it asked for, as it is now."""

from __future__ import annotations

from typing import Any

import pytest

from oneslot.errors import OneslotError
from oneslot.repair.forecast import ATTEMPTS, read_rows
from oneslot.runtime.stores.expressions import to_attributes
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
    return read_rows(client, "ledger", "message_id", ["m-1", "m-2", "m-3"], ("message_id", "status"))


@pytest.fixture(autouse=True)
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits here."""
    slept: list[float] = []
    monkeypatch.setattr("oneslot.repair.forecast.time.sleep", slept.append)
    return slept


def test_a_key_that_a_throttled_table_left_out_is_asked_for_again() -> None:
    """Taken for a row that is not there, its request would be told as one for which nothing was done yet."""
    client = Throttled()
    assert set(read(client)) == {"m-1", "m-2", "m-3"}
    assert client.calls == 3


def test_a_table_that_stays_throttled_is_a_sentence_and_no_forecast(sleeps: list[float]) -> None:
    client = Throttled(answers=0)
    with pytest.raises(OneslotError, match="The table ledger is throttled"):
        read(client)
    assert client.calls == ATTEMPTS
    assert sleeps == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]), "none after the last attempt"


class Lagging:
    """DynamoDB whose copies do not know the slots yet: only a consistent read finds them."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query(self, **question: Any) -> Any:
        answer = self._client.query(**question)
        return answer if question.get("ConsistentRead") else answer | {"Count": 0, "Items": []}


def test_a_practice_that_was_opened_a_moment_ago_is_known(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the person who has just opened it is told to open it, and the redrive leaves its message alone."""
    monkeypatch.setattr(
        "oneslot.local.aws.connection.Connection.dynamodb", lambda _: Lagging(moto_stack.bench.dynamodb)
    )
    moto_stack.put_dead_letter(booking("m-1", **NOW))
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"retried": 1}
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1


def test_what_is_foreseen_at_a_practice_without_slots_is_what_the_consumer_does(moto_stack: MotoStack) -> None:
    """Its slots were cleared away: what was booked or cancelled before keeps its answer, and nothing else has one."""
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
