"""Every entry of every DeleteMessageBatch answer is read."""

from __future__ import annotations

from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from oneslot.runtime.sqs.batches import delete_messages
from tests.kits.sqs import ACCEPTED, ScriptedSqs, Step, all_but, fail

UNREACHABLE = fail(EndpointConnectionError(endpoint_url="https://sqs"))


def delete(queue: ScriptedSqs, receipts: int, on_error: Any = lambda _: None) -> int:
    """Delete this many messages; return how many SQS deleted."""
    names = [f"receipt-{number}" for number in range(receipts)]
    client = cast("Any", queue)
    deletion = delete_messages(client, queue.url, names, queue.surroundings, within_ms=4_000, on_error=on_error)
    assert sorted([*deletion.deleted, *deletion.refused, *deletion.unconfirmed]) == list(range(receipts))
    return len(deletion.deleted)


@pytest.mark.parametrize(
    ("script", "receipts", "deleted", "calls"),
    [
        ([], 0, 0, []),
        ([], 23, 23, [10, 10, 3]),
        ([all_but(1, ("ReceiptHandleIsInvalid", True))], 3, 2, [3]),
        ([lambda _: [("InternalError", False), None, ACCEPTED], all_but(1)], 3, 3, [3, 2, 1]),
        ([all_but(0, ("RequestThrottled", True))], 1, 1, [1, 1]),
        ([UNREACHABLE], 1, 1, [1, 1]),
    ],
    ids=["none", "ten at a time", "stale receipt", "unconfirmed", "throttled", "unreachable"],
)
def test_delete_repeats_what_may_still_be_deleted(
    script: list[Step], receipts: int, deleted: int, calls: list[int]
) -> None:
    queue = ScriptedSqs(*script)
    assert delete(queue, receipts) == deleted
    assert [len(entries) for entries in queue.batches] == calls


@pytest.mark.parametrize(("step", "deleted"), [(all_but(0), 1), (UNREACHABLE, 0)], ids=["silent", "unreachable"])
def test_delete_gives_up_what_is_never_confirmed(step: Step, deleted: int) -> None:
    queue = ScriptedSqs(*[step] * 1_000)
    assert delete(queue, 2) == deleted
    assert 1 < sum(queue.slept) < 4


def test_delete_raises_without_a_taker_of_errors() -> None:
    with pytest.raises(EndpointConnectionError):
        delete(ScriptedSqs(UNREACHABLE), 1, on_error=None)
