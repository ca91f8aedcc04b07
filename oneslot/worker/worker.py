"""A worker: consumes a queue in one long-running process, with the same handler that Lambda would call.

One thread polls; it receives only when a thread is idle, and no more than are idle, so nothing waits in memory while its
visibility runs out. Each thread has one message. A heartbeat keeps what is in hand hidden, from its receive until its
deletion is confirmed. What a handler does not finish within the hard limit is given back; Python cannot end a thread, so
that one is given up and another takes its place, and when too many were given up the worker ends for its service
manager to start it anew. None of this is what makes effects exactly once. That is the ledger, here as on Lambda.
"""

from __future__ import annotations

import json
import math
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.sqs.batch_response import Invalid, judge
from oneslot.runtime.sqs.lambda_event import event
from oneslot.worker.acknowledgement import Acknowledgement
from oneslot.worker.job import Context, InHand, Job, State
from oneslot.worker.log import WorkerLog, name_of
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.visibility import Visibility

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

Handler = Callable[[Mapping[str, Any], Any], Any]
"""A Lambda handler for SQS: `(event, context)` → a partial batch response, or None. The event has one record."""

RECEIVE_MAXIMUM = 10
METRICS_SECONDS = 60.0
PAUSE_AFTER_ERROR = 1.0
_HANDLER_FAILED = "the handler reported the message as failed"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker ended. `given_back`: messages that were unfinished at the end and can be received again at once.
    `at_work`: handlers that had not returned; what they have started, such as threads of their own, may outlive `run`.
    `stuck`: it ended by itself, because too many threads were given up at once, one had died, or what it says cannot be
    written: it must be started anew."""

    given_back: int
    at_work: int
    stuck: bool


class Worker:
    """One worker for one queue. `run` returns after `stop`, which any thread or signal handler may call.

    `heartbeat_client` is for the heartbeat alone. One thread beats for all messages, so this client must give up a call
    that is not answered well within the buffer, and leave the repeating to the next beat: `worker_visibility.configuration`.
    """

    def __init__(
        self,
        client: SQSClient,
        queue_url: str,
        queue_arn: str,
        handler: Handler,
        settings: WorkerSettings,
        *,
        heartbeat_client: SQSClient,
        log: WorkerLog | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._queue_url = queue_url
        self._queue_arn = queue_arn
        self._region = client.meta.region_name
        self._handler = handler
        self._settings = settings
        self.log = log or WorkerLog()
        self._now = now
        self._in_hand = InHand()
        self._visibility = Visibility(
            heartbeat_client, queue_url, in_hand=self._in_hand, settings=settings, log=self.log, now=now
        )
        self._acknowledgement = Acknowledgement(client, queue_url, self._in_hand, self.log, max(10, settings.threads))
        # Never longer than the number of idle threads: the poller asks for no more than `_idle` counts.
        self._handed: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._idle_changed = threading.Condition()
        self._abandoned = 0  # threads that were given up and have not come back
        self._counting = threading.Lock()
        self._stuck = False
        self._process = os.getpid()
        self._stopping = threading.Event()
        self._in_a_hurry = False
        self._attempt_id = ""
        self._finished = threading.Event()

    def stop(self) -> None:
        """Receive nothing more; `run` returns within the grace time."""
        self._stopping.set()

    def hurry(self) -> None:
        """After `stop`: end the grace time now, so that what is in hand is given back at once."""
        self._in_a_hurry = (
            True  # no event: a signal handler must not find its lock taken by the thread that it interrupts
        )

    def run(self) -> Ended:
        """Work until `stop`, or until as many threads as there are were given up and have not come back."""
        self.log.event("started", threads=self._settings.threads, queue=self._queue_arn)
        threads = {
            "poller": self._poll,
            "heartbeat": self._heartbeat,
            "acknowledgement": self._acknowledgement.run,
        }
        started = {name: threading.Thread(target=target, name=name, daemon=True) for name, target in threads.items()}
        for _ in range(self._settings.threads):
            self._add_thread()
        for thread in started.values():
            thread.start()
        # Asleep and not waiting on the event: a signal handler that sets it must not find its lock taken by this thread.
        while not self._stopping.is_set():
            time.sleep(0.1)
            dead = [name for name, thread in started.items() if not thread.is_alive()]
            if (dead or self.log.broken) and not self._stopping.is_set():
                self._stuck = True
                self.log.event("broken", threads=dead)
                self.stop()
        self.log.event("stopping", in_hand=len(self._in_hand.all()), grace_seconds=self._settings.grace_seconds)
        ended = self._end(started)
        self.log.metrics(in_hand=0, idle=0)
        self.log.event("stopped", given_back=ended.given_back, stuck=ended.stuck)
        return ended

    def _end(self, threads: Mapping[str, threading.Thread]) -> Ended:
        deadline = time.monotonic() + self._settings.grace_seconds

        def left(at_most: float = math.inf) -> float:
            return 0.0 if self._in_a_hurry else min(at_most, max(0.0, deadline - time.monotonic()))

        # In short pieces, so that a hurry is heard.
        while threads["poller"].is_alive() and left():
            threads["poller"].join(left(0.1))
        while left() and not self._in_hand.wait_until_empty(left(0.1)):
            pass
        unfinished = [job for job in self._in_hand.all() if self._in_hand.move(job, State.RUNNING, State.GIVEN_BACK)]
        given_back = self._visibility.give_back(unfinished)
        for job in unfinished:
            self._in_hand.drop(job)
        self._acknowledgement.end(left())
        threads["acknowledgement"].join(max(1.0, left()))
        self._finished.set()
        threads["heartbeat"].join()
        for _ in range(self._settings.threads):
            self._handed.put(None)
        return Ended(given_back, len(unfinished) + self._abandoned, self._stuck)

    # The poller

    def _poll(self) -> None:
        pause = PAUSE_AFTER_ERROR
        while not self._stopping.is_set():
            reserved = self._reserve()
            if not reserved:
                continue
            received: list[MessageTypeDef] = []
            try:
                received = self._receive(reserved)
                pause = PAUSE_AFTER_ERROR
            except (BotoCoreError, ClientError, OSError) as error:
                self.log.count(receive_errors=1)
                self.log.event("receive_error", error=name_of(error))
                self._stopping.wait(pause)
                pause = min(30.0, pause * 2)
            finally:
                self._become_idle(reserved - len(received))
            self._take_on(received)

    def _reserve(self) -> int:
        """Wait a moment for idle threads; take as many of them as one receive can serve."""
        # From a FIFO queue one at a time: two of the same group would run side by side.
        most = 1 if self._queue_url.endswith(".fifo") else RECEIVE_MAXIMUM
        with self._idle_changed:
            self._idle_changed.wait_for(lambda: self._idle > 0, timeout=0.2)
            reserved = min(self._idle, most)
            self._idle -= reserved
            return reserved

    def _receive(self, how_many: int) -> list[MessageTypeDef]:
        fifo: dict[str, Any] = {}
        if self._queue_url.endswith(".fifo"):
            # The same until it is answered: else what a lost answer held is hidden, and its group waits for that to end.
            self._attempt_id = self._attempt_id or str(uuid.uuid4())
            fifo["ReceiveRequestAttemptId"] = self._attempt_id
        answer = self._client.receive_message(
            **fifo,
            QueueUrl=self._queue_url,
            MaxNumberOfMessages=how_many,
            WaitTimeSeconds=self._settings.wait_seconds,
            VisibilityTimeout=self._settings.hidden_seconds,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        self._attempt_id = ""
        return answer.get("Messages", [])

    def _take_on(self, received: list[MessageTypeDef]) -> None:
        now = self._now()
        jobs = [
            Job(message, now + self._settings.hidden_seconds, now + self._settings.limit_seconds, now)
            for message in received
        ]
        if not jobs:
            return
        self.log.count(received=len(jobs), redelivered=sum(job.receive_count > 1 for job in jobs))
        if self._stopping.is_set():  # the poll was under way at the stop
            self._visibility.give_back(jobs)
            return
        for job in jobs:
            self._in_hand.add(job)
            self._handed.put(job)

    def _become_idle(self, threads: int = 1) -> None:
        if threads:
            with self._idle_changed:
                self._idle += threads
                self._idle_changed.notify()

    # The pool

    def _add_thread(self) -> None:
        threading.Thread(target=self._work, name="worker", daemon=True).start()
        self._become_idle()

    def _work(self) -> None:
        try:
            while (job := self._handed.get()) is not None:
                error = self._handle(job)
                if not self._settle(job, error):
                    return  # given up in the meantime; another thread is in its place
                self._become_idle()
        except BaseException:  # of ours, not of the handler: nobody would take its place
            self._stuck = True
            self.stop()
            self.log.event("broken", threads=["worker"])
            raise

    def _handle(self, job: Job) -> str | None:
        """Call the handler; the name of what went wrong, or None."""
        try:
            message: Any = job.message  # as SQS answered
            record = event([message], queue_arn=self._queue_arn, region=self._region)
            answer = self._handler(record, Context(job, self._now, str(uuid.uuid4())))
            verdict = judge(json.dumps(answer), [job.sqs_message_id], reports_failures=True)
        except BaseException as error:
            failure: str | None = name_of(error)
        else:
            failure = verdict.reason if isinstance(verdict, Invalid) else _HANDLER_FAILED if verdict.failed else None
        if os.getpid() != self._process:
            os._exit(1 if failure else 0)  # the handler has forked, and this is its child: it settles nothing
        return failure

    def _settle(self, job: Job, error: str | None) -> bool:
        """Have it deleted, or leave it to its visibility. False if this thread was given up."""
        seconds = round(self._now() - job.started, 3)
        if not self._in_hand.move(job, State.RUNNING, State.ACKNOWLEDGING):
            with self._counting:
                self._abandoned -= job.state is State.OVER_LIMIT
            self.log.event("finished_too_late", sqs_message_id=job.sqs_message_id, seconds=seconds)
            return False
        details = {"sqs_message_id": job.sqs_message_id, "receive_count": job.receive_count, "seconds": seconds}
        if error is None:
            self.log.count(finished=1)
            self.log.event("finished", **details)
            self._acknowledgement.add(job)
        else:
            self._in_hand.drop(job)
            self.log.count(failed=1)
            self.log.event("failed", reason=error, **details)
        return True

    # The heartbeat

    def _heartbeat(self) -> None:
        # Four beats within the buffer: one that fails can be repeated in time.
        every = min(1.0, self._settings.buffer_seconds / 4)
        next_metrics = self._now() + METRICS_SECONDS
        while not self._finished.wait(every):
            self._visibility.beat()
            self._give_up_what_is_over_its_limit()
            if self._now() >= next_metrics:
                self.log.metrics(**self._gauges())
                next_metrics += METRICS_SECONDS

    def _gauges(self) -> dict[str, float]:
        # Not `_idle`: those that the poller asks messages for are idle, too.
        jobs = self._in_hand.all()
        running = sum(job.state is State.RUNNING for job in jobs)
        return {"in_hand": len(jobs), "idle": self._settings.threads - running}

    def _give_up_what_is_over_its_limit(self) -> None:
        now = self._now()
        with self._counting:  # so that a thread that comes back at this moment is counted before it is taken off
            over = [
                job
                for job in self._in_hand.all()
                if job.deadline <= now and self._in_hand.move(job, State.RUNNING, State.OVER_LIMIT)
            ]
            self._abandoned += len(over)
            if over and self._abandoned >= self._settings.threads:
                self._stuck = True  # and stays so, whoever comes back while it ends
        if not over:
            return
        self._visibility.give_back(over)
        for job in over:
            self.log.count(over_limit=1)
            self.log.event("over_limit", sqs_message_id=job.sqs_message_id, receive_count=job.receive_count)
            self._in_hand.drop(job)
            if not self._stuck:
                self._add_thread()
        if self._stuck:
            self.stop()
