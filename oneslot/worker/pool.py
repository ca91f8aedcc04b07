"""The pool: a fixed number of threads, each with one message at a time, and a hard limit for each message.

Its pollers receive no more messages than threads are idle, so none waits in memory while its visibility runs out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.attempt import current
from oneslot.runtime.failures import name_of, own_text, place_of
from oneslot.runtime.handlers import Locked
from oneslot.runtime.sqs.answer import Invalid, encoded, judge
from oneslot.runtime.sqs.lambda_event import event
from oneslot.runtime.sqs.queue import RETRIES_SPEND_RECEIVES
from oneslot.worker.acknowledgement import Acknowledgement
from oneslot.worker.job import Job, JobContext, Shift, State
from oneslot.worker.visibility import Visibility

Handler = Callable[[Mapping[str, Any], Any], Any]
"""A Lambda handler for SQS: `(event, context)` → a partial batch response, or None. The event has one record."""

RETRY_AFTER = "retry_after_ms"
"""An exception of a handler that has this attribute, an int, asks for the message again after this many milliseconds."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed call: an error's name or a reason, how the message is to be hidden, and what the log may say of the error."""

    reason: str
    hide: Callable[[Job], None]
    details: Mapping[str, str] = field(default_factory=dict)


class Pool:
    """Runs the handler in `settings.threads` threads. Python cannot end a thread that hangs, so the pool abandons it."""

    def __init__(
        self, shift: Shift, handler: Handler, queue_arn: str, visibility: Visibility, acknowledgement: Acknowledgement
    ) -> None:
        self._shift = shift
        self._handler = handler
        self._queue_arn = queue_arn
        self._visibility = visibility
        self._acknowledgement = acknowledgement
        self._in_hand = shift.in_hand
        self._log = shift.log
        self._surroundings = shift.surroundings
        threads = shift.surroundings.threads
        # Never longer than the number of idle threads, because each poller asks for no more than it has reserved.
        self._handed = threads.queue()
        self._idle = 0
        self._idle_changed = threads.condition()
        self._counting = threads.lock()
        self.abandoned = 0
        """Threads that ran over the limit and have not returned."""
        self.stuck = False
        """Whether every thread was abandoned at once, or one has died: the process must be restarted."""

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self._shift.settings.threads):
            self._add_thread()

    def end(self) -> None:
        """Let every thread end after the message that it has."""
        for _ in range(self._shift.settings.threads):
            self._handed.put(None)

    def reserve(self, most: int, seconds: float) -> int:
        """Wait at most this long for an idle thread; reserve up to `most` of them and return how many."""
        with self._idle_changed:
            self._idle_changed.wait_for(lambda: self._idle > 0, timeout=seconds)
            reserved = min(self._idle, most)
            self._idle -= reserved
            return reserved

    def become_idle(self, threads: int = 1) -> None:
        """Count this many threads as idle again."""
        if threads:
            with self._idle_changed:
                self._idle += threads
                self._idle_changed.notify()

    def hand(self, job: Job) -> bool:
        """Give a job to a reserved thread; False if the worker has stopped meanwhile."""
        if not self._in_hand.add(job):
            return False
        self._handed.put(job)
        return True

    def abandon_overdue(self) -> None:
        """Release the messages that are over their limit, and replace their threads; stop if none is left."""
        now = self._surroundings.steady()
        with self._counting:  # so that a thread that returns at this moment is counted before it is subtracted
            overdue = [
                job
                for job in self._in_hand.all()
                if job.deadline <= now and self._in_hand.move(job, State.RUNNING, State.OVER_LIMIT)
            ]
            self.abandoned += len(overdue)
            if overdue and self.abandoned >= self._shift.settings.threads:
                self.stuck = True  # for good: threads that return while the worker ends do not undo it
        if not overdue:
            return
        self._visibility.release(overdue)
        for job in overdue:
            self._log.count(over_limit=1)
            self._log.event("over_limit", sqs_message_id=job.sqs_message_id, receive_count=job.receive_count)
            self._in_hand.drop(job)
            if not self.stuck:
                self._add_thread()
        if self.stuck:
            self._shift.stopping.set()

    def _add_thread(self) -> None:
        self._surroundings.threads.start(self._work, "worker")
        self.become_idle()

    def _work(self) -> None:
        try:
            while (job := self._handed.get()) is not None:
                if not self._settle(job, self._call(job)):
                    return  # abandoned in the meantime; another thread has taken its place
                self.become_idle()
        except BaseException:  # an error of ours, not of the handler: no thread would take this one's place
            self.stuck = True
            self._shift.stopping.set()
            self._log.event("broken", threads=["worker"])
            raise

    def _call(self, job: Job) -> _Failure | None:
        """Call the handler; return its failure, or None."""
        try:
            message: Any = job.message  # as SQS answered
            region = self._shift.client.meta.region_name
            records = event([message], queue_arn=self._queue_arn, region=region)
            current.set(job.claims)
            answer = encoded(self._handler(records, JobContext(job, self._surroundings, self._surroundings.new_id())))
            verdict = judge(answer, [job.sqs_message_id], reports_failures=self._shift.settings.reports_failures)
        except BaseException as error:  # SystemExit too: a handler must not end its thread
            known = {"where": place_of(error), "detail": own_text(error)}
            return _Failure(
                name_of(error), self._hiding(error), {name: text for name, text in known.items() if text is not None}
            )
        if isinstance(verdict, Invalid):
            return _Failure(verdict.reason, self._visibility.delay)
        # A handler that reports a failure may have hidden the message itself, as `Consumer` does.
        return _Failure("the handler reported the message as failed", lambda _: None) if verdict.failed else None

    def _hiding(self, error: BaseException) -> Callable[[Job], None]:
        milliseconds = getattr(error, RETRY_AFTER, None)
        if milliseconds is not None and (type(milliseconds) is not int or milliseconds < 0):
            self._log.event(
                "retry_after_refused", error=name_of(error), reason=f"{RETRY_AFTER} must be an int of 0 or more"
            )
            milliseconds = None
        if milliseconds is not None and isinstance(error, Locked):
            return partial(self._visibility.defer, lease_ms=milliseconds)
        if milliseconds is not None and self._shift.fifo:
            self._log.event("retry_after_refused", error=name_of(error), reason=RETRIES_SPEND_RECEIVES)
            return lambda _: None
        return partial(self._visibility.delay, milliseconds=milliseconds)

    def _settle(self, job: Job, failure: _Failure | None) -> bool:
        """Pass a finished job on for deletion, defer a failed one or leave it to its visibility; False if abandoned."""
        seconds = round(self._surroundings.steady() - job.started, 3)
        if not self._in_hand.move(job, State.RUNNING, State.FAILED if failure else State.ACKNOWLEDGING):
            with self._counting:
                self.abandoned -= job.state is State.OVER_LIMIT
            self._log.event("finished_too_late", sqs_message_id=job.sqs_message_id, seconds=seconds)
            return False
        details = {"sqs_message_id": job.sqs_message_id, "receive_count": job.receive_count, "seconds": seconds}
        if failure is None:
            self._log.count(finished=1)
            self._log.event("finished", **details)
            self._acknowledgement.add(job)
        else:
            self._log.count(failed=1)
            self._log.event("failed", reason=failure.reason, **failure.details, **details)
            failure.hide(job)
            self._in_hand.drop(job)
        return True


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
