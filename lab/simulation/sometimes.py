"""What must happen sometimes: each fault at each kind of call, and each end that a message can come to.

A simulation that never reaches one of these proves less than it says, so the long test fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lab.simulation.world.faults import CRASH, PAUSE, SUSPEND, choices, reached_name

CALLS: Mapping[str, tuple[str, ...]] = {
    "sqs": (
        "receive_message",
        "delete_message_batch",
        "change_message_visibility_batch",
        "change_message_visibility",
        "send_message",
        "send_message_batch",
    ),
    "dynamodb": ("update_item", "get_item", "query", "transact_write_items"),
    "lambda": ("start_environment",),
}
"""The calls at which every fault must happen."""

OUTCOMES = ("booked", "waitlist", "cancelled", "refused", "duplicate", "quarantined", "busy", "fenced", "failed")
"""Outcomes of a delivery that must occur."""

EVENTS = (
    *(f"function error: {kind}" for kind in ("init", "exception", "timeout", "crash", "answer")),
    *("a batch is throttled", "a row expires"),
)
"""What must happen to a mapping, to its function and to the ledger."""

_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "transact_write_items": {"TransactItems": [{}]},
    "receive_message": {"WaitTimeSeconds": 1},
}


def must_be_reached() -> Iterator[str]:
    """Yield the name of everything that must happen in a long simulation."""
    for service, operations in CALLS.items():
        for operation in operations:
            for choice in choices(service, operation, _PARAMETERS.get(operation, {})):
                yield reached_name(choice.name, operation)
    for name in (CRASH, PAUSE, SUSPEND):
        yield reached_name(name, "a statement")
    for outcome in OUTCOMES:
        yield f"outcome: {outcome}"
    yield from EVENTS


def never_reached(reached: Collection[str]) -> list[str]:
    """Return what must happen sometimes, and did not."""
    return [name for name in must_be_reached() if name not in reached]
