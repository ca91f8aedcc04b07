"""Deletion of finished messages: in batches, with a retry of every entry that SQS did not confirm."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.sqs.sending import is_final
from oneslot.runtime.surroundings import Empty, Full, Surroundings
from oneslot.worker.job import InHand, Job
from oneslot.worker.log import WorkerLog, name_of

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

ENTRIES = 10
"""SQS's limit for one batch."""
LINGER_SECONDS = 0.05
"""The time that a batch waits for more entries. The heartbeat keeps its messages hidden in the meantime."""
ATTEMPTS = 5
PAUSE_SECONDS = 0.2


class Acknowledgement:
    """Takes finished jobs from many threads; one thread calls `run`.

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
        self._done = surroundings.threads.queue(waiting)

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
        ended = False
        while not ended:
            batch: list[Job] = []
            closes = None
            while len(batch) < ENTRIES:
                try:
                    job = self._done.get(
                        timeout=None if closes is None else max(0.0, closes - self._surroundings.steady())
                    )
                except Empty:
                    break
                if job is None:
                    ended = True
                    break
                closes = closes or self._surroundings.steady() + LINGER_SECONDS
                batch.append(job)
            self.delete(batch)

    def delete(self, batch: Sequence[Job]) -> None:
        """Delete these. SQS redelivers what it does not confirm, and the ledger answers that as a duplicate."""
        waiting = [job for job in batch if not job.lost]
        for attempt in range(ATTEMPTS):
            if not waiting:
                break
            if attempt:
                self._log.count(delete_retries=len(waiting))
                self._surroundings.sleep(PAUSE_SECONDS * attempt)
            waiting = self._attempt(waiting)
        for job in waiting:
            self._log.event("not_deleted", sqs_message_id=job.sqs_message_id, reason="not confirmed")
        self._log.count(delete_unconfirmed=len(waiting))
        for job in batch:
            self._in_hand.drop(job)

    def _attempt(self, jobs: Sequence[Job]) -> list[Job]:
        """Delete once; return the jobs to retry. An entry that the answer does not mention is not deleted."""
        entries: list[Any] = [{"Id": str(at), "ReceiptHandle": job.receipt} for at, job in enumerate(jobs)]
        try:
            answer = self._client.delete_message_batch(QueueUrl=self._queue_url, Entries=entries)
        except (BotoCoreError, ClientError, OSError) as error:
            self._log.event("delete_error", error=name_of(error))
            return list(jobs)
        done = {entry["Id"] for entry in answer.get("Successful", ())}
        refused = {entry["Id"]: entry["Code"] for entry in answer.get("Failed", ()) if is_final(entry)}
        self._log.count(deleted=len(done), delete_refused=len(refused))
        for entry_id, code in refused.items():
            self._log.event("not_deleted", sqs_message_id=jobs[int(entry_id)].sqs_message_id, reason=code)
        return [job for at, job in enumerate(jobs) if str(at) not in done and str(at) not in refused]
