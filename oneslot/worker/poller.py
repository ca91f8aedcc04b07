"""The pollers receive no more messages than threads are idle, so none waits in memory while its visibility runs out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.failures import name_of
from oneslot.runtime.releases import Releases
from oneslot.runtime.surroundings import Event, Surroundings
from oneslot.worker.job import Job
from oneslot.worker.log import WorkerLog
from oneslot.worker.pool import Pool, Source
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.visibility import Visibility

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

POLLERS = 2
"""One asks for the threads that become idle while the other waits for its answer."""
FIFO_POLLERS = 4
RECEIVE_MAXIMUM = 10
"""SQS's limit for one ReceiveMessage."""
IDLE_SECONDS = 0.2
PAUSE_AFTER_ERROR = 1.0
LONGEST_PAUSE = 30.0


class JobPoller:
    """Receives for a pool, in one thread, which calls `run`. Several pollers may share a pool."""

    def __init__(
        self,
        client: SQSClient,
        source: Source,
        pool: Pool,
        *,
        settings: WorkerSettings,
        visibility: Visibility,
        log: WorkerLog,
        surroundings: Surroundings,
        stopping: Event,
    ) -> None:
        """stopping: set to end `run` after the poll that is under way."""
        self._client = client
        self._source = source
        self._pool = pool
        self._settings = settings
        self._visibility = visibility
        self._log = log
        self._surroundings = surroundings
        self._stopping = stopping
        self._attempt_id = ""
        # One at a time from a FIFO queue: two messages of one group would run side by side. Of another poller's group SQS
        # hands out nothing while the message is in flight.
        self._most = 1 if source.fifo else RECEIVE_MAXIMUM

    def run(self) -> None:
        """Poll until the worker stops."""
        pause = PAUSE_AFTER_ERROR
        while not self._stopping.is_set():
            reserved = self._pool.reserve(self._most, IDLE_SECONDS)
            if not reserved or self._stopping.is_set():
                continue  # a thread that became idle after the stop gets nothing more
            received: list[Job] = []
            try:
                received = self._receive(reserved)
                pause = PAUSE_AFTER_ERROR
            except (BotoCoreError, ClientError, OSError) as error:
                self._log.count(receive_errors=1)
                self._log.event("receive_error", error=name_of(error))
                self._stopping.wait(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
            finally:
                self._pool.become_idle(reserved - len(received))
            self._hand_over(received)

    def _receive(self, how_many: int) -> list[Job]:
        fifo: dict[str, Any] = {}
        if self._source.fifo:
            # The same id until SQS answers: otherwise the messages of a lost answer stay hidden, and block their group.
            self._attempt_id = self._attempt_id or self._surroundings.new_id()
            fifo["ReceiveRequestAttemptId"] = self._attempt_id
        asked = self._surroundings.steady()  # SQS counts from when it hands a message out: this at the earliest
        answer = self._client.receive_message(
            **fifo,
            QueueUrl=self._source.url,
            MaxNumberOfMessages=how_many,
            WaitTimeSeconds=self._settings.wait_seconds,
            VisibilityTimeout=self._settings.hidden_seconds,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        self._attempt_id = ""
        now = self._surroundings.steady()
        return [
            Job(
                message,
                asked + self._settings.hidden_seconds,
                now + self._settings.limit_seconds,
                now,
                Releases(self._surroundings),
            )
            for message in answer.get("Messages", [])
        ]

    def _hand_over(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        self._log.count(received=len(jobs), redelivered=sum(job.receive_count > 1 for job in jobs))
        if self._stopping.is_set():  # the poll was under way when the worker was stopped
            self._visibility.release(jobs)
            return
        hidden = self._visibility.ensure_hidden(jobs)
        if late := [job for job in hidden if not self._pool.hand(job)]:
            self._visibility.release(late)
        self._pool.become_idle(len(jobs) - len(hidden))
