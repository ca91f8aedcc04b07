"""A worker: consumes a queue in one long-running process, with the same handler that Lambda would call.

Pollers receive for a pool of threads. A heartbeat keeps every message in hand hidden, from its receive until its
deletion is confirmed. None of this makes effects exactly once: the ledger does, here as on Lambda.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from oneslot.runtime.failures import name_of
from oneslot.runtime.surroundings import Surroundings, Thread
from oneslot.worker.acknowledgement import DELETERS, Acknowledgement
from oneslot.worker.job import InHand, Job, Shift, State
from oneslot.worker.log import WorkerLog
from oneslot.worker.pool import FIFO_POLLERS, POLLERS, Handler, JobPoller, Pool
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.visibility import Visibility

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

METRICS_SECONDS = 60.0
RELEASE_SECONDS = 2.0
"""The longest wait for the release of claims. The next worker waits for the lease of a claim that was not released."""
ANSWER_SECONDS = 1.0
"""How much longer than the long poll the answers to the polls under way may take. Later ones are abandoned."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run.

    Attributes:
        released: messages that were unfinished and can be received again at once.
        at_work: handlers that had not returned. Threads that they have started may outlive `run`.
        stuck: the worker stopped itself, because too many threads were abandoned or one died. Restart the process.
    """

    released: int
    at_work: int
    stuck: bool


class Worker:
    """One worker for one queue. `run` returns after `stop`, which any thread or signal handler may call."""

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
        surroundings: Surroundings | None = None,
    ) -> None:
        """heartbeat_client: for the heartbeat alone, made with `visibility.configuration`. One thread extends all
        messages, so this client must end an unanswered call well within the buffer.
        """
        settings.require_queue(queue_url)
        surroundings = surroundings or Surroundings()
        self.log = log or WorkerLog(surroundings=surroundings)
        self._settings = settings
        self._surroundings = surroundings
        self._stopping = surroundings.threads.event()
        self._finished = surroundings.threads.event()
        self._hurrying = False
        self._thread_died = False
        self._in_hand = InHand(surroundings)
        shift = Shift(
            client=client,
            queue_url=queue_url,
            settings=settings,
            in_hand=self._in_hand,
            log=self.log,
            surroundings=surroundings,
            stopping=self._stopping,
        )
        self._queue_arn = queue_arn
        self._visibility = Visibility(shift, heartbeat_client)
        self._acknowledgement = Acknowledgement(shift)
        self._pool = Pool(shift, handler, queue_arn, self._visibility, self._acknowledgement)
        pollers = min(settings.threads, FIFO_POLLERS if shift.fifo else POLLERS)
        self._pollers = [JobPoller(shift, self._pool, self._visibility) for _ in range(pollers)]

    def stop(self) -> None:
        """Receive nothing more; `run` returns within the grace time."""
        self._stopping.set()

    def hurry(self) -> None:
        """Cut the grace time short after `stop`: release what is in hand now."""
        self._hurrying = True  # not an event: its lock may be held by the thread that a signal handler interrupts

    def run(self) -> Ended:
        """Work until `stop`, or until the pool is stuck."""
        self.log.event("started", threads=self._settings.threads, queue=self._queue_arn)
        self._pool.start()
        start = self._surroundings.threads.start
        pollers = [start(poller.run, "poller") for poller in self._pollers]
        deleters = [start(self._acknowledgement.run, "acknowledgement") for _ in range(DELETERS)]
        # A store that answers slowly must not delay the heartbeat of the messages.
        beating = [start(self._heartbeat, "heartbeat"), start(self._renew_claims, "renewal")]
        threads = {"poller": pollers, "acknowledgement": deleters, "heartbeat": beating}
        # Sleep rather than wait on the event: the lock of an event may be held by the thread that a signal interrupts.
        while not self._stopping.is_set():
            self._surroundings.sleep(_LOOK_SECONDS)
            dead = [name for name, alike in threads.items() if not all(thread.is_alive() for thread in alike)]
            if dead and not self._stopping.is_set():
                self._thread_died = True
                self.log.event("broken", threads=dead)
                self.stop()
        self.log.event("stopping", in_hand=len(self._in_hand.all()), grace_seconds=self._settings.grace_seconds)
        ended = self._end(pollers, deleters, beating)
        self.log.metrics(in_hand=0, idle=0)
        self.log.event("stopped", released=ended.released, stuck=ended.stuck)
        return ended

    def _end(self, pollers: Sequence[Thread], deleters: Sequence[Thread], beating: Sequence[Thread]) -> Ended:
        deadline = self._surroundings.steady() + self._settings.grace_seconds

        def left(at_most: float = math.inf) -> float:
            return 0.0 if self._hurrying else min(at_most, max(0.0, deadline - self._surroundings.steady()))

        # In short pieces, so that `hurry` takes effect soon.
        while left() and not self._in_hand.wait_until_empty(left(_LOOK_SECONDS)):
            pass
        self._in_hand.close()
        unfinished = [job for job in self._in_hand.all() if self._in_hand.move(job, State.RUNNING, State.RELEASED)]
        self._release_claims(unfinished)
        released = self._visibility.release(unfinished)
        for job in unfinished:
            self._in_hand.drop(job)
        # A poll under way takes what was just released, and releases it again. SQS may also give it a message until its end:
        # without its answer that message waits for its visibility timeout.
        begun, longest = (
            self._surroundings.steady(),
            max(ANSWER_SECONDS, left(self._settings.wait_seconds + ANSWER_SECONDS)),
        )
        while any(poller.is_alive() for poller in pollers):
            if self._surroundings.steady() - begun >= (ANSWER_SECONDS if self._hurrying else longest):
                break
            self._join(pollers, _LOOK_SECONDS)
        self._acknowledgement.end(left())
        self._join(deleters, max(1.0, left()))
        self._finished.set()
        self._join(beating, RELEASE_SECONDS)
        self._pool.end()
        return Ended(released, len(unfinished) + self._pool.abandoned, self._pool.stuck or self._thread_died)

    def _release_claims(self, jobs: Sequence[Job]) -> None:
        """Let the next worker begin these at once: their handlers still run, and hold claims."""

        def release(job: Job) -> None:
            for error in job.claims.release():
                self.log.event("claim_not_released", sqs_message_id=job.sqs_message_id, error=name_of(error))

        threads = [self._surroundings.threads.start(partial(release, job), "release") for job in jobs]
        self._join(threads, RELEASE_SECONDS)

    def _join(self, threads: Sequence[Thread], seconds: float) -> None:
        """Wait at most this long for the end of all of them."""
        deadline = self._surroundings.steady() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - self._surroundings.steady()))

    def _heartbeat(self) -> None:
        next_metrics = self._surroundings.steady() + METRICS_SECONDS
        while not self._finished.wait(self._settings.beat_seconds):
            self._visibility.beat()
            self._pool.abandon_overdue()
            if self._surroundings.steady() >= next_metrics:
                # Not the pool's count: threads that the poller has reserved are idle, too.
                jobs = self._in_hand.all()
                running = sum(job.state is State.RUNNING for job in jobs)
                self.log.metrics(in_hand=len(jobs), idle=self._settings.threads - running)
                next_metrics += METRICS_SECONDS

    def _renew_claims(self) -> None:
        while not self._finished.wait(self._settings.beat_seconds):
            for job in self._in_hand.all():
                if job.state is State.RUNNING:
                    job.claims.renew()
