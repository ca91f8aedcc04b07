"""FIFO queues: the order within a message group."""

from __future__ import annotations

GROUP_ATTRIBUTE = "MessageGroupId"
_FIFO = ".fifo"


class HeldBack(Exception):
    """An earlier record of the message group failed in this batch; this one must wait behind it."""


def is_fifo(name: str) -> bool:
    """Return whether a queue's URL or ARN names a FIFO queue: SQS reserves the ending for them."""
    return name.endswith(_FIFO)
