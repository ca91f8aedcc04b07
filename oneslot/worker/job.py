"""A message in a worker's hands, the context that its handler gets, and what the parts of a worker share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from oneslot.runtime.attempt import Claims
from oneslot.runtime.sqs.queue import is_fifo
from oneslot.runtime.surroundings import Event, Surroundings
from oneslot.worker.log import WorkerLog
from oneslot.worker.settings import WorkerSettings

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


class State(Enum):
    """The state of a job."""

    RUNNING = "running"
    ACKNOWLEDGING = "acknowledging"
    FAILED = "failed"
    OVER_LIMIT = "over limit"
    RELEASED = "released"


@dataclass(slots=True, eq=False)
class Job:
    """A received message. Times are seconds of a monotonic clock.

    Attributes:
        visible_at: when SQS delivers it again, unless the heartbeat extends it.
        deadline: the hard limit.
        claims: those that its handler holds; they end with its visibility.
        lost: another consumer may have received it, so its heartbeat has stopped and this worker does not delete it.
    """

    message: Mapping[str, Any] = field(repr=False)
    visible_at: float
    deadline: float
    started: float
    surroundings: Surroundings = field(repr=False)
    state: State = State.RUNNING
    lost: bool = False
    claims: Claims = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.surroundings, lambda: self.visible_at, self.deadline)

    @property
    def receipt(self) -> str:
        """The receipt handle of this receive."""
        return str(self.message["ReceiptHandle"])

    @property
    def sqs_message_id(self) -> str:
        """The MessageId of SQS."""
        return str(self.message["MessageId"])

    @property
    def receive_count(self) -> int:
        """The number of times that SQS has delivered it."""
        return int(self.message.get("Attributes", {}).get("ApproximateReceiveCount", 1))


class InHand:
    """All jobs of this worker: at work, or done and not yet deleted. Safe to use from many threads."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._jobs: dict[Job, None] = {}  # in the order of their receive
        self._changed = surroundings.threads.condition()
        self._closed = False

    def add(self, job: Job) -> bool:
        """Add a job; False after `close`."""
        with self._changed:
            if not self._closed:
                self._jobs[job] = None
            return not self._closed

    def close(self) -> None:
        """Refuse jobs that are still on their way."""
        with self._changed:
            self._closed = True

    def drop(self, job: Job) -> bool:
        """Remove a job; False if it was not here."""
        with self._changed:
            present = job in self._jobs
            self._jobs.pop(job, None)
            self._changed.notify_all()
            return present

    def move(self, job: Job, before: State, after: State) -> bool:
        """Change a job's state if it still is `before`; False if not. Of two threads that try, one wins."""
        with self._changed:
            if job not in self._jobs or job.state is not before:
                return False
            job.state = after
            return True

    def all(self) -> list[Job]:
        """Return the jobs of this moment."""
        with self._changed:
            return list(self._jobs)

    def wait_until_empty(self, seconds: float) -> bool:
        """Wait at most this long, and return whether no job is left."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, timeout=seconds)


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What the parts of one worker share: its queue, and what is in hand."""

    client: SQSClient
    queue_url: str
    settings: WorkerSettings
    in_hand: InHand
    log: WorkerLog
    surroundings: Surroundings
    stopping: Event

    @property
    def fifo(self) -> bool:
        """Whether SQS keeps order within message groups of this queue."""
        return is_fifo(self.queue_url)


@dataclass(frozen=True, slots=True)
class JobContext:
    """Lambda's context object, for the message that the handler has."""

    job: Job
    surroundings: Surroundings
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
        """Return the milliseconds until the hard limit."""
        return max(0, int((self.job.deadline - self.surroundings.steady()) * 1000))

    @property
    def lost(self) -> bool:
        """Whether the message is lost to another consumer. Long work may stop: its result is not needed."""
        return self.job.lost
