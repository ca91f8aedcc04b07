"""The relay over moto: what reaches a queue, a topic and a bus, and what a death between the send and the mark costs."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from oneslot.runtime.effects import Send
from oneslot.runtime.sends.outbox import unsent
from oneslot.runtime.sends.relay import NotSent
from tests.kits.outbox import RETENTION_SECONDS, Outbox


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with mock_aws():
        yield Outbox()


def test_message_reaches_a_queue_under_its_id_when_the_relay_sends_it(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("mails", {"to": "c"}), Send("orders", ["a"], group="c"))
    first, second = unsent(outbox.row("m-1"))

    assert outbox.relay.consume({"Records": [record]}) == {"batchItemFailures": []}

    (mail,), (order,) = outbox.received(outbox.mails), outbox.received(outbox.orders)
    assert (mail["Body"], order["Body"]) == ('{"to":"c"}', '["a"]')
    identity = [each["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] for each in (mail, order)]
    assert identity == [first.id, second.id]
    assert {name: order["Attributes"][name] for name in ("MessageGroupId", "MessageDeduplicationId")} == {
        "MessageGroupId": "c",
        "MessageDeduplicationId": second.id,
    }


def test_message_reaches_a_topic_and_a_bus_under_its_id(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sns = outbox.clients["sns"]
    arn = "arn:aws:sqs:eu-west-2:123456789012:{}"
    for topic, queue in (("news", "mails"), ("lines", "orders.fifo")):
        raw = {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=outbox.targets[topic], Protocol="sqs", Endpoint=arn.format(queue), Attributes=raw)
    # moto's bus needs packages that the environment lacks.
    monkeypatch.setattr(outbox.clients["events"], "put_events", lambda **_: {"FailedEntryCount": 0})
    record = outbox.commit("m-1", Send("news", "a"), Send("lines", "b", group="c"), Send("order_taken", {"order": 1}))
    ids = [each.id for each in unsent(outbox.row("m-1"))]

    assert outbox.relay.consume({"Records": [record]}) == {"batchItemFailures": []}

    (news,), (line,) = outbox.received(outbox.mails), outbox.received(outbox.orders)
    assert (news["Body"], line["Body"]) == ('"a"', '"b"')
    assert news["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] == ids[0]
    assert line["Attributes"]["MessageDeduplicationId"] == ids[1]
    assert json.loads(dict(outbox.calls)["put_events"])["Entries"] == [
        {
            "Source": "oneslot",
            "DetailType": "order_taken",
            "Detail": '{"order":1}',
            "EventBusName": outbox.targets["order_taken"],
            "Resources": [ids[2]],
        }
    ]


def test_row_is_marked_and_expires_from_then_on_when_its_messages_are_sent(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("mails", {}))
    before = outbox.row("m-1")
    outbox.clock.now += 1_000 * RETENTION_SECONDS * 3

    outbox.relay.consume({"Records": [record]})

    without = {name: value for name, value in before.items() if name not in ("sends", "unsent")}
    assert outbox.row("m-1") == {**without, "expires_at": outbox.clock() // 1000 + RETENTION_SECONDS}


def test_marked_row_never_expires_when_rows_are_kept_for_ever(outbox: Outbox) -> None:
    outbox.retention_seconds = None
    outbox.relay.consume({"Records": [outbox.commit("m-1", Send("mails", {}))]})
    assert outbox.row("m-1").keys() & {"sends", "unsent", "expires_at"} == set()


def test_message_goes_out_again_under_its_id_when_the_relay_dies_before_the_mark(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("mails", {"n": 1}), Send("orders", {"n": 2}, group="c"))

    class Killed(BaseException):
        pass

    def die_at_the_second(operation: str) -> None:
        if len(outbox.calls) == 2:
            raise Killed

    outbox.before = die_at_the_second
    with pytest.raises(Killed):
        outbox.relay.consume({"Records": [record]})
    assert outbox.row("m-1")["unsent"] == 2
    outbox.before = lambda _: None
    outbox.relay.consume({"Records": [record]})
    outbox.relay.consume({"Records": [record]})  # the stream delivers a record again

    assert "unsent" not in outbox.row("m-1")
    mails, orders = outbox.received(outbox.mails), outbox.received(outbox.orders)
    assert len(mails) == 3
    assert len({each["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] for each in mails}) == 1
    assert len(orders) == 1, "SQS drops the repeats of a FIFO queue"


def test_batch_goes_on_from_the_first_record_that_failed(outbox: Outbox, capsys: pytest.CaptureFixture[str]) -> None:
    records = [outbox.commit(f"m-{n}", Send("mails", {"secret": n})) for n in range(3)]

    def fail_at_the_second(_: str) -> None:
        if len(outbox.calls) == 2:
            raise ConnectionError("secret")

    outbox.before = fail_at_the_second

    assert outbox.relay.consume({"Records": records}) == {"batchItemFailures": [{"itemIdentifier": "number of m-1"}]}

    assert ["unsent" in outbox.row(f"m-{n}") for n in range(3)] == [False, True, True]
    assert capsys.readouterr().out == '{"message": "relay", "failed": "ConnectionError"}\n'


def test_row_is_not_made_again_when_it_was_forgotten(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("mails", {}))
    outbox.clients["dynamodb"].delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})

    assert outbox.relay.consume({"Records": [record]}) == {"batchItemFailures": []}

    assert outbox.item("m-1") == {}


def test_records_without_messages_are_passed_over(outbox: Outbox) -> None:
    deleted = {"dynamodb": {"SequenceNumber": "1"}}
    plain = outbox.commit("m-1")

    assert outbox.relay.consume({"Records": [deleted, plain]}) == {"batchItemFailures": []}

    assert outbox.calls == []


@pytest.mark.parametrize(
    ("lost", "text"), [("target", "the target 'order_taken' is unknown"), ("event", "refused an event")]
)
def test_row_stays_unsent_when_its_target_does_not_take_the_message(
    outbox: Outbox, lost: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.commit("m-1", Send("order_taken", {}))
    if lost == "target":
        del outbox.targets["order_taken"]
    else:
        refusal = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}
        monkeypatch.setattr(outbox.clients["events"], "put_events", lambda **_: refusal)

    with pytest.raises(NotSent, match=text):
        outbox.relay.send(outbox.row("m-1"))

    assert outbox.row("m-1")["unsent"] == 1


def test_error_is_raised_when_the_mark_fails(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    record, relay = outbox.commit("m-1", Send("mails", {})), outbox.relay
    outbox.clients["dynamodb"].delete_table(TableName="ledger")

    assert relay.consume({"Records": [record]})["batchItemFailures"] == [{"itemIdentifier": "number of m-1"}]


def test_unsent_rows_are_found_when_the_ledger_has_pages(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        outbox.commit(f"m-{number}", *([Send("mails", number)] if number % 2 else []))
    client = outbox.clients["dynamodb"]
    scan = client.scan
    monkeypatch.setattr(client, "scan", lambda **request: scan(Limit=2, **request))

    assert {row["message_id"] for row in outbox.relay.waiting()} == {"m-1", "m-3"}


def test_function_relays_with_the_environment_of_the_construct(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    record = outbox.commit("m-1", Send("mails", {"to": "c"}))
    environment = {
        "ONESLOT_LEDGER_TABLE": "ledger",
        "ONESLOT_LEDGER_RETENTION_SECONDS": "100",
        "ONESLOT_SEND_MAILS": outbox.mails,
        "AWS_DEFAULT_REGION": "eu-west-2",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    function: Any = importlib.reload(importlib.import_module("oneslot.runtime.sends.lambda_relay"))

    assert function.handler({"Records": [record]}, None) == {"batchItemFailures": []}

    assert [each["Body"] for each in outbox.received(outbox.mails)] == ['{"to":"c"}']
