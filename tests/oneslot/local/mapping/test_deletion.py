"""Every entry of every DeleteMessageBatch answer is read."""

from __future__ import annotations

from typing import Any, cast

from botocore.exceptions import EndpointConnectionError

from oneslot.local.mapping.deletion import ATTEMPTS, Deletion, delete_messages

CODES = {"refuse": "ReceiptHandleIsInvalid", "fault": "InternalError", "throttle": "RequestThrottled"}


class Queue:
    """Answers DeleteMessageBatch from a script: "ok", "silence" or one of `CODES` for each receipt, in order."""

    def __init__(self, script: dict[str, list[str]]) -> None:
        self.script = script
        self.calls: list[int] = []
        self.unreachable = 0

    def delete_message_batch(self, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        self.calls.append(len(Entries))
        if self.unreachable:
            self.unreachable -= 1
            raise EndpointConnectionError(endpoint_url=QueueUrl)
        answer: dict[str, list[dict[str, Any]]] = {"Successful": [], "Failed": []}
        for entry in Entries:
            result = self.script.get(entry["ReceiptHandle"], ["ok"]).pop(0)
            if result == "ok":
                answer["Successful"].append({"Id": entry["Id"]})
            elif result != "silence":
                answer["Failed"].append({"Id": entry["Id"], "SenderFault": result != "fault", "Code": CODES[result]})
        return answer

    def delete(self, *message_ids: str) -> Deletion:
        return delete_messages(cast("Any", self), "url", {each: each for each in message_ids})


def test_delete_sends_ten_entries_at_a_time() -> None:
    queue = Queue({})
    many = [str(number) for number in range(23)]
    assert queue.delete(*many) == Deletion(tuple(many), ())
    assert queue.calls == [10, 10, 3]


def test_delete_makes_no_call_without_messages() -> None:
    queue = Queue({})
    assert queue.delete() == Deletion((), ())
    assert queue.calls == []


def test_delete_does_not_retry_a_stale_receipt() -> None:
    queue = Queue({"b": ["refuse"]})
    assert queue.delete("a", "b", "c") == Deletion(("a", "c"), ("b",))
    assert queue.calls == [3]


def test_delete_retries_what_sqs_does_not_confirm() -> None:
    queue = Queue({"a": ["fault", "ok"], "b": ["silence", "silence", "ok"]})
    assert queue.delete("a", "b", "c") == Deletion(("c", "a", "b"), ())
    assert queue.calls == [3, 2, 1]


def test_delete_retries_a_throttled_entry() -> None:
    queue = Queue({"a": ["throttle", "ok"]})
    assert queue.delete("a") == Deletion(("a",), ())


def test_delete_reports_what_is_never_confirmed() -> None:
    queue = Queue({"a": ["silence"] * ATTEMPTS})
    assert queue.delete("a", "b") == Deletion(("b",), ("a",))


def test_delete_retries_an_unreachable_queue() -> None:
    queue = Queue({})
    queue.unreachable = 1
    assert queue.delete("a") == Deletion(("a",), ())
    queue.unreachable = ATTEMPTS
    assert queue.delete("a") == Deletion((), ("a",))
