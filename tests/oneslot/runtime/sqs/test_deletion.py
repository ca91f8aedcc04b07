"""Every entry of every DeleteMessageBatch answer is read."""

from __future__ import annotations

from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from oneslot.runtime.sqs.deletion import delete_messages
from oneslot.runtime.surroundings import Surroundings

CODES = {"refuse": "ReceiptHandleIsInvalid", "fault": "InternalError", "throttle": "RequestThrottled"}


class Queue:
    """Answers DeleteMessageBatch from a script: "silence" or one of `CODES` for each receipt in order, then success."""

    def __init__(self, script: dict[str, list[str]]) -> None:
        self.script = script
        self.calls: list[int] = []
        self.unreachable = 0
        self.now_ms = 0

    def delete_message_batch(self, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        self.calls.append(len(Entries))
        if self.unreachable:
            self.unreachable -= 1
            raise EndpointConnectionError(endpoint_url=QueueUrl)
        answer: dict[str, list[dict[str, Any]]] = {"Successful": [], "Failed": []}
        for entry in Entries:
            script = self.script.get(entry["ReceiptHandle"])
            result = script.pop(0) if script else "ok"
            if result == "ok":
                answer["Successful"].append({"Id": entry["Id"]})
            elif result != "silence":
                answer["Failed"].append({"Id": entry["Id"], "SenderFault": result != "fault", "Code": CODES[result]})
        return answer

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)

    def delete(self, *receipts: str, on_error: Any = lambda _: None) -> int:
        surroundings = Surroundings(now_ms=lambda: self.now_ms, sleep=self.sleep, jitter=lambda: 1.0)
        deletion = delete_messages(cast("Any", self), "url", receipts, surroundings, within_ms=4_000, on_error=on_error)
        places = [*deletion.deleted, *deletion.refused, *deletion.unconfirmed]
        assert sorted(places) == list(range(len(receipts)))
        return len(deletion.deleted)


@pytest.mark.parametrize(
    ("script", "receipts", "deleted", "calls"),
    [
        ({}, 0, 0, []),
        ({}, 23, 23, [10, 10, 3]),
        ({"1": ["refuse"]}, 3, 2, [3]),
        ({"0": ["fault"], "1": ["silence", "silence"]}, 3, 3, [3, 2, 1]),
        ({"0": ["throttle"]}, 1, 1, [1, 1]),
    ],
    ids=["none", "ten at a time", "stale receipt", "unconfirmed", "throttled"],
)
def test_delete_repeats_what_may_still_be_deleted(
    script: dict[str, list[str]], receipts: int, deleted: int, calls: list[int]
) -> None:
    queue = Queue(script)
    assert queue.delete(*map(str, range(receipts))) == deleted
    assert queue.calls == calls


def test_delete_gives_up_what_is_never_confirmed() -> None:
    queue = Queue({"a": ["silence"] * 1000})
    assert queue.delete("a", "b") == 1
    assert 1_000 < queue.now_ms < 4_000


def test_delete_retries_an_unreachable_queue() -> None:
    queue = Queue({})
    queue.unreachable = 1
    assert queue.delete("a") == 1
    queue.unreachable = 1000
    assert queue.delete("a") == 0


def test_delete_raises_without_a_taker_of_errors() -> None:
    queue = Queue({})
    queue.unreachable = 1
    with pytest.raises(EndpointConnectionError):
        queue.delete("a", on_error=None)
