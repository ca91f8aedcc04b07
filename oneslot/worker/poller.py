"""The pollers receive no more messages than threads are idle, so none waits in memory while its visibility runs out."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.failures import name_of
from oneslot.worker.job import Job, Shift
from oneslot.worker.pool import Pool
from oneslot.worker.visibility import Visibility

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

    def __init__(self, shift: Shift, pool: Pool, visibility: Visibility) -> None:
        self._shift = shift
        self._pool = pool
        self._visibility = visibility
        self._log = shift.log
        self._surroundings = shift.surroundings
        self._stopping = shift.stopping
        self._attempt_id = ""
        # One at a time from a FIFO queue: two messages of one group would run side by side. Of another poller's group SQS
        # hands out nothing while the message is in flight.
        self._most = 1 if shift.fifo else RECEIVE_MAXIMUM

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
        if self._shift.fifo:
            # The same id until SQS answers: otherwise the messages of a lost answer stay hidden, and block their group.
            self._attempt_id = self._attempt_id or self._surroundings.new_id()
            fifo["ReceiveRequestAttemptId"] = self._attempt_id
        settings = self._shift.settings
        asked = self._surroundings.steady()  # SQS counts from when it hands a message out: this at the earliest
        answer = self._shift.client.receive_message(
            **fifo,
            QueueUrl=self._shift.queue_url,
            MaxNumberOfMessages=how_many,
            WaitTimeSeconds=settings.wait_seconds,
            VisibilityTimeout=settings.hidden_seconds,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        self._attempt_id = ""
        now = self._surroundings.steady()
        hidden, deadline = settings.hidden_seconds, now + settings.limit_seconds
        return [
            Job(message, asked + hidden, deadline, now, self._surroundings) for message in answer.get("Messages", [])
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
