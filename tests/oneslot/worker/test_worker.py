"""A worker's rules, on a queue in memory."""

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from oneslot.runtime.attempt import on_release
from oneslot.runtime.handlers import Locked
from oneslot.worker import pool
from oneslot.worker import worker as worker_module
from oneslot.worker.acknowledgement import Acknowledgement
from oneslot.worker.job import Job
from oneslot.worker.settings import InvalidSettings, WorkerSettings
from oneslot.worker.visibility import Visibility
from tests.kits.local_mapping import wait_for
from tests.oneslot.worker.kit import Clock, FakeQueue, Gate, body_of, events, no_answer, working

UNHANDLED = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def succeed(event: Mapping[str, Any], context: Any) -> None:
    """A handler without work."""


# The poller


@pytest.mark.parametrize("threads", [1, 3, 12])
def test_poller_receives_no_more_than_threads_are_idle(threads: int) -> None:
    queue, gate = FakeQueue([str(number) for number in range(40)]), Gate()
    with working(queue, gate, threads=threads):
        wait_for(lambda: len(gate.inside) == threads)
        time.sleep(0.05)
        asked = [request["MaxNumberOfMessages"] for request in queue.requests("receive")]
        assert sum(asked) == sum(queue.receives().values()) == threads
        assert max(asked) <= 10
        gate.open()
        wait_for(lambda: queue.messages == [])
    assert gate.most == threads


class Held:
    """Holds every receive until the test lets it go, and knows how many are under way."""

    def __init__(self, queue: FakeQueue) -> None:
        self.under_way: list[dict[str, Any]] = []
        self._queue = queue
        self._go_on = threading.Event()
        queue.before_receive = self._wait

    def _wait(self) -> None:
        self.under_way.append(self._queue.requests("receive")[-1])
        self._go_on.wait(120)

    def go_on(self) -> None:
        self._go_on.set()


@pytest.mark.parametrize(
    ("url", "threads", "asked"),
    [("mails", 1, [1]), ("mails", 8, [8]), ("mails", 12, [2, 10]), ("mails", 40, [10, 10]), ("a.fifo", 8, [1] * 4)],
)
def test_pollers_receive_side_by_side_when_threads_are_idle(url: str, threads: int, asked: list[int]) -> None:
    queue = FakeQueue([])
    held = Held(queue)
    with working(queue, succeed, queue_url=f"https://sqs/{url}", threads=threads):
        wait_for(lambda: len(held.under_way) == len(asked))
        time.sleep(0.05)
        assert sorted(request["MaxNumberOfMessages"] for request in held.under_way) == asked
        attempts = [request.get("ReceiveRequestAttemptId") for request in held.under_way]
        assert len(set(attempts)) == (len(asked) if url.endswith("fifo") else 1)
        held.go_on()


def test_poller_releases_what_it_received_before_the_stop_and_hands_over_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, received, go_on = FakeQueue(["a"]), threading.Event(), threading.Event()

    def ensure_hidden(_: Visibility, jobs: list[Job]) -> list[Job]:
        received.set()
        go_on.wait(60)
        return jobs

    monkeypatch.setattr(Visibility, "ensure_hidden", ensure_hidden)
    with working(queue, lambda event, context: pytest.fail("handled after the stop")) as running:
        received.wait(60)
        running.stop()
        go_on.set()
        wait_for(lambda: queue.released() == ["a"])


# The handler


def test_handler_gets_lambdas_event_and_context() -> None:
    got: list[Any] = []

    def handler(event: Mapping[str, Any], context: Any) -> None:
        got.append((event["Records"], context.get_remaining_time_in_millis(), context.aws_request_id))

    queue = FakeQueue(["hello"])
    with working(queue, handler, limit_seconds=10_000):
        wait_for(lambda: queue.messages == [])
    ((record,), remaining, request_id) = got[0]
    assert (record["body"], record["messageId"], record["eventSourceARN"][-5:]) == ("hello", "id-hello", "mails")
    assert 9_000_000 < remaining <= 10_000_000
    assert request_id


NAMED: Any = {"batchItemFailures": [{"itemIdentifier": "id-a"}]}
UNENCODABLE: Any = {"at": datetime.now(UTC)}


