"""The memory of FIFO queues and topics: a deduplication id counts once in five minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DEDUPLICATION_MS = 5 * 60 * 1000
"""How long SQS and SNS remember a MessageDeduplicationId (API references, SendMessage and Publish)."""

DEDUPLICATION = "deduplication/"
"""How the containers of deduplication ids begin, before their queue or topic."""

State = dict[str, dict[str, Any]]


def once(
    state: State, now_ms: int, target: str, token: str, send: Callable[[], str], *, depends_on_time: Callable[[], None]
) -> str:
    """Send and return the id; or, for a deduplication id of the last five minutes, only return the first id.

    The second answer depends on the time.
    """
    held = state.setdefault(DEDUPLICATION + target, {})
    if token in held:
        depends_on_time()
    if token not in held or held[token]["until"] <= now_ms:
        held[token] = {"until": now_ms + DEDUPLICATION_MS, "id": send()}
    return str(held[token]["id"])
