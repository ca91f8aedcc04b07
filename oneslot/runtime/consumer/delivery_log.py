"""The delivery log: one line for each attempt at a record, with no body and nothing personal in it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from oneslot.runtime.effects import Result
from oneslot.runtime.protocol import Answer
from oneslot.runtime.values import to_json

LONGEST_OUTCOME = 128
"""Characters of an outcome that a line shows: CloudWatch drops a line that is too long."""


@dataclass(slots=True)
class Delivery:
    """One attempt at one record. Times are epoch ms, `attempt_ms` is a duration in ms, `trace` is the producer's.

    Of a failure, `where` is file and line, and `detail` the text of an error of Oneslot's own.
    """

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
    where: str | None = None
    detail: str | None = None

    def answered(self, answer: Answer) -> None:
        """Note a request that has taken effect; `answer` is a digest, by which duplicates' answers can be compared."""
        self.outcome = (
            "duplicate" if answer.duplicate else str(answer.result.get("outcome", "complete"))[:LONGEST_OUTCOME]
        )
        self.consumption_count = answer.consumption_count
        self.claimed_by = answer.claimed_by
        self.answer = _digest(answer.result)


def print_line(delivery: Delivery) -> None:
    """Print one JSON line for an attempt: Lambda logs what is printed, and the audit reads this form."""
    line = {"message": "delivery", **asdict(delivery), **function_version(os.environ)}
    # One write with its line end: the threads of a batch print side by side.
    print(json.dumps(line) + "\n", end="", flush=True)  # noqa: T201


def function_version(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the version of the function as a line has it, by which a gradual deployment counts failures; none elsewhere."""
    version = environment.get("AWS_LAMBDA_FUNCTION_VERSION")
    return {"function_version": version} if version else {}


def _digest(result: Result) -> str:
    return hashlib.sha256(to_json(result, sort_keys=True).encode()).hexdigest()[:16]
