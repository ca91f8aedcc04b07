"""Deletion of finished messages: in batches, with a retry of every entry that SQS did not confirm."""

from collections.abc import Sequence
from contextlib import suppress

from oneslot.runtime.failures import name_of
from oneslot.runtime.sqs.batches import BATCH, delete_messages
from oneslot.runtime.surroundings import Empty, Full
from oneslot.worker.job import Job, Shift

DELETERS = 2
LINGER_SECONDS = 0.05
"""The time that a batch waits for more entries. The heartbeat keeps its messages hidden in the meantime. On a FIFO queue a
batch does not wait: SQS holds back each group until its message is deleted."""
RETRIED_MS = 4_000
"""How long a batch is repeated. Later batches wait for it, and the heartbeat keeps their messages hidden."""


class Acknowledgement:
    """Takes finished jobs from many threads; `DELETERS` threads call `run`, and one collects a batch while others delete.

    At most as many jobs wait for their deletion as there are threads, or ten. `add` blocks beyond that, so an unreachable
    queue stops the work rather than filling the memory.
    """

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self._linger = 0.0 if shift.fifo else LINGER_SECONDS
        self._done = shift.surroundings.threads.queue(max(BATCH, shift.settings.threads))
        self._collecting = shift.surroundings.threads.lock()
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
                job = self._done.get(
                    timeout=None if closes is None else max(0.0, closes - self._shift.surroundings.steady())
                )
            except Empty:
                break
            if job is None:
                self._ended = True
                break
            closes = closes or self._shift.surroundings.steady() + self._linger
            batch.append(job)
        return batch

    def delete(self, batch: Sequence[Job]) -> None:
        """Delete these. SQS redelivers what it does not confirm, and the ledger answers that as a duplicate."""
        log, kept = self._shift.log, [job for job in batch if not job.lost]
        deletion = delete_messages(
            self._shift.client,
            self._shift.queue_url,
            [job.receipt for job in kept],
            self._shift.surroundings,
            within_ms=RETRIED_MS,
            on_error=lambda error: log.event("delete_error", error=name_of(error)),
        )
        for at, reason in (*deletion.refused.items(), *((at, "not confirmed") for at in deletion.unconfirmed)):
            log.event("not_deleted", sqs_message_id=kept[at].sqs_message_id, reason=reason)
        log.count(
            deleted=len(deletion.deleted),
            delete_refused=len(deletion.refused),
            delete_retries=deletion.retried,
            delete_unconfirmed=len(deletion.unconfirmed),
        )
        for job in batch:
            self._shift.in_hand.drop(job)
