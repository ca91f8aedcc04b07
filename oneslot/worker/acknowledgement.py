"""Deleting what is done: in batches, every entry's own result read, and what was not confirmed tried again."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.worker.job import InHand, Job
from oneslot.worker.log import WorkerLog, name_of

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

ENTRIES = 10
"""SQS's limit for one batch."""
LINGER_SECONDS = 0.05
"""How long a batch waits to be filled. The heartbeat keeps the messages hidden in the meantime."""
ATTEMPTS = 5
PAUSE_SECONDS = 0.2


class Acknowledgement:
    """Takes finished jobs from many threads; one thread runs `run`.

    At most `waiting` jobs wait for their deletion. Whoever brings one more waits, so that a queue that cannot be
    reached stops the work instead of filling the memory.
    """

    def __init__(self, client: SQSClient, queue_url: str, in_hand: InHand, log: WorkerLog, waiting: int) -> None:
        self._client = client
        self._queue_url = queue_url
        self._in_hand = in_hand
        self._log = log
        self._done: queue.Queue[Job | None] = queue.Queue(waiting)

    def add(self, job: Job) -> None:
        """Have it deleted."""
        self._done.put(job)

    def end(self, seconds: float) -> None:
        """Nothing more will come; `run` returns when all is deleted.

        Waits at most this long for room: if `run` has died nobody makes any, and the worker must end all the same.
        """
        with suppress(queue.Full):
            self._done.put(None, timeout=seconds)

    def run(self) -> None:
        """Delete until `end`."""
        ended = False
        while not ended:
            batch: list[Job] = []
            closes = None
            while len(batch) < ENTRIES:
                try:
                    job = self._done.get(timeout=None if closes is None else max(0.0, closes - time.monotonic()))
                except queue.Empty:
                    break
                if job is None:
                    ended = True
                    break
                closes = closes or time.monotonic() + LINGER_SECONDS
                batch.append(job)
            self.delete(batch)

    def delete(self, batch: Sequence[Job]) -> None:
        """Delete these. What SQS does not confirm comes again, and is answered as a duplicate."""
        waiting = [job for job in batch if not job.lost]
        for attempt in range(ATTEMPTS):
            if not waiting:
                break
            if attempt:
                self._log.count(delete_retries=len(waiting))
                time.sleep(PAUSE_SECONDS * attempt)
            waiting = self._attempt(waiting)
        for job in waiting:
            self._log.event("not_deleted", sqs_message_id=job.sqs_message_id, reason="not confirmed")
        self._log.count(delete_unconfirmed=len(waiting))
        for job in batch:
            self._in_hand.drop(job)

    def _attempt(self, jobs: Sequence[Job]) -> list[Job]:
        """Try once; return those for which it is worth trying again. Silence about an entry is no success."""
        entries: list[Any] = [{"Id": str(at), "ReceiptHandle": job.receipt} for at, job in enumerate(jobs)]
        try:
            answer = self._client.delete_message_batch(QueueUrl=self._queue_url, Entries=entries)
        except (BotoCoreError, ClientError, OSError) as error:
            self._log.event("delete_error", error=name_of(error))
            return list(jobs)
        done = {entry["Id"] for entry in answer.get("Successful", ())}
        refused = {entry["Id"]: entry["Code"] for entry in answer.get("Failed", ()) if entry.get("SenderFault")}
        self._log.count(deleted=len(done), delete_refused=len(refused))
        for entry_id, code in refused.items():
            self._log.event("not_deleted", sqs_message_id=jobs[int(entry_id)].sqs_message_id, reason=code)
        return [job for at, job in enumerate(jobs) if str(at) not in done and str(at) not in refused]
