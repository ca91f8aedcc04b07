"""The visibility of messages in hand: extend it while they are at work, release them when they are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.failures import name_of
from oneslot.runtime.sqs.batches import is_final
from oneslot.worker.job import Job, Shift, State
from oneslot.worker.settings import LONGEST_IN_FLIGHT_SECONDS, WorkerSettings

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

ENTRIES = 10
"""SQS's limit for one batch."""
CONNECT_SECONDS = 1.0
SHORTEST_READ_SECONDS = 1.0
EXTENSIONS_BEFORE_WORK = 2
"""A throttled entry is extended once more; each call may delay the heartbeat of the other jobs by its timeout."""


def configuration(settings: WorkerSettings) -> Config:
    """Return a client configuration for `Visibility`: one attempt, and a timeout of a quarter of the buffer (at least 1 s).

    No message is extended while a call waits, and the client's own retries would multiply that wait. The next beat
    retries anyway, on a new connection.
    """
    return Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=max(SHORTEST_READ_SECONDS, settings.buffer_seconds / 4),
    )


class Visibility:
    """The heartbeat over all jobs in hand. One thread calls `beat`. Its client is made by `configuration`."""

    def __init__(self, shift: Shift, client: SQSClient) -> None:
        self._shift = shift
        self._client = client
        self._settings = shift.settings
        self._log = shift.log
        self._surroundings = shift.surroundings
        self._extending = shift.surroundings.threads.lock()

    def beat(self) -> None:
        """Extend the messages that SQS would deliver again within the buffer; mark those as lost that are past it."""
        now = self._surroundings.steady()
        due = []
        for job in filter(_is_kept, self._shift.in_hand.all()):
            if job.visible_at <= now:
                self._lose(job, "too late")
            elif job.visible_at - now <= self._settings.buffer_seconds:
                due.append(job)
        for start in range(0, len(due), ENTRIES):
            with self._extending:
                self._extend(list(filter(_is_kept, due[start : start + ENTRIES])))

    def ensure_hidden(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the received messages that can be begun: SQS hides them until two more beats have had their time.

        A message whose receive was answered too slowly is extended first. If SQS does not confirm that, another consumer may
        have received it, and it is dropped.
        """
        late = [job for job in jobs if not self._has_time(job)]
        if not late:
            return list(jobs)
        for _ in range(EXTENSIONS_BEFORE_WORK):
            self._extend([job for job in late if not job.lost and not self._has_time(job)])
        dropped = [job for job in late if job.lost or not self._has_time(job)]
        self._log.count(received_too_late=len(dropped))
        for job in dropped:
            self._log.event("received_too_late", sqs_message_id=job.sqs_message_id)
        return [job for job in jobs if job not in dropped]

    def _has_time(self, job: Job) -> bool:
        return job.visible_at - self._surroundings.steady() > self._settings.buffer_seconds / 2

    def release(self, jobs: Sequence[Job]) -> int:
        """Make these visible at once, and return how many SQS confirmed. The others come back when their visibility ends."""
        with self._extending:
            pass  # an extension that lands later would hide them again
        released = sum(self._hide(jobs[start : start + ENTRIES], 0) for start in range(0, len(jobs), ENTRIES))
        self._log.count(released=released)
        return released

    def defer(self, job: Job, lease_ms: int) -> None:
        """Hide a busy message whose lease has `lease_ms` left. If SQS does not confirm that, its visibility ends as before."""
        jitter = self._surroundings.jitter()
        self._defer(job, self._settings.deferral.after_busy(job.receive_count, lease_ms, jitter))

    def delay(self, job: Job, milliseconds: int | None = None) -> None:
        """Hide a failed message for this long, plus jitter; by default for its retry delay, if the settings have one."""
        deferral, jitter = self._settings.deferral, self._surroundings.jitter()
        if milliseconds is not None:
            self._defer(job, deferral.whole(milliseconds, jitter))
        elif (seconds := deferral.after_failure(job.receive_count, jitter)) is not None:
            self._defer(job, seconds)

    def _defer(self, job: Job, seconds: int) -> None:
        in_flight = self._settings.hidden_seconds + self._surroundings.steady() - job.started
        with self._extending:
            pass
        self._log.count(deferred=self._hide([job], min(seconds, math.ceil(LONGEST_IN_FLIGHT_SECONDS - in_flight))))

    def _hide(self, jobs: Sequence[Job], seconds: int) -> int:
        """Hide at most ten messages for this long; return how many SQS confirmed."""
        confirmed, left = 0, [job for job in jobs if not job.lost]
        # Two attempts: no beat repeats this call, and more attempts would delay the heartbeat of the others.
        for _ in range(2):
            if left and (answer := self._change(left, seconds)) is not None:
                confirmed += len(answer.get("Successful", ()))
                refused = [entry for entry in answer.get("Failed", ()) if not is_final(entry)]
                left = [left[int(entry["Id"])] for entry in refused]
        return confirmed

    def _extend(self, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        hidden = self._settings.hidden_seconds
        asked = self._surroundings.steady()  # before the call: SQS counts from the arrival, which is later
        answer = self._change(jobs, hidden)
        if answer is None:
            return  # the next beat retries while there is time
        for entry in answer.get("Successful", ()):
            jobs[int(entry["Id"])].visible_at = asked + hidden
        self._log.count(extended=len(answer.get("Successful", ())))
        for entry in answer.get("Failed", ()):
            if is_final(entry):
                self._lose(jobs[int(entry["Id"])], str(entry["Code"]))

    def _change(self, jobs: Sequence[Job], seconds: int) -> Any:
        entries: list[Any] = [
            {"Id": str(at), "ReceiptHandle": job.receipt, "VisibilityTimeout": seconds} for at, job in enumerate(jobs)
        ]
        try:
            return self._client.change_message_visibility_batch(QueueUrl=self._shift.queue_url, Entries=entries)
        except (BotoCoreError, ClientError, OSError) as error:
            self._log.count(visibility_errors=1)
            self._log.event("visibility_error", error=name_of(error))
            return None

    def _lose(self, job: Job, reason: str) -> None:
        if job.state is State.ACKNOWLEDGING:
            return  # its deletion may just have succeeded, and reports its own result
        job.lost = True
        self._log.count(leases_lost=1)
        self._log.event("lease_lost", sqs_message_id=job.sqs_message_id, reason=reason)


def _is_kept(job: Job) -> bool:
    return not job.lost and job.state in {State.RUNNING, State.ACKNOWLEDGING}