@pytest.mark.parametrize(
    ("answer", "reports_failures", "reason"),
    [
        (None, True, None),
        ({"batchItemFailures": []}, True, None),
        (NAMED, True, "the handler reported the message as failed"),
        (UNENCODABLE, True, "Runtime.MarshalError"),
        (NAMED, False, None),
        (UNENCODABLE, False, "Runtime.MarshalError"),
    ],
)
def test_message_is_deleted_when_the_answer_counts_as_success_on_lambda(
    answer: Any, reports_failures: bool, reason: str | None
) -> None:
    """Where the mapping reads no answer, the answer is encoded all the same."""
    queue = FakeQueue(["a"])
    with working(queue, lambda event, context: answer, reports_failures=reports_failures) as running:
        wait_for(lambda: bool(running.events("finished") + running.events("failed")))
    assert (queue.messages == []) is (reason is None)
    assert [failed["reason"] for failed in running.events("failed")] == ([reason] if reason else [])


class Later(Exception):
    """A handler's failure that asks for the message again after some time."""

    def __init__(self, retry_after_ms: Any) -> None:
        self.retry_after_ms = retry_after_ms


def failing(outcome: Any) -> Any:
    """Return a handler that raises this error, or returns this answer."""
    return Mock(side_effect=outcome) if isinstance(outcome, Exception) else lambda event, context: outcome


@pytest.mark.parametrize(
    ("outcome", "url", "settings", "hidden", "refused"),
    [
        (ValueError("a secret of the message"), "mails", {}, 40, False),
        (Locked(860_000), "mails", {}, 1, False),
        (Later(5_000), "mails", {}, 5, False),
        (Later(None), "mails", {}, 40, False),
        (Later("5"), "mails", {}, 40, True),
        (Later(-5_000), "mails", {}, 40, True),
        (Later(True), "mails", {}, 40, True),
        (Later(5_000), "mails.fifo", {}, 40, True),
        (Locked(5_000), "mails.fifo", {}, 1, False),
        (ValueError(), "mails", {"retry_delay_seconds": 60}, 1, False),
        ({"batchItemFailures": 3}, "mails", {"retry_delay_seconds": 60}, 1, False),
        (NAMED, "mails", {"retry_delay_seconds": 60}, 40, False),
    ],
)
def test_failed_message_is_hidden_for_its_visibility_or_as_it_is_asked(
    outcome: Any, url: str, settings: dict[str, Any], hidden: int, refused: bool
) -> None:
    """A failure that the handler reports may have hidden the message already."""
    queue = FakeQueue(["a"])
    received = time.monotonic()
    with working(queue, failing(outcome), queue_url=f"https://sqs/{url}", threads=1, **settings) as running:
        wait_for(lambda: bool(running.events("failed")))
        running.stop()
        hides = queue.messages[0]["visible_at"] - received
    assert hidden <= hides < hidden + 4  # jitter of 2 s, and the time of the test
    assert len(running.events("retry_after_refused")) == refused
    assert (queue.receives(), queue.count("delete")) == ({"a": 1}, 0)
    assert "secret" not in str(running.lines)


def test_handler_that_exits_fails_only_its_message() -> None:
    def handler(event: Mapping[str, Any], context: Any) -> None:
        if body_of(event) == "bad":
            raise SystemExit(3)

    queue = FakeQueue(["bad", "good"])
    with working(queue, handler, threads=1) as running:
        wait_for(lambda: bool(running.events("failed")) and bool(running.events("finished")))
    assert [line["reason"] for line in running.events("failed")] == ["SystemExit"]
    assert queue.receives() == {"bad": 1}


def test_log_names_an_aws_error_by_its_code_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PAUSE_AFTER_ERROR", 0.0)
    queue = FakeQueue(["9990000018"])
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": "999"}}, "Any")
    queue.before_receive = Mock(side_effect=chain([error], repeat(None)))

    def handler(event: Mapping[str, Any], context: Any) -> None:
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": body_of(event)}}, "Any")

    with working(queue, handler) as running:
        wait_for(lambda: bool(running.events("failed")))
    assert [line["error"] for line in running.events("receive_error")] == ["AccessDenied"]
    (failed,) = running.events("failed")
    assert (failed["reason"], failed["sqs_message_id"], failed["receive_count"]) == (
        "ThrottlingException",
        "id-9990000018",
        1,
    )
    assert failed["where"] == f"{__file__}:{handler.__code__.co_firstlineno + 1}"


# The heartbeat


