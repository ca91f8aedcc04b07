"""FIFO queues: the order within a message group."""

from __future__ import annotations

GROUP_ATTRIBUTE = "MessageGroupId"
_FIFO = ".fifo"


RETRIES_SPEND_RECEIVES = (
    "short retries on a FIFO queue spend a message's receives within seconds, and its group then goes on without it"
)
"""Why a retry delay is refused there; see `docs/do/keep-order.md`."""


class HeldBack(Exception):
    """An earlier record of the message group failed in this batch; this one must wait behind it."""


def is_fifo(name: str) -> bool:
    """Return whether a queue's URL or ARN names a FIFO queue: SQS reserves the ending for them."""
    return name.endswith(_FIFO)
