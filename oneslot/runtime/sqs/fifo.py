"""FIFO queues: the order within a message group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP_ATTRIBUTE = "MessageGroupId"
_FIFO = ".fifo"


class HeldBack(Exception):
    """An earlier record of the message group failed in this batch; this one must wait behind it."""


def is_fifo(name: str) -> bool:
    """Return whether a queue's URL or ARN names a FIFO queue: SQS reserves the ending for them."""
    return name.endswith(_FIFO)


def group_of(record: Mapping[str, Any]) -> str | None:
    """Return the record's message group; None on a standard queue, where groups serve fairness and not order."""
    if not is_fifo(str(record.get("eventSourceARN", ""))):
        return None
    return str(record["attributes"][GROUP_ATTRIBUTE])
