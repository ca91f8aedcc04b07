"""The worker's settings, which reject contradictions."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from oneslot.runtime.sqs.queue import (
    LONGEST_LAMBDA_SECONDS,
    QUEUE_VISIBILITY_SECONDS,
    RETRIES_SPEND_RECEIVES,
    USUAL_RECEIVES,
    Deferral,
    is_fifo,
)

# SQS: a message can be in flight for 12 hours from its receive, however often it is extended.
LONGEST_IN_FLIGHT_SECONDS = 43_200
LONGEST_POLL_SECONDS = 20
SHORTEST_LIMIT_SECONDS = 0.1
MAXIMUM_THREADS = 1_000
LONGEST_RETRY_DELAY_SECONDS = 3_600


class InvalidSettings(ValueError):
    """A setting, or a combination of settings, that a worker cannot run with. `str(error)` is a sentence with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker. Raises `InvalidSettings`. Times are in seconds.

    Attributes:
        threads: messages at work at once, one in each thread.
        visibility_seconds: the time between two extensions of a message; 0 extends it with every heartbeat.
        buffer_seconds: added to it, so that a heartbeat that is late or repeated is still in time.
        limit_seconds: the hard limit for one message. After it the message is released and its thread abandoned.
        grace_seconds: the time after a stop to finish what is in hand. The service manager must wait longer.
        wait_seconds: the long poll.
        retry_delay_seconds: the longest wait after a handler has raised: 1 s at first, then twice as long each time.
            0 leaves the message to its visibility timeout.
        max_receive_count: the queue's, from its redrive policy.
        reports_failures: whether the handler's answer is read. A mapping without ReportBatchItemFailures reads none.
    """

    threads: int = 8
    visibility_seconds: int = QUEUE_VISIBILITY_SECONDS
    buffer_seconds: int = 10
    limit_seconds: float = 900
    grace_seconds: float = 25
    wait_seconds: int = 10
    retry_delay_seconds: int = 0
    max_receive_count: int = USUAL_RECEIVES
    reports_failures: bool = True

    def __post_init__(self) -> None:
        problem = next(self._problems(), None)
        if problem:
            raise InvalidSettings(problem)

    def require_queue(self, queue_url: str) -> None:
        """Raise `InvalidSettings` if a queue of this kind cannot be consumed with these settings."""
        if self.retry_delay_seconds and is_fifo(queue_url):
            raise InvalidSettings(
                f"--retry-delay is {self.retry_delay_seconds}, and {RETRIES_SPEND_RECEIVES}. "
                "Omit --retry-delay, or use a standard queue."
            )

    @property
    def hidden_seconds(self) -> int:
        """The visibility timeout of each receive and each heartbeat, and the longest lease without a renewal."""
        return self.visibility_seconds + self.buffer_seconds

    @property
    def beat_seconds(self) -> float:
        """The time between two beats: four within the buffer, so that one that fails can be repeated in time."""
        return min(1.0, self.buffer_seconds / 4)

    @property
    def deferral(self) -> Deferral:
        """The numbers of the queue's deferrals. A Lambda function may share the queue."""
        return Deferral(
            max_receive_count=self.max_receive_count,
            longest_lease_seconds=max(self.limit_seconds, LONGEST_LAMBDA_SECONDS),
            longest_retry_delay_seconds=self.retry_delay_seconds,
        )

    def _problems(self) -> Iterator[str]:
        if not 1 <= self.threads <= MAXIMUM_THREADS:
            yield f"--threads is {self.threads}; choose 1 to {MAXIMUM_THREADS}."
        if self.visibility_seconds < 0:
            yield f"--visibility is {self.visibility_seconds}; choose 0 seconds (extend with every heartbeat) or more."
        if self.buffer_seconds < 1:
            yield f"--buffer is {self.buffer_seconds}; choose 1 second or more, because a heartbeat needs time to arrive."
        for option, seconds in (("--limit", self.limit_seconds), ("--grace", self.grace_seconds)):
            if not math.isfinite(seconds):
                yield f"{option} is {seconds:g}; choose a number of seconds."
        if self.grace_seconds > LONGEST_IN_FLIGHT_SECONDS:
            yield (
                f"--grace is {self.grace_seconds:g}; choose at most {LONGEST_IN_FLIGHT_SECONDS} seconds: "
                "SQS keeps no message in flight for longer."
            )
        if self.hidden_seconds + self.limit_seconds > LONGEST_IN_FLIGHT_SECONDS:
            yield (
                f"--limit {self.limit_seconds:g} + --visibility + --buffer is more than SQS's {LONGEST_IN_FLIGHT_SECONDS} s "
                "in flight. Lower --limit, or split the work into smaller messages."
            )
        if self.limit_seconds < SHORTEST_LIMIT_SECONDS:
            yield f"--limit is {self.limit_seconds:g}; choose {SHORTEST_LIMIT_SECONDS} seconds or more."
        if not 0 <= self.wait_seconds <= LONGEST_POLL_SECONDS:
            yield f"--wait is {self.wait_seconds}; SQS polls for 0 to {LONGEST_POLL_SECONDS} seconds."
        if not 0 <= self.retry_delay_seconds <= LONGEST_RETRY_DELAY_SECONDS:
            yield (
                f"--retry-delay is {self.retry_delay_seconds}; choose 0 (the visibility timeout) to "
                f"{LONGEST_RETRY_DELAY_SECONDS} seconds."
            )
