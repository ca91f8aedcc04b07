"""Every entry of every DeleteMessageBatch answer is read."""

from __future__ import annotations

from typing import Any, cast

from botocore.exceptions import EndpointConnectionError

from oneslot.local.mapping.deletion import ATTEMPTS, Deletion, delete_messages


class Queue:
    """Answers DeleteMessageBatch from a script: "ok", "refuse", "fault" or "silence" for each receipt, in order."""

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
                answer["Failed"].append({"Id": entry["Id"], "SenderFault": result == "refuse", "Code": "Some"})
        return answer

    def delete(self, *message_ids: str) -> Deletion:
        return delete_messages(cast("Any", self), "url", {each: each for each in message_ids})


def test_tens() -> None:
    queue = Queue({})
    many = [str(number) for number in range(23)]
    assert queue.delete(*many) == Deletion(tuple(many), ())
    assert queue.calls == [10, 10, 3]


def test_nothing_to_delete_calls_nothing() -> None:
    queue = Queue({})
    assert queue.delete() == Deletion((), ())
    assert queue.calls == []


def test_a_stale_receipt_is_reported_and_not_tried_again() -> None:
    queue = Queue({"b": ["refuse"]})
    assert queue.delete("a", "b", "c") == Deletion(("a", "c"), ("b",))
    assert queue.calls == [3]


def test_a_fault_of_the_service_and_an_entry_in_neither_list_are_tried_again() -> None:
    queue = Queue({"a": ["fault", "ok"], "b": ["silence", "silence", "ok"]})
    assert queue.delete("a", "b", "c") == Deletion(("c", "a", "b"), ())
    assert queue.calls == [3, 2, 1]


def test_what_is_never_confirmed_is_unconfirmed() -> None:
    queue = Queue({"a": ["silence"] * ATTEMPTS})
    assert queue.delete("a", "b") == Deletion(("b",), ("a",))


def test_an_unreachable_queue_raises_nothing() -> None:
    queue = Queue({})
    queue.unreachable = 1
    assert queue.delete("a") == Deletion(("a",), ())
    queue.unreachable = ATTEMPTS
    assert queue.delete("a") == Deletion((), ("a",))
