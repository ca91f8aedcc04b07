"""What SQS FIFO adds: the order within a message group, which a consumer keeps by stopping a group at its first failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP_ATTRIBUTE = "MessageGroupId"
_FIFO = ".fifo"


class HeldBack(Exception):
    """An earlier record of the same message group failed in this batch; this one waits behind it."""


def is_fifo(name: str) -> bool:
    """Whether a queue's URL or ARN is that of a FIFO queue: SQS asks for that ending, and for no other queue has it."""
    return name.endswith(_FIFO)


def group_of(record: Mapping[str, Any]) -> str | None:
    """The record's message group, if its queue keeps order; None on a standard queue, where a group is for fairness only."""
    if not is_fifo(str(record.get("eventSourceARN", ""))):
        return None
    return str(record["attributes"][GROUP_ATTRIBUTE])
