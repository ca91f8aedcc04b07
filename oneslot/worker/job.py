"""One message in a worker's hands, and the list of all of them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class State(Enum):
    """What has become of a job."""

    RUNNING = "running"
    ACKNOWLEDGING = "acknowledging"
    OVER_LIMIT = "over limit"
    GIVEN_BACK = "given back"


@dataclass(slots=True, eq=False)
class Job:
    """A received message. Times are seconds of a clock that never goes back.

    Attributes:
        visible_at: when SQS will deliver it again unless it is extended.
        deadline: the hard limit.
        lost: SQS no longer takes this receive for ours; its heartbeat has stopped, and it will not be deleted by us.
    """

    message: Mapping[str, Any] = field(repr=False)
    visible_at: float
    deadline: float
    started: float
    state: State = State.RUNNING
    lost: bool = False
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def receipt(self) -> str:
        """The receipt handle."""
        return str(self.message["ReceiptHandle"])

    @property
    def sqs_message_id(self) -> str:
        """SQS's MessageId."""
        return str(self.message["MessageId"])

    @property
    def receive_count(self) -> int:
        """How often SQS has delivered it."""
        return int(self.message.get("Attributes", {}).get("ApproximateReceiveCount", 1))


class InHand:
    """All jobs that this worker is responsible for: in work, or done and not yet deleted. Safe from many threads."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._changed = threading.Condition()

    def add(self, job: Job) -> None:
        """Take it on."""
        with self._changed:
            self._jobs[job.key] = job

    def drop(self, job: Job) -> bool:
        """Let go of it. False if that had happened before."""
        with self._changed:
            dropped = self._jobs.pop(job.key, None) is not None
            self._changed.notify_all()
            return dropped

    def move(self, job: Job, before: State, after: State) -> bool:
        """Change its state, if it still is what the caller thinks: of two threads that decide, one wins."""
        with self._changed:
            if self._jobs.get(job.key) is not job or job.state is not before:
                return False
            job.state = after
            return True

    def all(self) -> list[Job]:
        """Return those of this moment."""
        with self._changed:
            return list(self._jobs.values())

    def wait_until_empty(self, seconds: float) -> bool:
        """Wait at most this long; whether it is empty."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, timeout=seconds)


@dataclass(frozen=True, slots=True)
class Context:
    """What a Lambda handler may ask of its context, for the message in its hands."""

    job: Job
    now: Any
    aws_request_id: str
    function_name: str = "worker"
    function_version: str = "$LATEST"
    memory_limit_in_mb: str = "0"
    invoked_function_arn: str = "arn:aws:lambda:local:000000000000:function:worker"
    log_group_name: str = "worker"
    log_stream_name: str = "worker"
    identity: None = None
    client_context: None = None

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the hard limit."""
        return max(0, int((self.job.deadline - self.now()) * 1000))

    @property
    def lost(self) -> bool:
        """Whether SQS has taken the message back: long work may stop here, its result is not needed."""
        return self.job.lost