def test_heartbeat_uses_its_own_client() -> None:
    queue = FakeQueue(["a"])
    extended = FakeQueue([])
    extended.messages = queue.messages

    def handler(event: Mapping[str, Any], context: Any) -> None:
        wait_for(lambda: extended.count("change") > 0)

    with working(queue, handler, heartbeat_client=extended, visibility_seconds=0, buffer_seconds=2):
        wait_for(lambda: queue.messages == [])
    assert {call for call, _ in extended.calls} == {"change"}
    assert {call for call, _ in queue.calls} == {"receive", "delete"}


def test_lost_message_is_not_deleted() -> None:
    queue = FakeQueue(["a"])

    def handler(event: Mapping[str, Any], context: Any) -> None:
        queue.messages.clear()  # another consumer has received and deleted it
        wait_for(lambda: context.lost)

    with working(queue, handler, threads=1, visibility_seconds=0, buffer_seconds=1) as running:
        wait_for(lambda: bool(running.events("finished")))
    assert running.events("lease_lost")
    assert queue.count("delete") == 0


def test_gauges_count_reserved_threads_as_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "METRICS_SECONDS", 0.0)  # at every beat
    lines: list[dict[str, Any]] = []
    gate = Gate()
    with working(FakeQueue(["a"]), gate, lines=lines, threads=4, buffer_seconds=1):
        wait_for(lambda: gate.inside == ["a"])
        before = len(lines)
        wait_for(lambda: any("WorkerIdle" in line for line in lines[before:]))
        gate.open()
    said = next(line for line in lines[before:] if "WorkerIdle" in line)
    assert (said["WorkerInHand"], said["WorkerIdle"]) == (1, 3)


def test_last_metric_line_has_the_counts() -> None:
    queue = FakeQueue(["a", "b"])
    with working(queue, succeed) as running:
        wait_for(lambda: queue.messages == [])
    metrics, stopped = running.lines[-2:]
    assert stopped["event"] == "stopped"
    assert (metrics["WorkerReceived"], metrics["WorkerDeleted"], metrics["WorkerInHand"]) == (2, 2, 0)
    assert {"Name": "WorkerReceived"} in metrics["_aws"]["CloudWatchMetrics"][0]["Metrics"]


# The limit


def test_threads_that_return_after_their_limit_no_longer_count() -> None:
    queue, clock, lines = FakeQueue([]), Clock(), list[dict[str, Any]]()

    def handler(event: Mapping[str, Any], context: Any) -> None:
        if event["Records"][0]["attributes"]["ApproximateReceiveCount"] == "1":
            clock.now += 10
            wait_for(
                lambda: any(line["sqs_message_id"] == f"id-{body_of(event)}" for line in events(lines, "over_limit"))
            )

    with working(
        queue, handler, lines=lines, threads=2, limit_seconds=5, visibility_seconds=60, buffer_seconds=1, clock=clock
    ) as running:
        for body in "abc":
            queue.send(body)
            wait_for(lambda: queue.messages == [])
        wait_for(lambda: len(running.events("finished_too_late")) == 3)
        ended = running.stop()
    assert (ended.stuck, running.counts["over_limit"], running.counts["redelivered"]) == (False, 3, 3)


def test_worker_is_stuck_when_every_thread_is_over_its_limit() -> None:
    queue, gate, clock = FakeQueue(["a", "b", "c", "d"]), Gate(), Clock()
    with working(
        queue, gate, threads=2, limit_seconds=5, visibility_seconds=60, buffer_seconds=1, clock=clock
    ) as running:
        wait_for(lambda: len(gate.inside) == 2)
        clock.now = 10
        ended = running.ended()
        gate.open()
    assert (ended.stuck, ended.at_work) == (True, 2)


# The stop


def test_stop_finishes_what_is_in_hand_and_receives_nothing_more() -> None:
    queue, gate = FakeQueue(["a", "b", "c"]), Gate()
    with working(queue, gate) as running:
        wait_for(lambda: len(gate.inside) == 2)
        running.worker.stop()
        wait_for(lambda: "poller" not in [thread.name for thread in threading.enumerate()])
        receives = queue.count("receive")
        gate.open()
        ended = running.ended()
    assert (ended.released, ended.stuck) == (0, False)
    assert (queue.receives(), queue.count("receive")) == ({"c": 0}, receives)


