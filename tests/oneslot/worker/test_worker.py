"""The worker's rules, one by one, on a queue in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from oneslot.worker import acknowledgement as worker_acknowledgement
from oneslot.worker.job import InHand, Job, State
from oneslot.worker.log import WorkerLog
from oneslot.worker.settings import InvalidSettings, WorkerSettings
from oneslot.worker.visibility import Visibility
from tests.kits.local_mapping import wait_for
from tests.kits.worker import FakeQueue, body_of, no_answer, working


class Gate:
    """A handler that waits until it is let go, and knows what is in it."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.most = 0
        self._open = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, event: Mapping[str, Any], context: Any) -> None:
        with self._lock:
            self.inside.append(body_of(event))
            self.most = max(self.most, len(self.inside))
        self._open.wait(120)
        with self._lock:
            self.inside.remove(body_of(event))

    def open(self) -> None:
        self._open.set()


@pytest.mark.parametrize("threads", [1, 3, 12])
def test_no_more_is_received_than_threads_are_idle(threads: int) -> None:
    queue, gate = FakeQueue([str(number) for number in range(40)]), Gate()
    with working(queue, gate, threads=threads):
        wait_for(lambda: len(gate.inside) == threads)
        time.sleep(0.1)
        in_flight = [each for each in queue.messages if each["receives"]]
        asked = [request["MaxNumberOfMessages"] for call, request in queue.calls if call == "receive"]
        assert len(in_flight) == len(gate.inside) == threads
        assert sum(asked) == threads  # and no call at all while nobody is idle
        assert max(asked) <= 10
        gate.open()
        wait_for(lambda: queue.messages == [])
    assert gate.most == threads


def test_from_a_fifo_queue_one_message_is_received_at_a_time() -> None:
    queue = FakeQueue(["a", "b", "c"])
    with working(queue, lambda event, context: None, queue_url="https://sqs/mails.fifo", threads=8):
        wait_for(lambda: queue.messages == [])
    assert {request["MaxNumberOfMessages"] for call, request in queue.calls if call == "receive"} == {1}


def test_a_handler_gets_what_lambda_would_give_it() -> None:
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


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [
        (None, True),
        ({"batchItemFailures": []}, True),
        ({"batchItemFailures": [{"itemIdentifier": "id-a"}]}, False),
        ({"batchItemFailures": [{"itemIdentifier": "someone else"}]}, False),
        ("nonsense", False),
        ({1, 2}, False),
    ],
)
def test_an_answer_means_what_it_means_to_lambda(answer: Any, deleted: bool) -> None:
    queue = FakeQueue(["a"])
    with working(queue, lambda event, context: answer) as running:
        wait_for(lambda: bool(running.events("finished") + running.events("failed")))
    assert (queue.messages == []) is deleted


def test_a_failed_message_stays_hidden_until_its_visibility_ends() -> None:
    def handler(event: Mapping[str, Any], context: Any) -> None:
        raise ValueError("a secret of the message")

    queue = FakeQueue(["a"])
    with working(queue, handler) as running:
        wait_for(lambda: bool(running.events("failed")))
        time.sleep(0.1)
    (failed,) = running.events("failed")
    assert (failed["reason"], failed["sqs_message_id"], failed["receive_count"]) == ("ValueError", "id-a", 1)
    assert queue.receives() == {"a": 1}
    assert "secret" not in str(running.lines)


def test_a_heartbeat_hides_a_slow_message_until_it_is_done() -> None:
    queue = FakeQueue(["a"])

    def handler(event: Mapping[str, Any], context: Any) -> None:
        wait_for(lambda: queue.count("change") == 8)  # one a second: longer than it was hidden at first

    with working(queue, handler, visibility_seconds=0, buffer_seconds=6) as running:
        wait_for(lambda: queue.messages == [])
    assert running.worker.log.counts["received"] == 1
    assert running.worker.log.counts["extended"] >= 8


