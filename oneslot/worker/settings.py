"""The worker's numbers, and what they must fulfil together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from oneslot.errors import BadInput

# SQS: a message can be in flight for 12 hours from its receive, however often it is extended.
LONGEST_IN_FLIGHT_SECONDS = 43_200
LONGEST_POLL_SECONDS = 20
SHORTEST_LIMIT_SECONDS = 0.1
MAXIMUM_THREADS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """All in seconds, but `threads`.

    Attributes:
        threads: messages in work at once; one for each thread.
        visibility_seconds: how long a message is left alone between two extensions; 0 extends it with every heartbeat.
        buffer_seconds: on top of it, so that a late heartbeat, or one that has to be repeated, is still in time.
        limit_seconds: hard limit for one message. After it the message is given back, and its thread given up.
        grace_seconds: after a stop, for what is in hand; then it is given back. The service manager must wait longer.
        wait_seconds: the long poll.
    """

    threads: int = 8
    visibility_seconds: int = 30
    buffer_seconds: int = 10
    limit_seconds: float = 900
    grace_seconds: float = 25
    wait_seconds: int = 10

    def __post_init__(self) -> None:
        problem = next(self._problems(), None)
        if problem:
            raise BadInput(problem)

    @property
    def hidden_seconds(self) -> int:
        """The visibility timeout that each receive and each heartbeat asks for."""
        return self.visibility_seconds + self.buffer_seconds

    def _problems(self) -> Iterator[str]:
        if not 1 <= self.threads <= MAXIMUM_THREADS:
            yield f"--threads is {self.threads}; choose 1 to {MAXIMUM_THREADS}."
        if self.visibility_seconds < 0:
            yield f"--visibility is {self.visibility_seconds}; choose 0 seconds (extend with every heartbeat) or more."
        if self.buffer_seconds < 1:
            yield f"--buffer is {self.buffer_seconds}; choose 1 second or more: a heartbeat needs time to arrive."
        for option, seconds in (("--limit", self.limit_seconds), ("--grace", self.grace_seconds)):
            if not math.isfinite(seconds):
                yield f"{option} is {seconds:g}; choose a number of seconds."
        if self.grace_seconds > LONGEST_IN_FLIGHT_SECONDS:
            yield (
                f"--grace is {self.grace_seconds:g}; choose at most {LONGEST_IN_FLIGHT_SECONDS} seconds: "
                "SQS leaves no message in flight for longer."
            )
        if self.hidden_seconds + self.limit_seconds > LONGEST_IN_FLIGHT_SECONDS:
            yield (
                f"--limit {self.limit_seconds:g} + --visibility + --buffer is more than SQS's {LONGEST_IN_FLIGHT_SECONDS} s "
                "in flight; lower --limit, or split the work into smaller messages."
            )
        if self.limit_seconds < SHORTEST_LIMIT_SECONDS:
            yield f"--limit is {self.limit_seconds:g}; choose {SHORTEST_LIMIT_SECONDS} seconds or more."
        if not 0 <= self.wait_seconds <= LONGEST_POLL_SECONDS:
            yield f"--wait is {self.wait_seconds}; SQS polls for 0 to {LONGEST_POLL_SECONDS} seconds."
        if self.grace_seconds <= self.wait_seconds:
            yield (
                f"--grace {self.grace_seconds:g} is not above --wait {self.wait_seconds}: a poll that is under way at the "
                "stop must end within it; raise --grace or lower --wait."
            )
