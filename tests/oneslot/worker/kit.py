"""A queue in memory that answers as SQS does, and a worker in a thread that consumes it."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from botocore.exceptions import EndpointConnectionError

from oneslot.runtime.sqs.lambda_event import received
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker.log import WorkerLog
from oneslot.worker.pool import Handler
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.worker import Ended, Worker

ARN = "arn:aws:sqs:eu-west-2:000000000000:mails"
POLL_SECONDS = 0.01  # of an empty receive
Entries = list[dict[str, Any]]


class FakeQueue:
    """Messages with visibility by the clock `now`.

    `fail[call]` takes the entries of a batch call, and may return its answer, raise, or return None to leave it alone.
    `before_receive` runs before each receive, and may raise.
    """

    def __init__(self, bodies: list[str], now: Callable[[], float] = time.monotonic) -> None:
        self.meta = SimpleNamespace(region_name="eu-west-2")
        self.now = now
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.messages: list[dict[str, Any]] = []
        self.send(*bodies)
        self.calls: list[tuple[str, Any]] = []
        self.fail: dict[str, Callable[[Entries], dict[str, Any] | None]] = {}
        self.before_receive: Callable[[], object] = lambda: None

    def send(self, *bodies: str) -> None:
        self.messages += [{"id": f"id-{body}", "body": body, "visible_at": 0.0, "receives": 0} for body in bodies]

    def receive_message(self, **request: Any) -> dict[str, Any]:
        self.calls.append(("receive", request))
        self.before_receive()
        with self._lock:
            now = self.now()
            ready = [each for each in self.messages if each["visible_at"] <= now][: request["MaxNumberOfMessages"]]
            for each in ready:
                each["visible_at"] = now + request["VisibilityTimeout"]
                each["receives"] += 1
                each["receipt"] = f"receipt-{next(self._numbers)}"
            answer = [received(each["body"], each["id"], each["receipt"], receives=each["receives"]) for each in ready]
        if not answer:
            time.sleep(POLL_SECONDS)
        return {"Messages": answer}

    def change_message_visibility_batch(self, **request: Any) -> dict[str, Any]:
        return self._batch("change", request["Entries"], self._change)

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        return self._batch("delete", request["Entries"], self._delete)

    def requests(self, call: str) -> list[Any]:
        """The requests or entries of each "receive", "change" or "delete"."""
        return [request for each, request in self.calls if each == call]

    def count(self, call: str) -> int:
        return len(self.requests(call))

    def receives(self) -> dict[str, int]:
        """The number of receives of each message that is still there."""
        return {each["body"]: each["receives"] for each in self.messages}

    def visible(self) -> list[str]:
        return [each["body"] for each in self.messages if each["visible_at"] <= self.now()]

    def released(self) -> list[str]:
        """The messages that a call has made visible. Without one each is visible, too, after its visibility timeout."""
        shown = any(entry["VisibilityTimeout"] == 0 for entries in self.requests("change") for entry in entries)
        return self.visible() if shown else []

    def _batch(self, call: str, entries: Entries, act: Callable[[Any], bool]) -> dict[str, Any]:
        with self._lock:
            self.calls.append((call, entries))
            if call in self.fail and (answer := self.fail[call](entries)) is not None:
                return answer
            done = [entry for entry in entries if act(entry)]
        return {
            "Successful": [{"Id": entry["Id"]} for entry in done],
            "Failed": [refused(entry) for entry in entries if entry not in done],
        }

    def _find(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        return next((each for each in self.messages if each.get("receipt") == entry["ReceiptHandle"]), None)

    def _change(self, entry: Mapping[str, Any]) -> bool:
        if (found := self._find(entry)) is None:
            return False
        found["visible_at"] = self.now() + entry["VisibilityTimeout"]
        return True

    def _delete(self, entry: Mapping[str, Any]) -> bool:
        if (found := self._find(entry)) is None:
            return False
        self.messages.remove(found)
        return True


def refused(
    entry: Mapping[str, Any], *, sender_fault: bool = True, code: str = "ReceiptHandleIsInvalid"
) -> dict[str, Any]:
    """An entry of `Failed`."""
    return {"Id": entry["Id"], "SenderFault": sender_fault, "Code": code}


def throttled(entries: Entries) -> dict[str, Any]:
    """SQS throttles every entry, and calls it the sender's fault."""
    return {"Failed": [refused(entry, code="RequestThrottled") for entry in entries]}


def no_answer(_entries: Any = None) -> dict[str, Any]:
    """The network is gone."""
    raise EndpointConnectionError(endpoint_url="https://sqs")


def first(times: int, act: Callable[[Entries], dict[str, Any] | None]) -> Callable[[Entries], dict[str, Any] | None]:
    """`act` for the first calls, and nothing for later ones."""
    left = iter(range(times))
    return lambda entries: act(entries) if next(left, None) is not None else None


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """A handler that waits until the test opens it, and knows the messages in it."""

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


class Running:
    """A worker in a thread of its own."""

    def __init__(self, worker: Worker, lines: list[dict[str, Any]]) -> None:
        self.worker = worker
        self.lines = lines
        self._ended: list[Ended] = []
        self._thread = threading.Thread(target=lambda: self._ended.append(worker.run()), daemon=True)

    @property
    def counts(self) -> dict[str, int]:
        return self.worker.log.counts

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Ended:
        self.worker.stop()
        return self.ended()

    def ended(self, seconds: float = 120) -> Ended:
        """Wait for its end."""
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return self._ended[0]

    def events(self, name: str) -> list[dict[str, Any]]:
        return events(self.lines, name)


def events(lines: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("event") == name]


@contextmanager
def working(
    client: Any,
    handler: Handler,
    *,
    heartbeat_client: Any = None,
    queue_url: str = "https://sqs/mails",
    queue_arn: str = ARN,
    clock: Callable[[], float] = time.monotonic,
    lines: list[dict[str, Any]] | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """Run a worker around the test; it is stopped at the end. lines: the log, for a handler that reads it."""
    written: list[dict[str, Any]] = [] if lines is None else lines
    numbers = {"threads": 2, "visibility_seconds": 30, "grace_seconds": 60, "wait_seconds": 0, **settings}
    worker = Worker(
        cast("Any", client),
        queue_url,
        queue_arn,
        handler,
        WorkerSettings(**numbers),
        heartbeat_client=heartbeat_client or client,
        log=WorkerLog(lambda line: written.append(json.loads(line))),
        surroundings=Surroundings(steady=clock),
    )
    running = Running(worker, written)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def body_of(event: Mapping[str, Any]) -> str:
    (record,) = event["Records"]
    return str(record["body"])