def test_a_heartbeat_that_fails_is_repeated_in_time() -> None:
    queue, failures = FakeQueue(["a"]), iter([True, True])
    queue.fail["change"] = lambda entries: no_answer(entries) if next(failures, False) else None

    def handler(event: Mapping[str, Any], context: Any) -> None:
        wait_for(lambda: queue.count("change") == 8)

    with working(queue, handler, visibility_seconds=0, buffer_seconds=6) as running:
        wait_for(lambda: queue.messages == [])
    assert running.worker.log.counts["received"] == 1
    assert running.worker.log.counts["visibility_errors"] == 2


def test_a_lost_lease_ends_the_heartbeat_and_is_not_deleted_by_us() -> None:
    queue, told = FakeQueue(["a"]), threading.Event()

    def handler(event: Mapping[str, Any], context: Any) -> None:
        wait_for(lambda: context.lost)
        queue.messages.clear()  # the other consumer, who has it now, is done
        told.set()
        time.sleep(1.2)  # longer than from one beat to the next

    queue.fail["change"] = lambda entries: {
        "Failed": [{"Id": entry["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"} for entry in entries]
    }
    with working(queue, handler, threads=1, visibility_seconds=0, buffer_seconds=30) as running:
        wait_for(told.is_set)
        changes = queue.count("change")
        wait_for(lambda: bool(running.events("finished")))
        assert queue.count("change") == changes == 1
        running.worker.stop()
    (lost,) = running.events("lease_lost")
    assert lost["reason"] == "ReceiptHandleIsInvalid"
    assert [call for call, _ in queue.calls if call == "delete"] == []


def test_a_lease_that_nobody_could_extend_in_time_is_lost() -> None:
    queue = FakeQueue(["a"])
    queue.fail["change"] = no_answer
    with working(queue, Gate(), threads=1, visibility_seconds=1, buffer_seconds=1, grace_seconds=0.5) as running:
        wait_for(lambda: bool(running.events("lease_lost")))
    assert running.events("lease_lost")[0]["reason"] == "too late"


@pytest.mark.parametrize(("state", "lost"), [(State.RUNNING, True), (State.ACKNOWLEDGING, False)])
def test_an_extension_that_crosses_the_messages_own_deletion_is_no_loss(state: State, lost: bool) -> None:
    queue, in_hand, log = FakeQueue([]), InHand(), WorkerLog(lambda line: None)
    job = Job({"ReceiptHandle": "deleted", "MessageId": "m"}, visible_at=1.0, deadline=60.0, started=0.0, state=state)
    in_hand.add(job)
    settings = WorkerSettings()
    Visibility(cast("Any", queue), "url", in_hand=in_hand, settings=settings, log=log, now=lambda: 0.5).beat()
    assert [call for call, _ in queue.calls] == ["change"]
    assert job.lost is lost
    assert log.counts.get("leases_lost", 0) == int(lost)


def test_deletions_are_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_acknowledgement, "LINGER_SECONDS", 60.0)
    queue, together = FakeQueue([str(number) for number in range(10)]), threading.Barrier(10, timeout=60)

    def handler(event: Mapping[str, Any], context: Any) -> None:
        together.wait()

    with working(queue, handler, threads=10):
        wait_for(lambda: queue.messages == [])
    assert queue.count("delete") == 1


