"""The relay over moto: what reaches a queue, a topic and a bus, what waits for what, and what a death at any call costs."""

import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from moto import mock_aws

from oneslot.runtime.effects import Send
from oneslot.runtime.sends.outbox import unsent
from oneslot.runtime.sends.relay import RESERVED_MS, YOUNG_MS
from tests.kits.consumer import Killed, moto_client, service_error
from tests.kits.outbox import RETENTION_SECONDS, Outbox

GONE = "https://sqs.eu-west-2.amazonaws.com/123456789012/gone"
NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with mock_aws():
        yield Outbox()


def test_message_reaches_a_queue_under_its_id_when_the_relay_sends_it(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("mails", {"to": "c"}, group="fair"), Send("orders", ["a"], group="c"))
    first, second = unsent(outbox.row("m-1"))

    assert outbox.relayed(record) == []

    (mail,), (order,) = outbox.received(outbox.mails), outbox.received(outbox.orders)
    assert (mail["Body"], order["Body"]) == ('{"to":"c"}', '["a"]')
    identity = [each["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] for each in (mail, order)]
    assert identity == [first.id, second.id]
    assert {name: order["Attributes"][name] for name in ("MessageGroupId", "MessageDeduplicationId")} == {
        "MessageGroupId": "c",
        "MessageDeduplicationId": second.id,
    }
    (fair,) = json.loads(outbox.calls[0][1])["Entries"]
    assert (fair["MessageGroupId"], "MessageDeduplicationId" in fair) == ("fair", False)


def test_message_reaches_a_topic_and_a_bus_under_its_id(outbox: Outbox) -> None:
    sns = outbox.clients["sns"]
    arn = "arn:aws:sqs:eu-west-2:123456789012:{}"
    for topic, queue in (("news", "mails"), ("lines", "orders.fifo")):
        raw = {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=outbox.targets[topic], Protocol="sqs", Endpoint=arn.format(queue), Attributes=raw)
    # moto's bus needs packages that the environment lacks.
    outbox.before = lambda name: {"FailedEntryCount": 0, "Entries": [{}]} if name == "put_events" else None
    record = outbox.commit("m-1", Send("news", "a"), Send("lines", "b", group="c"), Send("order_taken", {"order": 1}))
    ids = [each.id for each in unsent(outbox.row("m-1"))]

    assert outbox.relayed(record) == []

    (news,), (line,) = outbox.received(outbox.mails), outbox.received(outbox.orders)
    assert (news["Body"], line["Body"]) == ('"a"', '"b"')
    assert news["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] == ids[0]
    assert line["Attributes"]["MessageDeduplicationId"] == ids[1]
    assert json.loads(dict(outbox.calls)["put_events"])["Entries"] == [
        {
            "EventBusName": outbox.targets["order_taken"],
            "Source": "oneslot",
            "DetailType": "order_taken",
            "Detail": '{"order":1}',
            "Resources": [ids[2]],
        }
    ]


def test_row_is_marked_and_expires_from_then_on_when_its_messages_are_sent(outbox: Outbox) -> None:
    outbox.sender = "the queue"
    record = outbox.commit("m-1", Send("mails", {}))
    before = outbox.row("m-1")
    outbox.clock.now += 1_000 * RETENTION_SECONDS * 3

    outbox.relayed(record)

    without = {name: value for name, value in before.items() if name not in ("sends", "unsent", "sender")}
    assert outbox.row("m-1") == {**without, "expires_at": outbox.clock() // 1000 + RETENTION_SECONDS}


def test_marked_row_never_expires_when_rows_are_kept_for_ever(outbox: Outbox) -> None:
    outbox.retention_seconds = None
    outbox.relayed(outbox.commit("m-1", Send("mails", {})))
    assert outbox.row("m-1").keys() & {"sends", "unsent", "expires_at"} == set()


def test_thirty_messages_go_in_three_calls_and_those_of_a_fifo_group_one_by_one(outbox: Outbox) -> None:
    """A call may take the second message of a FIFO group and not the first."""
    mails = outbox.commit("m-1", *[Send("mails", number) for number in range(30)])
    lines = outbox.commit("m-2", *[Send("orders", number, group="ab"[number % 2]) for number in range(6)])

    assert outbox.relayed(mails, lines) == []

    assert outbox.sent() == [[*range(10)], [*range(10, 20)], [*range(20, 30)], [0, 1], [2, 3], [4, 5]]
    assert not {"sends", "unsent"} & (outbox.row("m-1").keys() | outbox.row("m-2").keys())


def test_large_messages_go_in_calls_that_their_target_takes(outbox: Outbox) -> None:
    record = outbox.commit("m-1", *[Send("mails", str(number) * 100_000) for number in range(3)])

    assert outbox.relayed(record) == []

    assert [len(call) for call in outbox.sent()] == [2, 1]


def test_message_goes_out_again_under_its_id_when_the_relay_dies_before_the_mark(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("mails", {"n": 1}), Send("orders", {"n": 2}, group="c"))

    def die_at_the_second(_: str) -> None:
        if len(outbox.calls) == 2:
            raise Killed

    outbox.before = die_at_the_second
    with pytest.raises(Killed):
        outbox.relayed(record)
    assert outbox.row("m-1")["unsent"] == 2
    outbox.before = lambda _: None
    outbox.relayed(record)

    assert "unsent" not in outbox.row("m-1")
    mails, orders = outbox.received(outbox.mails), outbox.received(outbox.orders)
    assert len(mails) == 2
    assert len({each["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] for each in mails}) == 1
    assert len(orders) == 1


def test_nothing_is_sent_when_a_record_comes_again_after_its_row_was_marked(outbox: Outbox) -> None:
    """A mapping that is made again reads a day of old images."""
    records = [outbox.commit(f"m-{number}", Send("mails", number)) for number in range(3)]
    outbox.relayed(*records)

    assert outbox.relayed(*records) == []

    assert outbox.sent() == [[0, 1, 2]]


def test_dead_target_holds_back_its_own_messages_alone(outbox: Outbox) -> None:
    outbox.targets["letters"] = GONE
    records = [
        outbox.commit("m-1", Send("mails", 1), Send("letters", "secret"), Send("letters", "too"), Send("mails", 2)),
        outbox.commit("m-2", Send("letters", "secret")),
        outbox.commit("m-3", Send("mails", 3)),
    ]
    dead = unsent(outbox.row("m-1"))[1]

    assert outbox.relayed(*records) == ["m-1", "m-2"], "Lambda goes back to the first"
    assert outbox.relayed(*records) == ["m-1", "m-2"]

    letters, again = ["secret", "too", "secret"], ["secret", "too", "secret"]
    assert outbox.sent() == [[1, 2, 3], letters, again], "what has gone does not go again"
    assert [outbox.row(f"m-{number}").get("unsent") for number in (1, 2, 3)] == [2, 1, None]
    line = {"message_id": "m-1", "id": dead.id, "to": "letters", "failed": NO_QUEUE, "count": 3}
    assert outbox.lines == [line, line]


def test_target_without_a_name_here_holds_back_its_own_messages_alone(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("order_taken", {}), Send("mails", 1))
    del outbox.targets["order_taken"]

    assert outbox.relayed(record) == ["m-1"]

    assert (outbox.sent(), outbox.row("m-1")["unsent"]) == ([[1]], 1)
    assert [(each["to"], each["failed"]) for each in outbox.lines] == [("order_taken", "UnknownTarget")]


def refuse(*places: int, code: str = "InternalError") -> Any:
    """Return the answer of a batch that leaves out these places and takes the others."""

    def answer(outbox: Outbox) -> dict[str, Any]:
        ids = [each["Id"] for each in json.loads(outbox.calls[-1][1])["Entries"]]
        failed = [{"Id": ids[place], "Code": code} for place in places if place < len(ids)]
        return {"Failed": failed, "Successful": [{"Id": each} for each in ids if each not in {f["Id"] for f in failed}]}

    return answer


def test_messages_of_a_row_keep_their_order_in_a_fifo_group_and_those_of_two_rows_do_not(outbox: Outbox) -> None:
    """The promise of a FIFO group: the order of one commit's messages, and none between two commits."""
    first = outbox.commit("m-1", *[Send("orders", f"1{place}", group="g") for place in "abc"])
    other = outbox.commit("m-2", Send("orders", "2a", group="g"), Send("orders", "2b", group="h"))
    outbox.before = lambda _: refuse(0)(outbox) if len(outbox.calls) == 1 else None

    assert outbox.relayed(first, other) == ["m-1"]

    assert outbox.sent() == [["1a", "2a", "2b"]], "1b waits for 1a, and 2a does not"
    assert [message.body for message in unsent(outbox.row("m-1"))] == ['"1a"', '"1b"', '"1c"']
    assert outbox.relayed(first) == []
    assert outbox.sent()[1:] == [["1a"], ["1b"], ["1c"]]


def test_message_that_a_target_refuses_stays_in_its_row_alone(outbox: Outbox) -> None:
    record = outbox.commit("m-1", *[Send("mails", number) for number in range(3)])
    outbox.before = lambda _: refuse(1)(outbox)

    assert outbox.relayed(record) == ["m-1"]

    assert [message.body for message in unsent(outbox.row("m-1"))] == ["1"]
    assert [(each["failed"], each["count"]) for each in outbox.lines] == [("InternalError", 1)]


def test_message_that_spoils_its_batch_is_found_by_sending_each_alone(outbox: Outbox) -> None:
    record = outbox.commit("m-1", *[Send("mails", number) for number in range(3)])

    def refuse_one(_: str) -> None:
        if 1 in outbox.sent()[-1]:
            raise service_error("InvalidMessageContents", "SendMessageBatch")

    outbox.before = refuse_one

    assert outbox.relayed(record) == ["m-1"]

    assert outbox.sent() == [[0, 1, 2], [0], [1], [2]]
    assert [message.body for message in unsent(outbox.row("m-1"))] == ["1"]


def test_event_that_a_bus_refuses_stays_in_its_row(outbox: Outbox) -> None:
    record = outbox.commit("m-1", *[Send("order_taken", {"order": number}) for number in range(3)])
    entries = [{"EventId": "e"}, {"ErrorCode": "ThrottlingException"}, {"EventId": "e"}]
    outbox.before = lambda _: {"FailedEntryCount": 1, "Entries": entries}

    assert outbox.relayed(record) == ["m-1"]

    assert [message.body for message in unsent(outbox.row("m-1"))] == ['{"order":1}']


class Remaining:
    """A Lambda context: the time ends after so many calls."""

    def __init__(self, outbox: Outbox, calls: int) -> None:
        def pass_time(_: str) -> None:
            if len(outbox.calls) == calls:
                outbox.clock.now += 10_000

        outbox.before = pass_time

    def get_remaining_time_in_millis(self) -> int:
        return RESERVED_MS + 10_000


def test_relay_marks_what_has_gone_before_its_time_ends(outbox: Outbox) -> None:
    record = outbox.commit("m-1", *[Send("mails", number) for number in range(30)])
    other = [outbox.commit(f"n-{number}", Send("mails", number)) for number in range(10)]

    left = outbox.relayed(record, *other, context=Remaining(outbox, calls=2))

    assert (outbox.sent(), outbox.row("m-1")["unsent"]) == ([[*range(10)], [*range(10, 20)]], 10)
    assert left == ["m-1", *[f"n-{number}" for number in range(10)]]
    assert outbox.relayed(record) == []
    assert outbox.sent()[2:] == [[*range(20, 30)]], "it goes on from where it came to"


def test_row_is_asked_again_when_another_relay_has_taken_out_some_meanwhile(outbox: Outbox) -> None:
    outbox.targets["letters"] = GONE
    record = outbox.commit("m-1", Send("mails", 1), Send("orders", 2, group="c"), Send("letters", 3))
    both, targets = outbox.relay, outbox.targets
    outbox.targets = {name: url for name, url in targets.items() if name == "orders"}
    one = outbox.relay

    def another_relay_first(_: str) -> None:
        outbox.before = lambda _: None
        one.consume({"Records": [record]})

    outbox.before = another_relay_first
    both.consume({"Records": [record]})

    assert [message.to for message in unsent(outbox.row("m-1"))] == ["mails", "letters"]
    both.consume({"Records": [record]})
    assert [message.to for message in unsent(outbox.row("m-1"))] == ["letters"]
    assert outbox.row("m-1")["unsent"] == 1


@pytest.mark.parametrize(
    ("target", "operation"),
    [
        ("https://sqs.us-east-1.amazonaws.com/123456789012/far", "send_message_batch"),
        ("arn:aws:sns:us-east-1:123456789012:far", "publish_batch"),
    ],
)
def test_message_reaches_a_target_of_another_region(outbox: Outbox, target: str, operation: str) -> None:
    moto_client("sqs", region_name="us-east-1").create_queue(QueueName="far")
    moto_client("sns", region_name="us-east-1").create_topic(Name="far")
    outbox.targets["far"] = target

    assert outbox.relayed(outbox.commit("m-1", Send("far", 1))) == []

    assert [name for name, _ in outbox.calls] == [operation]


def test_relay_sends_the_rows_of_its_own_consumer_alone(outbox: Outbox) -> None:
    """Two consumers share a ledger, and each has a target of one name."""
    outbox.sender = "b"
    record = outbox.commit("m-1", Send("mails", 1))
    outbox.sender = "a"
    assert outbox.relayed(record) == []
    assert (outbox.sent(), [*outbox.relay.waiting()]) == ([], [])

    outbox.sender = "b"
    assert outbox.relayed(record) == []

    assert outbox.sent() == [[1]]


def test_row_is_not_made_again_when_it_was_forgotten(outbox: Outbox) -> None:
    record = outbox.commit("m-1", Send("mails", {}))

    def forget(_: str) -> None:
        outbox.clients["dynamodb"].delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})

    outbox.before = forget

    assert (outbox.relayed(record), outbox.relayed(record)) == (["m-1"], [])

    assert (outbox.item("m-1"), outbox.sent()) == ({}, [[{}]])


def test_records_without_messages_are_passed_over(outbox: Outbox) -> None:
    deleted = {"dynamodb": {"SequenceNumber": "1"}}

    assert outbox.relayed(deleted, outbox.commit("m-1")) == []

    assert outbox.calls == []


@pytest.mark.parametrize("call", ["get_item", "update_item"])
def test_row_fails_when_the_ledger_does_not_answer(outbox: Outbox, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [outbox.commit(f"m-{number}", Send("mails", number)) for number in range(2)]

    def refuse_call(**_: Any) -> None:
        raise service_error("ThrottlingException")

    monkeypatch.setattr(outbox.clients["dynamodb"], call, refuse_call)

    assert outbox.relayed(*records) == ["m-0", "m-1"]

    assert {each["failed"] for each in outbox.lines} == {"ThrottlingException"}


def test_unsent_rows_are_found_when_the_ledger_has_pages(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        outbox.commit(f"m-{number}", *([Send("mails", number)] if number % 2 else []))
    client = outbox.clients["dynamodb"]
    scan = client.scan
    monkeypatch.setattr(client, "scan", lambda **request: scan(Limit=2, **request))

    assert {row["message_id"] for row in outbox.relay.waiting()} == {"m-1", "m-3"}


def test_look_sends_what_has_waited_for_a_minute_and_logs_the_age_of_the_rest(outbox: Outbox) -> None:
    outbox.targets["letters"] = GONE
    outbox.commit("m-1", Send("letters", "secret"))
    outbox.clock.now += 5_000
    outbox.commit("m-2", Send("mails", 2))
    outbox.clock.now += YOUNG_MS
    outbox.commit("m-3", Send("mails", 3))

    outbox.relay.look()

    assert sorted(outbox.sent(), key=str) == [["secret"], [2]], "the stream is about to bring m-3"
    failed, looked = outbox.lines
    assert (failed["message_id"], failed["failed"]) == ("m-1", NO_QUEUE)
    assert looked == {"waiting": 2, "oldest_seconds": 65}


@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_look_begins_at_a_place_of_chance_when_its_time_does_not_suffice(
    outbox: Outbox, jitter: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        outbox.commit(f"m-{number:02}", Send("mails", number))
    outbox.clock.now += YOUNG_MS
    relay = outbox.relay
    order = [row["message_id"] for row in relay.waiting()]
    relay._ledger.surroundings = replace(relay._ledger.surroundings, jitter=lambda: jitter)

    relay.look(Remaining(outbox, calls=1))

    begun = [f"m-{body:02}" for body in outbox.sent()[0]]
    assert begun == order[round(20 * jitter) :][:10]


@pytest.mark.parametrize("index", ["unsent", None])
def test_function_relays_and_looks_with_the_environment_of_the_construct(
    outbox: Outbox, index: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the index a later look repeats what failed. Without it Lambda does, and holds what is behind it."""
    record, failing = outbox.commit("m-1", Send("mails", {"to": "c"})), outbox.commit("m-2", Send("news", {}))
    environment = {
        "ONESLOT_LEDGER_TABLE": "ledger",
        "ONESLOT_LEDGER_RETENTION_SECONDS": "100",
        "ONESLOT_SEND_MAILS": outbox.mails,
        "AWS_DEFAULT_REGION": "eu-west-2",
        **({"ONESLOT_UNSENT_INDEX": index} if index else {}),
    }
    monkeypatch.delenv("ONESLOT_UNSENT_INDEX", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if index:
        add_index(outbox, index)
    function: Any = importlib.reload(importlib.import_module("oneslot.runtime.sends.lambda_relay"))
    context = Remaining(outbox, calls=99)

    failures = [] if index else [{"itemIdentifier": "number of m-2"}]
    assert function.handler({"Records": [record, failing]}, context) == {"batchItemFailures": failures}
    assert function.handler({"detail-type": "Scheduled Event"}, context) == {}

    assert [each["Body"] for each in outbox.received(outbox.mails)] == ['{"to":"c"}']
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["message"] for each in lines] == ["relay"] * 3
    assert [each.get("failed") for each in lines] == ["UnknownTarget", "UnknownTarget", None]
    assert lines[-1]["waiting"] == 1


def add_index(outbox: Outbox, name: str) -> None:
    """Give the ledger the index of the construct."""
    keys = [{"AttributeName": "message_id", "KeyType": "HASH"}, {"AttributeName": "unsent", "KeyType": "RANGE"}]
    projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["updated", "sender"]}
    outbox.clients["dynamodb"].update_table(
        TableName="ledger",
        AttributeDefinitions=[
            {"AttributeName": "message_id", "AttributeType": "S"},
            {"AttributeName": "unsent", "AttributeType": "N"},
        ],
        GlobalSecondaryIndexUpdates=[
            {"Create": {"IndexName": name, "KeySchema": keys, "Projection": projection}},
        ],
    )
