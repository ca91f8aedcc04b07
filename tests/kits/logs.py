"""Lines of the delivery log, for stacks whose consumer a test does not run."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.kits.moto_stack import MotoStack


def write_failures(
    stack: MotoStack, message_id: str, sqs_message_id: str = "", *, receives: int, at_ms: int | None = None
) -> None:
    """Append the failed deliveries of one message, all at `at_ms`, by default a minute ago."""
    at_ms = at_ms or int(time.time() - 60) * 1_000
    line = {"message": "delivery", "message_id": message_id, "sqs_message_id": sqs_message_id or f"sqs-{message_id}"}
    line |= {"outcome": "failed", "reason": "KeyError", "where": "/var/decision.py:8"}
    assert stack.target.local is not None
    with Path(stack.target.local.log_file).open("a", encoding="utf-8") as log:
        for receive in range(1, receives + 1):
            about = {"receive_count": receive, "sent": at_ms, "finished": at_ms, "attempt_ms": 1}
            log.write(json.dumps({**line, **about}) + "\n")
