"""`oneslot relay`: what waits in the ledger goes out once, then what its stream brings, until the process is asked to stop."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from oneslot.operator.commands.worker import relay as relay_verb
from oneslot.runtime.effects import Send
from oneslot.worker.stream import LedgerStream
from tests.kits.moto_stack import Functions, MotoStack, invoke
from tests.kits.outbox import Outbox


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with mock_aws():
        yield Outbox()


def environment(outbox: Outbox) -> dict[str, str]:
    return {
        "AWS_DEFAULT_REGION": "eu-west-2",
        "ONESLOT_LEDGER_TABLE": "ledger",
        "ONESLOT_LEDGER_RETENTION_SECONDS": "100",
        "ONESLOT_SEND_MAILS": outbox.mails,
    }


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_relay_sends_what_waits_and_ends_when_it_runs_once(outbox: Outbox) -> None:
    """A row names its consumer by the queue's URL: after the queue was replaced, the old URL finds it."""
    outbox.sender = "https://sqs.example/1/old"
    for number in range(3):
        outbox.commit(f"m-{number}", Send("mails", number))

    passed = invoke("relay", "--once", **environment(outbox), ONESLOT_QUEUE_URL="https://sqs.example/1/new")
    done = invoke("relay", "--once", **environment(outbox), ONESLOT_QUEUE_URL=outbox.sender)

    assert passed.stdout.count('"rows": 0') == 1
    assert (done.exit_code, [each["rows"] for each in events(done.stdout)]) == (0, [3]), done.output
    assert sorted(each["Body"] for each in outbox.received(outbox.mails)) == ["0", "1", "2"]
    assert invoke("relay", "--once", **environment(outbox)).stdout.count('"rows": 0') == 1


def test_relay_sends_the_others_and_ends_with_1_when_a_target_has_no_name(outbox: Outbox) -> None:
    outbox.commit("m-1", Send("news", "a body"))
    outbox.commit("m-2", Send("mails", 2))

    done = invoke("relay", "--once", **environment(outbox))

    assert done.exit_code == 1
    failed, counted = sorted(events(done.stdout), key=lambda each: str(each["event"]))
    assert (failed["event"], failed["message_id"], failed["to"], failed["failed"]) == (
        "not_sent",
        "m-1",
        "news",
        "UnknownTarget",
    )
    assert (counted["rows"], counted["failed"]) == (1, 1)
    assert "a body" not in done.output
    assert outbox.row("m-1")["unsent"] == 1


def set_stream(outbox: Outbox, view: str | None) -> None:
    """Give the ledger a stream of this view type, or disable its stream."""
    stream = {"StreamEnabled": True, "StreamViewType": view} if view else {"StreamEnabled": False}
    outbox.clients["dynamodb"].update_table(TableName="ledger", StreamSpecification=stream)


@pytest.mark.parametrize("views", [[], ["KEYS_ONLY"], ["OLD_IMAGE"], ["NEW_IMAGE", None]], ids=str)
def test_relay_refuses_a_ledger_when_no_stream_shows_its_new_images(outbox: Outbox, views: list[str | None]) -> None:
    """A row's keys, or what it was before, do not hold the messages: the relay would send nothing, in silence."""
    outbox.commit("m-1", Send("mails", 1))
    for view in views:
        set_stream(outbox, view)

    done = invoke("relay", **environment(outbox))

    assert (done.exit_code, outbox.received(outbox.mails)) == (2, [])
    assert "The ledger ledger has no enabled stream of new images; give it one" in done.output
    assert "[invalid-configuration]" in done.output


def test_relay_names_the_variable_that_is_missing(outbox: Outbox) -> None:
    done = invoke("relay", **{**environment(outbox), "ONESLOT_LEDGER_RETENTION_SECONDS": "soon"})

    assert (done.exit_code, "ONESLOT_LEDGER_RETENTION_SECONDS must be" in done.output) == (2, True)


@pytest.mark.parametrize("view", ["NEW_IMAGE", "NEW_AND_OLD_IMAGES"])
def test_relay_follows_the_stream_until_it_is_asked_to_stop(
    outbox: Outbox, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed after the table was read, the stream brings."""
    set_stream(outbox, view)
    outbox.commit("m-1", Send("mails", 1))
    read = LedgerStream.read

    def commit_then_read(self: LedgerStream) -> bool:
        if "m-2" not in {row["message_id"] for row in outbox.relay.waiting()} and not outbox.item("m-2"):
            assert "unsent" not in outbox.row("m-1")
            outbox.commit("m-2", Send("mails", 2))
        done = read(self)
        if "unsent" not in outbox.row("m-2"):
            os.kill(os.getpid(), signal.SIGTERM)
        return done

    monkeypatch.setattr(LedgerStream, "read", commit_then_read)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        done = invoke("relay", **environment(outbox))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    assert done.exit_code == 0, done.output
    assert sorted(each["Body"] for each in outbox.received(outbox.mails)) == ["1", "2"]


def test_relay_takes_the_variables_of_the_stacks_function(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"ONESLOT_LEDGER_TABLE": "the stack's", "ONESLOT_SEND_MAILS": "https://sqs/mails"}
    monkeypatch.setattr("oneslot.local.aws.connection.Connection.functions", lambda _: Functions(variables))

    found, client = relay_verb._environment(None)

    assert found["ONESLOT_LEDGER_TABLE"] == "the stack's"
    assert client("sqs") is client("sqs")
