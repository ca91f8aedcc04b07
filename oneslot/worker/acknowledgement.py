"""Deletion of finished messages: in batches, with a retry of every entry that SQS did not confirm."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from oneslot.runtime.failures import name_of
from oneslot.runtime.sqs.deletion import BATCH, delete_messages
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.runtime.surroundings import Empty, Full, Surroundings
from oneslot.worker.job import InHand, Job
from oneslot.worker.log import WorkerLog

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

DELETERS = 2
LINGER_SECONDS = 0.05
"""The time that a batch waits for more entries. The heartbeat keeps its messages hidden in the meantime. On a FIFO queue a
batch does not wait: SQS holds back each group until its message is deleted."""
RETRIED_MS = 4_000
"""How long a batch is repeated. Later batches wait for it, and the heartbeat keeps their messages hidden."""


class Acknowledgement:
    """Takes finished jobs from many threads; `DELETERS` threads call `run`, and one collects a batch while others delete.

    At most `waiting` jobs wait for their deletion. `add` blocks beyond that, so an unreachable queue stops the work
    rather than filling the memory.
    """

    def __init__(
        self,
        client: SQSClient,
        queue_url: str,
        *,
        in_hand: InHand,
        log: WorkerLog,
        surroundings: Surroundings,
        waiting: int,
    ) -> None:
        self._client = client
        self._queue_url = queue_url
        self._in_hand = in_hand
        self._log = log
        self._surroundings = surroundings
        self._linger = 0.0 if is_fifo(queue_url) else LINGER_SECONDS
        self._done = surroundings.threads.queue(waiting)
        self._collecting = surroundings.threads.lock()
        self._ended = False

    def add(self, job: Job) -> None:
        """Queue a finished job for deletion."""
        self._done.put(job)

    def end(self, seconds: float) -> None:
        """Let `run` return when every queued job is deleted.

        Wait at most this long for room in the queue: if `run` has died there never is any.
        """
        with suppress(Full):
            self._done.put(None, timeout=seconds)

    def run(self) -> None:
        """Delete until `end`."""
        while not self._ended:
            with self._collecting:
                batch = self._collect()
            self.delete(batch)

    def _collect(self) -> list[Job]:
        batch: list[Job] = []
        closes = None
        while len(batch) < BATCH and not self._ended:
            try:
                job = self._done.get(timeout=None if closes is None else max(0.0, closes - self._surroundings.steady()))
            except Empty:
                break
            if job is None:
                self._ended = True
                break
            closes = closes or self._surroundings.steady() + self._linger
            batch.append(job)
        return batch

    def delete(self, batch: Sequence[Job]) -> None:
        """Delete these. SQS redelivers what it does not confirm, and the ledger answers that as a duplicate."""
        kept = [job for job in batch if not job.lost]
        deletion = delete_messages(
            self._client,
            self._queue_url,
            [job.receipt for job in kept],
            self._surroundings,
            within_ms=RETRIED_MS,
            on_error=lambda error: self._log.event("delete_error", error=name_of(error)),
        )
        for at, reason in (*deletion.refused.items(), *((at, "not confirmed") for at in deletion.unconfirmed)):
            self._log.event("not_deleted", sqs_message_id=kept[at].sqs_message_id, reason=reason)
        self._log.count(
            deleted=len(deletion.deleted),
            delete_refused=len(deletion.refused),
            delete_retries=deletion.retried,
            delete_unconfirmed=len(deletion.unconfirmed),
        )
        for job in batch:
            self._in_hand.drop(job)