@pytest.mark.parametrize("failure", ["an entry", "left out", "no answer"])
def test_a_deletion_that_was_not_confirmed_is_tried_again(failure: str) -> None:
    queue, failures = FakeQueue(["a"]), iter([True, True])

    def fail(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
        if not next(failures, False):
            return None
        match failure:
            case "an entry":
                return {"Failed": [{"Id": entries[0]["Id"], "SenderFault": False, "Code": "InternalError"}]}
            case "left out":
                return {}
            case _:
                return no_answer(entries)

    queue.fail["delete"] = fail
    with working(queue, lambda event, context: None) as running:
        wait_for(lambda: queue.messages == [])
    assert running.worker.log.counts["delete_retries"] == 2


def test_a_deletion_that_sqs_refuses_is_not_tried_again() -> None:
    queue = FakeQueue(["a"])
    queue.fail["delete"] = lambda entries: {
        "Failed": [{"Id": entries[0]["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}]
    }
    with working(queue, lambda event, context: None) as running:
        wait_for(lambda: bool(running.events("not_deleted")))
    assert queue.count("delete") == 1


def test_a_stop_finishes_what_is_in_hand_and_receives_nothing_more() -> None:
    queue, gate = FakeQueue(["a", "b", "c"]), Gate()
    with working(queue, gate) as running:
        wait_for(lambda: len(gate.inside) == 2)
        running.worker.stop()
        wait_for(lambda: "poller" not in [thread.name for thread in threading.enumerate()])
        receives = queue.count("receive")
        gate.open()
        ended = running.ended()
    assert (ended.released, ended.stuck) == (0, False)
    assert queue.receives() == {"c": 0}
    assert queue.count("receive") == receives


def test_what_is_not_finished_within_the_grace_time_is_released() -> None:
    queue, gate = FakeQueue(["a", "b"]), Gate()
    with working(queue, gate, grace_seconds=0.3) as running:
        wait_for(lambda: len(gate.inside) == 2)
        ended = running.stop()
    assert ended.released == 2
    assert all(each["visible_at"] <= time.monotonic() for each in queue.messages)
    gate.open()


def test_who_does_not_want_to_wait_for_the_grace_time_gets_all_released_at_once() -> None:
    queue, gate = FakeQueue(["a", "b"]), Gate()
    with working(queue, gate, grace_seconds=10_000) as running:
        wait_for(lambda: len(gate.inside) == 2)
        running.worker.stop()
        wait_for(lambda: bool(running.events("stopping")))
        running.worker.hurry()
        ended = running.ended()
    (stopping,) = running.events("stopping")
    assert (stopping["in_hand"], stopping["grace_seconds"]) == (2, 10_000)
    assert (ended.released, ended.at_work) == (2, 2)
    gate.open()


def test_a_poll_that_has_no_end_is_not_waited_for_by_who_is_in_a_hurry() -> None:
    queue = FakeQueue([])
    polling, go_on = threading.Event(), threading.Event()

    def endless(**request: Any) -> Any:
        polling.set()
        go_on.wait(120)
        return {}

    queue.receive_message = endless  # type: ignore[method-assign]
    with working(queue, lambda event, context: None, grace_seconds=10_000) as running:
        polling.wait(60)
        running.worker.stop()
        running.worker.hurry()
        running.ended(60)
        go_on.set()


def test_what_a_poll_brings_after_the_stop_is_released() -> None:
    queue = FakeQueue(["a"])
    receive, polling, go_on = queue.receive_message, threading.Event(), threading.Event()

    def slow(**request: Any) -> Any:
        polling.set()
        go_on.wait(60)
        return receive(**request)

    queue.receive_message = slow  # type: ignore[method-assign]
    with working(queue, lambda event, context: pytest.fail("handled after the stop")) as running:
        polling.wait(60)
        running.worker.stop()
        go_on.set()
        running.ended()
    assert queue.receives() == {"a": 1}
    assert queue.messages[0]["visible_at"] <= time.monotonic()


def test_a_message_over_its_limit_is_released_and_its_thread_replaced() -> None:
    queue, gate, later = FakeQueue(["stuck", "fine"]), Gate(), 0.0

    def handler(event: Mapping[str, Any], context: Any) -> None:
        if body_of(event) == "stuck" and event["Records"][0]["attributes"]["ApproximateReceiveCount"] == "1":
            gate(event, context)

    numbers: dict[str, Any] = {"threads": 2, "limit_seconds": 100, "visibility_seconds": 600, "buffer_seconds": 1}
    with working(queue, handler, now=lambda: time.monotonic() + later, **numbers) as running:
        wait_for(lambda: (list(queue.receives()), gate.inside) == (["stuck"], ["stuck"]))
        later = 101.0
        wait_for(lambda: queue.messages == [])
        gate.open()
        wait_for(lambda: bool(running.events("finished_too_late")))
    (over,) = running.events("over_limit")
    assert (over["sqs_message_id"], running.worker.log.counts["redelivered"]) == ("id-stuck", 1)


def test_a_worker_with_too_many_stuck_threads_ends_to_be_started_anew() -> None:
    queue, gate = FakeQueue(["a", "b", "c", "d"]), Gate()
    with working(queue, gate, threads=2, limit_seconds=0.2, buffer_seconds=1, grace_seconds=1) as running:
        assert running.ended().stuck
    gate.open()


def test_a_handler_that_wants_to_end_the_process_only_fails_its_message() -> None:
    queue = FakeQueue(["bad", "good"])

    def handler(event: Mapping[str, Any], context: Any) -> None:
        if body_of(event) == "bad":
            raise SystemExit(3)

    with working(queue, handler, threads=1) as running:
        wait_for(lambda: bool(running.events("failed")) and bool(running.events("finished")))
    assert [line["reason"] for line in running.events("failed")] == ["SystemExit"]
    assert queue.receives() == {"bad": 1}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_whose_poller_died_ends_to_be_started_anew() -> None:
    queue = FakeQueue(["a"])

    def nonsense(**request: Any) -> Any:
        raise MemoryError

    queue.receive_message = nonsense  # type: ignore[method-assign]
    with working(queue, lambda event, context: None) as running:
        assert running.ended().stuck
    assert running.events("broken")[0]["threads"] == ["poller"]


def test_a_queue_that_cannot_be_reached_for_a_while_is_asked_again() -> None:
    queue = FakeQueue(["a"])
    receive, failures = queue.receive_message, iter([True])
    queue.receive_message = lambda **request: (  # type: ignore[method-assign]
        no_answer([]) if next(failures, False) else receive(**request)
    )
    with working(queue, lambda event, context: None) as running:
        wait_for(lambda: queue.messages == [])
    assert running.worker.log.counts["receive_errors"] == 1


def test_the_last_line_but_one_is_a_metric_line_for_cloudwatch() -> None:
    queue = FakeQueue(["a", "b"])
    with working(queue, lambda event, context: None) as running:
        wait_for(lambda: queue.messages == [])
    metrics, stopped = running.lines[-2:]
    assert stopped["event"] == "stopped"
    assert (metrics["WorkerReceived"], metrics["WorkerDeleted"], metrics["WorkerInHand"]) == (2, 2, 0)
    assert {"Name": "WorkerReceived"} in metrics["_aws"]["CloudWatchMetrics"][0]["Metrics"]


def test_a_receive_from_a_fifo_queue_whose_answer_was_lost_is_repeated_as_the_same_attempt() -> None:
    """SQS hands out the same message then; else it stays hidden, and its group waits until its visibility ends."""
    queue = FakeQueue(["a"])
    receive, attempts = queue.receive_message, list[str]()

    def lossy(**request: Any) -> Any:
        attempts.append(request["ReceiveRequestAttemptId"])
        answer = receive(**request)
        if len(attempts) == 1:
            raise EndpointConnectionError(endpoint_url="https://sqs")
        return answer

    queue.receive_message = lossy  # type: ignore[method-assign]
    with working(queue, lambda event, context: None, queue_url="https://sqs/mails.fifo", threads=1):
        wait_for(lambda: len(attempts) >= 4)
    assert attempts[0] == attempts[1]
    assert len(set(attempts[1:])) == len(attempts[1:])


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"threads": 0}, "--threads is 0"),
        ({"visibility_seconds": -1}, "--visibility is -1"),
        ({"buffer_seconds": 0}, "--buffer is 0"),
        ({"limit_seconds": 43_200}, "43200 s in flight"),
        ({"limit_seconds": 0}, "--limit is 0; choose 0.1 seconds or more"),
        ({"limit_seconds": 1e-9}, "--limit is 1e-09; choose 0.1 seconds or more"),
        ({"wait_seconds": 21}, "--wait is 21"),
        ({"grace_seconds": 10, "wait_seconds": 10}, "--grace 10 is not above --wait 10"),
    ],
)
def test_numbers_that_cannot_be_are_refused_in_a_sentence(numbers: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidSettings, match=said):
        WorkerSettings(**numbers)
