"""A queue in memory that answers as SQS does, keeps visibility in real time, and can be told to fail."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from botocore.exceptions import EndpointConnectionError

from oneslot.worker.log import WorkerLog
from oneslot.worker.pool import Handler
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.worker import Ended, Worker

ARN = "arn:aws:sqs:eu-west-2:000000000000:mails"


class FakeQueue:
    """Messages by receipt. `fail[call]` takes the entries of a batch call and may change its answer, or raise."""

    def __init__(self, bodies: list[str]) -> None:
        self.meta = SimpleNamespace(region_name="eu-west-2")
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.messages: list[dict[str, Any]] = [
            {"id": f"id-{body}", "body": body, "visible_at": 0.0, "receives": 0} for body in bodies
        ]
        self.calls: list[tuple[str, Any]] = []
        self.fail: dict[str, Callable[[list[dict[str, Any]]], dict[str, Any] | None]] = {}

    def receive_message(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            self.calls.append(("receive", request))
            now = time.monotonic()
            ready = [each for each in self.messages if each["visible_at"] <= now][: request["MaxNumberOfMessages"]]
            for each in ready:
                each["visible_at"] = now + request["VisibilityTimeout"]
                each["receives"] += 1
                each["receipt"] = f"receipt-{next(self._numbers)}"
            answer = [self._as_received(each) for each in ready]
        if not answer:
            time.sleep(0.02)
        return {"Messages": answer}

    def change_message_visibility_batch(self, **request: Any) -> dict[str, Any]:
        return self._batch("change", request["Entries"], self._change)

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        return self._batch("delete", request["Entries"], self._delete)

    def count(self, call: str) -> int:
        """How many calls of this kind there were: "receive", "change" or "delete"."""
        return sum(each == call for each, _ in self.calls)

    def receives(self) -> dict[str, int]:
        """How often each message that is still there was received."""
        return {str(each["body"]): int(str(each["receives"])) for each in self.messages}

    def _batch(self, call: str, entries: list[dict[str, Any]], act: Callable[[Any], bool]) -> dict[str, Any]:
        with self._lock:
            self.calls.append((call, entries))
            if call in self.fail and (answer := self.fail[call](entries)) is not None:
                return answer
            done = [{"Id": entry["Id"]} for entry in entries if act(entry)]
        ids = {entry["Id"] for entry in done}
        gone = [
            {"Id": entry["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}
            for entry in entries
            if entry["Id"] not in ids
        ]
        return {"Successful": done, "Failed": gone}

    def _find(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        return next((each for each in self.messages if each.get("receipt") == entry["ReceiptHandle"]), None)

    def _change(self, entry: Mapping[str, Any]) -> bool:
        if (found := self._find(entry)) is None:
            return False
        found["visible_at"] = time.monotonic() + entry["VisibilityTimeout"]
        return True

    def _delete(self, entry: Mapping[str, Any]) -> bool:
        if (found := self._find(entry)) is None:
            return False
        self.messages.remove(found)
        return True

    @staticmethod
    def _as_received(message: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "MessageId": message["id"],
            "ReceiptHandle": message["receipt"],
            "Body": message["body"],
            "MD5OfBody": "0",
            "Attributes": {"ApproximateReceiveCount": str(message["receives"]), "SentTimestamp": "1"},
        }


def no_answer(_entries: list[dict[str, Any]]) -> dict[str, Any]:
    """For `FakeQueue.fail`: the network is gone."""
    raise EndpointConnectionError(endpoint_url="https://sqs")


class Running:
    """A worker in a thread of its own."""

    def __init__(self, worker: Worker, lines: list[dict[str, Any]]) -> None:
        self.worker = worker
        self.lines = lines
        self._ended: list[Ended] = []
        self._thread = threading.Thread(target=lambda: self._ended.append(worker.run()), daemon=True)

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
        return [line for line in self.lines if line.get("event") == name]


@contextmanager
def working(
    client: Any,
    handler: Handler,
    *,
    heartbeat_client: Any = None,
    queue_url: str = "https://sqs/mails",
    queue_arn: str = ARN,
    now: Callable[[], float] = time.monotonic,
    **settings: Any,
) -> Iterator[Running]:
    """Run a worker around the test; it is stopped at the end."""
    lines: list[dict[str, Any]] = []
    numbers = {"threads": 2, "visibility_seconds": 30, "grace_seconds": 60, "wait_seconds": 0, **settings}
    worker = Worker(
        cast("Any", client),
        queue_url,
        queue_arn,
        handler,
        WorkerSettings(**numbers),
        heartbeat_client=heartbeat_client or client,
        log=WorkerLog(lambda line: lines.append(json.loads(line))),
        now=now,
    )
    running = Running(worker, lines)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def body_of(event: Mapping[str, Any]) -> str:
    (record,) = event["Records"]
    return str(record["body"])
