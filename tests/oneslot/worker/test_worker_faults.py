"""What a worker survives: a connection that falls silent, threads of its own that die or come back, modules that fail."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError

import oneslot.worker.worker
from oneslot.commands.worker import worker
from oneslot.commands.worker_handler import load_handler
from oneslot.errors import BadInput
from oneslot.local.aws.connection import Connection
from oneslot.worker import visibility as worker_visibility
from oneslot.worker.acknowledgement import Acknowledgement
from oneslot.worker.settings import WorkerSettings
from tests.kits.local_mapping import wait_for
from tests.kits.worker import FakeQueue, body_of, no_answer, working
from verification.soak.plan import NetworkFault, NetworkPlan
from verification.soak.proxy_process import ProxyProcess

CHANGE = "ChangeMessageVisibilityBatch"


between: list[ProxyProcess] = []
"""The proxy that `handle` looks at; the worker finds a handler by its name only."""


def handle(event: Mapping[str, Any], context: Any) -> None:
    """Done when the second heartbeat has reached the proxy; then the worker is to stop."""
    try:
        wait_for(lambda: between[0].counts().calls.get(CHANGE, 0) >= 2 or context.lost, seconds=60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.embedded_aws
def test_a_connection_that_falls_silent_costs_one_beat_and_no_message(
    account: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sqs = account.sqs()
    url = sqs.create_queue(QueueName="silent")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a")
    silent = NetworkPlan(1, script={(CHANGE, 1): NetworkFault.LATE})  # no answer until the client has given up
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with ProxyProcess(silent, account.endpoint_url, tmp_path) as proxy:
        monkeypatch.setattr(f"{__name__}.between", [proxy])
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of whoever asked first
        for name, value in {
            "AWS_ENDPOINT_URL": proxy.endpoint_url,
            "AWS_ACCESS_KEY_ID": account.access_key_id,
            "AWS_SECRET_ACCESS_KEY": account.secret_access_key,
            "AWS_DEFAULT_REGION": account.region,
        }.items():
            monkeypatch.setenv(name, value)
        numbers = ["--threads", "1", "--wait", "1", "--visibility", "0", "--buffer", "40"]
        try:
            status = worker.main(
                ["--handler", f"{__name__}:handle", "--queue-url", url, *numbers], standalone_mode=False
            )
        finally:
            signal.signal(signal.SIGTERM, before[0])
            signal.signal(signal.SIGINT, before[1])
        assert proxy.calm().injected == {NetworkFault.LATE: 1}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    events = [line["event"] for line in lines if "event" in line]
    assert "lease_lost" not in events, lines
    assert events[:2] == ["started", "visibility_error"], lines
    assert next(line["error"] for line in lines if "error" in line) == "ReadTimeoutError"
    assert sorted(events[-3:-1]) == ["finished", "stopping"], lines
    assert events[-1] == "stopped", lines
    assert status == 0
    left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert left["ApproximateNumberOfMessages"] == left["ApproximateNumberOfMessagesNotVisible"] == "0"
    sqs.close()


def test_the_heartbeat_has_a_client_of_its_own() -> None:
    queue = FakeQueue(["a"])
    extended = FakeQueue([])
    extended.messages = queue.messages

    def handler(event: Mapping[str, Any], context: Any) -> None:
        wait_for(lambda: any(call == "change" for call, _ in extended.calls))

    with working(queue, handler, heartbeat_client=extended, visibility_seconds=0, buffer_seconds=60):
        wait_for(lambda: queue.messages == [])
    assert {call for call, _ in extended.calls} == {"change"}
    assert {call for call, _ in queue.calls} == {"receive", "delete"}


@pytest.mark.parametrize(("buffer_seconds", "read_seconds"), [(1, 1.0), (4, 1.0), (10, 2.5), (60, 15.0)])
def test_the_heartbeats_client_leaves_time_for_more_beats_within_the_buffer(
    buffer_seconds: int, read_seconds: float
) -> None:
    config = worker_visibility.configuration(WorkerSettings(buffer_seconds=buffer_seconds))
    client = Connection("http://127.0.0.1:1").sqs(config)
    made: Any = client.meta.config
    client.close()
    assert (made.connect_timeout, made.read_timeout) == (1.0, read_seconds)
    assert made.retries["total_max_attempts"] == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_whose_deletion_died_ends_though_its_threads_wait_for_it() -> None:
    queue = FakeQueue([str(number) for number in range(40)])
    handled: list[str] = []

    def nonsense(**request: Any) -> Any:
        # Ten are in this batch, and as many as there are threads fill what waits behind it: no room is left.
        wait_for(lambda: len(handled) >= 22)
        raise MemoryError

    queue.delete_message_batch = nonsense  # type: ignore[method-assign]
    with working(
        queue, lambda event, context: handled.append(body_of(event)), threads=12, grace_seconds=0.5
    ) as running:
        assert running.ended().stuck
    assert running.events("broken")[0]["threads"] == ["acknowledgement"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_of_whose_pool_a_thread_has_died_ends_to_be_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acknowledgement, "add", Mock(side_effect=MemoryError))
    with working(FakeQueue(["a"]), lambda event, context: None, threads=2, grace_seconds=0.5) as running:
        assert running.ended().stuck
    assert running.events("broken")[0]["threads"] == ["worker"]


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_a_service_refuses_is_said_by_its_code() -> None:
    """And nothing of its text, which may quote what was sent."""
    queue, denied = FakeQueue(["9990000018"]), ClientError({"Error": {"Code": "AccessDenied", "Message": "999"}}, "Any")
    receive, answers = queue.receive_message, iter([denied])

    def receive_message(**request: Any) -> Any:
        for error in answers:
            raise error
        return receive(**request)

    def handler(event: Mapping[str, Any], context: Any) -> None:
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": body_of(event)}}, "Any")

    queue.receive_message = receive_message  # type: ignore[method-assign]
    with working(queue, handler) as running:
        wait_for(lambda: bool(running.events("failed")))
    assert [line["error"] for line in running.events("receive_error")] == ["AccessDenied"]
    assert [line["reason"] for line in running.events("failed")] == ["ThrottlingException"]


def test_threads_for_which_messages_are_asked_count_as_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oneslot.worker.worker, "METRICS_SECONDS", 0.0)  # with each beat
    said: list[dict[str, Any]] = []

    def handler(event: Mapping[str, Any], context: Any) -> None:
        before = len(running.lines)
        wait_for(lambda: any("WorkerIdle" in line for line in running.lines[before:]))
        said.extend(line for line in running.lines[before:] if "WorkerIdle" in line)

    with working(FakeQueue(["a"]), handler, threads=4, buffer_seconds=1) as running:
        wait_for(lambda: bool(said))
    assert (said[0]["WorkerInHand"], said[0]["WorkerIdle"]) == (1, 3)


def test_threads_that_come_back_after_their_limit_no_longer_count() -> None:
    queue, clock = FakeQueue([]), Clock()

    def handler(event: Mapping[str, Any], context: Any) -> None:
        if event["Records"][0]["attributes"]["ApproximateReceiveCount"] == "1":
            clock.now += 10  # over its limit; it comes back when it was given up
            wait_for(
                lambda: any(line["sqs_message_id"] == f"id-{body_of(event)}" for line in running.events("over_limit"))
            )

    with working(queue, handler, threads=2, limit_seconds=5, visibility_seconds=60, now=clock) as running:
        for late, body in enumerate("abc", 1):
            queue.messages += FakeQueue([body]).messages
            wait_for(lambda: queue.messages == [])
            wait_for(lambda: len(running.events("finished_too_late")) == late)  # noqa: B023  not kept
        ended = running.stop()
    assert (ended.stuck, running.worker.log.counts["over_limit"]) == (False, 3)


def test_a_worker_that_ends_itself_is_started_anew_even_if_its_threads_come_back() -> None:
    queue, clock = FakeQueue(["a"]), Clock()

    def handler(event: Mapping[str, Any], context: Any) -> None:
        clock.now += 10
        wait_for(lambda: bool(running.events("over_limit")))

    with working(queue, handler, threads=1, limit_seconds=5, visibility_seconds=60, now=clock) as running:
        ended = running.ended()
        wait_for(lambda: bool(running.events("finished_too_late")))
    assert ended.stuck


def test_giving_back_is_tried_again_when_it_gets_no_answer() -> None:
    queue, go_on, inside, failures = FakeQueue(["a"]), threading.Event(), threading.Event(), iter([True])
    queue.fail["change"] = lambda entries: no_answer(entries) if next(failures, False) else None

    def handler(event: Mapping[str, Any], context: Any) -> None:
        inside.set()
        go_on.wait(60)

    with working(queue, handler, visibility_seconds=3600, grace_seconds=0.1) as running:
        wait_for(inside.is_set)
        assert running.stop().released == 1
        go_on.set()
    assert queue.messages[0]["visible_at"] <= time.monotonic()
    assert running.worker.log.counts["visibility_errors"] == 1


@pytest.mark.parametrize(("sender_fault", "asked"), [(True, [2]), (False, [2, 1])])
def test_only_what_the_queue_took_back_counts_as_released(sender_fault: bool, asked: list[int]) -> None:
    queue, go_on, inside = FakeQueue(["a", "b"]), threading.Event(), threading.Barrier(3)

    def refusing_one(entries: list[dict[str, Any]]) -> dict[str, Any]:
        failed = {"Id": entries[-1]["Id"], "SenderFault": sender_fault, "Code": "Refused"}
        return {"Successful": [{"Id": entry["Id"]} for entry in entries[:-1]], "Failed": [failed]}

    queue.fail["change"] = refusing_one

    def handler(event: Mapping[str, Any], context: Any) -> None:
        inside.wait(60)
        go_on.wait(60)

    with working(queue, handler, visibility_seconds=3600, grace_seconds=0.1) as running:
        inside.wait(60)
        assert running.stop().released == 1
        go_on.set()
    assert running.worker.log.counts["released"] == 1
    assert [len(entries) for call, entries in queue.calls if call == "change"] == asked


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e10"])
@pytest.mark.parametrize("option", ["--limit", "--grace"])
def test_seconds_that_no_clock_knows_are_refused_in_a_sentence(
    option: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUEUE_URL", raising=False)
    with pytest.raises(BadInput, match=f"^{option} "):
        worker.main(["--handler", "json:loads", option, value], standalone_mode=False)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import json\nhandle = (\n", "importing it raised SyntaxError at {file}:2."),
        ("import os\n\nhandle = os.environ['NOT_SET_ANYWHERE']\n", "importing it raised KeyError at {file}:3."),
        ("import sys\nsys.exit('no licence')\n", "importing it raised SystemExit at {file}:2."),
        ("import json\njson.nothing\n", "importing it raised AttributeError at {file}:2."),
        ("import not_installed_anywhere\n", "No module named 'not_installed_anywhere'"),
        ("other = 1\n", "{file} has no handle."),
        ("handle = 1\n", "is not callable"),
    ],
    ids=["syntax", "environment", "exit", "attribute", "not installed", "no such name", "no function"],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_line(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_{tmp_path.name}"  # of its own: an import is kept
    file = tmp_path / f"{name}.py"
    file.write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(BadInput, match=f"^--handler {name}:handle") as raised:
        load_handler(f"{name}:handle")
    assert said.format(file=file) in str(raised.value)
    assert "NOT_SET_ANYWHERE" not in str(raised.value)


@pytest.mark.parametrize("handler", [".:x", "..:x", ".mails:handle", ":x", "mails:"])
def test_a_module_is_named_from_the_present_directory(handler: str) -> None:
    with pytest.raises(BadInput, match="Write it as module:name"):
        load_handler(handler)