def test_stop_shows_a_message_when_its_claim_cannot_be_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "RELEASE_SECONDS", 0.2)
    queue, gate, never = FakeQueue(["silent", "gone"]), Gate(), threading.Event()

    def handler(event: Mapping[str, Any], context: Any) -> None:
        on_release(never.wait if body_of(event) == "silent" else no_answer)
        gate(event, context)

    with working(queue, handler, grace_seconds=0.1) as running:
        wait_for(lambda: len(gate.inside) == 2)
        assert running.stop().released == 2
        gate.open()
        never.set()
    (line,) = running.events("claim_not_released")
    assert (line["sqs_message_id"], line["error"]) == ("id-gone", "EndpointConnectionError")


def test_hurry_ends_the_grace_time() -> None:
    queue, gate = FakeQueue(["a", "b"]), Gate()
    with working(queue, gate, grace_seconds=10_000) as running:
        wait_for(lambda: len(gate.inside) == 2)
        running.worker.stop()
        wait_for(lambda: bool(running.events("stopping")))
        running.worker.hurry()
        ended = running.ended()
        gate.open()
    (stopping,) = running.events("stopping")
    assert (stopping["in_hand"], stopping["grace_seconds"]) == (2, 10_000)
    assert ended.released == 2


def test_stop_does_not_wait_for_a_poll_when_nothing_is_in_hand() -> None:
    queue = FakeQueue([])
    held = Held(queue)
    with working(queue, lambda event, context: pytest.fail("handled after the stop"), grace_seconds=10_000) as running:
        wait_for(lambda: bool(held.under_way))
        running.worker.stop()
        running.ended(60)
        queue.send("a")
        held.go_on()
        wait_for(lambda: queue.receives() == {"a": 1} and queue.released() == ["a"])


# Threads of the worker that die


@UNHANDLED
def test_worker_is_stuck_when_its_poller_dies() -> None:
    queue = FakeQueue(["a"])
    queue.before_receive = Mock(side_effect=MemoryError)
    with working(queue, succeed) as running:
        assert running.ended().stuck
    assert running.events("broken")[0]["threads"] == ["poller"]


@UNHANDLED
def test_worker_is_stuck_when_its_deletion_dies() -> None:
    queue, handled = FakeQueue([str(number) for number in range(40)]), list[str]()

    def die(_entries: Any) -> None:
        # Ten are in this batch, and as many as there are threads wait behind it, so that no room is left.
        wait_for(lambda: len(handled) >= 22)
        raise MemoryError

    queue.delete_message_batch = Mock(side_effect=lambda **request: die(request))  # type: ignore[method-assign]
    with working(
        queue, lambda event, context: handled.append(body_of(event)), threads=12, grace_seconds=0.2
    ) as running:
        assert running.ended().stuck
    assert running.events("broken")[0]["threads"] == ["acknowledgement"]


@UNHANDLED
def test_worker_is_stuck_when_a_pool_thread_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acknowledgement, "add", Mock(side_effect=MemoryError))
    with working(FakeQueue(["a"]), succeed, grace_seconds=0.2) as running:
        assert running.ended().stuck
    assert running.events("broken")[0]["threads"] == ["worker"]


# The settings


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"threads": 0}, "--threads is 0"),
        ({"visibility_seconds": -1}, "--visibility is -1"),
        ({"buffer_seconds": 0}, "--buffer is 0"),
        ({"limit_seconds": 43_200}, "43200 s in flight"),
        ({"limit_seconds": 0}, "--limit is 0; choose 0.1 seconds or more"),
        ({"limit_seconds": float("nan")}, "--limit is nan"),
        ({"grace_seconds": float("inf")}, "--grace is inf"),
        ({"grace_seconds": 43_201}, "--grace is 43201"),
        ({"wait_seconds": 21}, "--wait is 21"),
        ({"retry_delay_seconds": -1}, "--retry-delay is -1"),
        ({"retry_delay_seconds": 3_601}, "--retry-delay is 3601"),
    ],
)
def test_settings_reject_impossible_numbers(numbers: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSettings, match=said):
        WorkerSettings(**numbers)


def test_retry_delay_is_refused_when_the_queue_is_fifo() -> None:
    settings = WorkerSettings(retry_delay_seconds=30)
    settings.require_queue("https://sqs/mails")
    with pytest.raises(InvalidSettings, match="--retry-delay is 30"):
        settings.require_queue("https://sqs/mails.fifo")
