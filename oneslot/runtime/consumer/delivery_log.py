"""The delivery log: one line for each attempt at a record, with no body and nothing personal in it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from oneslot.runtime.effects import Result
from oneslot.runtime.protocol import Answer

LONGEST_OUTCOME = 128
"""Characters of an outcome that a line shows: CloudWatch drops a line that is too long."""


_TRACE = re.compile(
    r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
    r"|Root=1-[0-9a-f]{8}-[0-9a-f]{24}(;Parent=[0-9a-f]{16})?(;Sampled=[01?])?"
)
"""The forms of W3C's `traceparent` and of X-Ray's header. The producer chooses the text, so nothing else is logged."""


@dataclass(slots=True)
class Delivery:
    """One attempt at one record. Times are epoch ms, `attempt_ms` is a duration in ms, `trace` is the producer's."""

    sqs_message_id: str
    receive_count: int
    sent: int
    function_request_id: str
    message_id: str | None = None
    outcome: str = "failed"
    reason: str | None = None
    consumption_count: int | None = None
    claimed_by: str | None = None
    answer: str | None = None
    finished: int = 0
    attempt_ms: int = 0
    trace: str | None = None

    def answered(self, answer: Answer) -> None:
        """Note a request that has taken effect; `answer` is a digest, by which duplicates' answers can be compared."""
        self.outcome = (
            "duplicate" if answer.duplicate else str(answer.result.get("outcome", "complete"))[:LONGEST_OUTCOME]
        )
        self.consumption_count = answer.consumption_count
        self.claimed_by = answer.claimed_by
        self.answer = _digest(answer.result)


def trace_of(raw: Mapping[str, Any]) -> str | None:
    """Return the trace that the producer sent: the attribute `traceparent`, else SQS's `AWSTraceHeader`, else None."""
    attribute = raw.get("messageAttributes", {}).get("traceparent", {}).get("stringValue")
    for text in (attribute, raw["attributes"].get("AWSTraceHeader")):
        found = _TRACE.match(text or "")
        if found:
            return found.group()
    return None


def print_line(delivery: Delivery) -> None:
    """Print one JSON line for an attempt: Lambda logs what is printed, and the audit reads this form."""
    # One write with its line end: the threads of a batch print side by side.
    print(json.dumps({"message": "delivery", **asdict(delivery)}) + "\n", end="", flush=True)  # noqa: T201


def _digest(result: Result) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]
