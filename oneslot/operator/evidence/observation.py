"""Watch a stack at work: its queues, its ledger, the rate at which the queue drains, and the time left."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from botocore.exceptions import ClientError

from oneslot.laws.traces import COMPLETE, IN_PROGRESS
from oneslot.operator.evidence.deliveries import FAILED, Failure, failure_of, valid_deliveries
from oneslot.operator.evidence.malformed import RELEASED, Malformed, Tally, tally
from oneslot.operator.evidence.tables import Missing, unless_missing
from oneslot.operator.evidence.unsent import Undelivered, find_undelivered
from oneslot.operator.target import Target
from oneslot.runtime.sqs.queue import QueueDepth, queue_depth
from oneslot.wording import numbered

# A count reads the whole ledger, so it may take this share of the time at most, and less while the queue stays empty. It does
# not stop then, because messages may be consumed between two looks.
SHARE_OF_TIME = 0.1
SHARE_OF_TIME_WHEN_IDLE = 0.01
# SQS's numbers are approximate, so the queue counts as drained after this many empty looks in a row.
LOOKS_WHEN_EMPTY = 3
# The rate is an average over this many seconds.
RATE_SECONDS = 10.0
# A message whose delivery failed within this time, and not for the first time, is failing.
FAILING_MS = 900_000


@dataclass(frozen=True)
class Snapshot:
    """One look at a stack.

    Attributes:
        ledger: its number of rows by state, None for each if it is missing. `complete`: with an answer. `in_progress`: with a
            lease. `released`: with a released lease, whose messages wait or were quarantined. `unknown`: with no valid status.
        counted_seconds_ago: the age of these counts.
        malformed: malformed attributes of the ledger. missing: the ledger, if it is missing.
        rate: messages a second by which the queue shrinks; None if it does not, or after one look.
        seconds_left: time until no message waits, at that rate.
        failing: the last failed delivery of each message that failed twice or more, the last time in these 15 minutes.
        undelivered: the messages that follow commits and wait for their targets.
    """

    queue: QueueDepth
    dead_letters: int
    ledger: Mapping[str, int | None]
    rate: float | None = None
    seconds_left: float | None = None
    drained: bool = False
    counted_seconds_ago: float = 0.0
    malformed: Sequence[Malformed] = ()
    missing: Sequence[Missing] = ()
    failing: Sequence[Failure] = ()
    undelivered: Undelivered | None = None


class Observer:
    """Takes snapshots of one stack, and remembers enough for a rate."""

    def __init__(self, target: Target, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._clock = clock
        self._ledger: Tally | Missing = Tally()
        self._failing: Sequence[Failure] = ()
        self._undelivered: Undelivered | None = None
        self._counted_at, self._count_took = -math.inf, 0.0
        self._history: list[tuple[float, int]] = []  # (time, messages in the queue)
        self._empty_looks = 0

    def look(self) -> Snapshot:
        """Take a snapshot."""
        outputs = self._target.outputs
        queue = queue_depth(self._target.sqs, outputs.queue_url)
        dead = queue_depth(self._target.sqs, outputs.dead_letter_queue_url).total
        # The count is fresh at each of the first empty looks, because the last of them may be the result.
        self._count_ledger(now=queue.empty and self._empty_looks < LOOKS_WHEN_EMPTY)
        self._empty_looks = self._empty_looks + 1 if queue.empty else 0
        rate = self._rate(queue)
        return Snapshot(
            queue,
            dead,
            self._states(),
            rate=rate,
            seconds_left=queue.waiting / rate if rate and queue.waiting else None,
            drained=self._empty_looks >= LOOKS_WHEN_EMPTY,
            counted_seconds_ago=self._clock() - self._counted_at,
            failing=self._failing,
            undelivered=self._undelivered,
            malformed=() if isinstance(self._ledger, Missing) else self._ledger.malformed,
            missing=[self._ledger] if isinstance(self._ledger, Missing) else (),
        )

    def _states(self) -> dict[str, int | None]:
        states = {"complete": COMPLETE, "in_progress": IN_PROGRESS, "released": RELEASED}
        if isinstance(self._ledger, Missing):
            return dict.fromkeys((*states, "unknown"))
        counted = self._ledger.statuses
        known = {name: counted[status] for name, status in states.items()}
        return {**known, "unknown": counted.total() - sum(known.values())}

    def _count_ledger(self, *, now: bool) -> None:
        started = self._clock()
        share = SHARE_OF_TIME_WHEN_IDLE if self._empty_looks >= LOOKS_WHEN_EMPTY else SHARE_OF_TIME
        if not now and started < self._counted_at + self._count_took / share:
            return
        name = self._target.outputs.ledger_table_name
        self._ledger = unless_missing(lambda: tally(self._target), "ledger", name)
        self._failing = read_failing(self._target)
        if isinstance(self._ledger, Tally):
            self._undelivered = find_undelivered(self._target, self._ledger.unsent)
        self._counted_at = self._clock()
        self._count_took = self._counted_at - started

    def _rate(self, queue: QueueDepth) -> float | None:
        """Return the rate at which the queue shrank over the last ten seconds; None if it did not."""
        now = self._clock()
        self._history.append((now, queue.total))
        self._history = [(at, total) for at, total in self._history if now - at <= RATE_SECONDS]
        since, total = self._history[0]
        if now - since <= 0 or total <= queue.total:
            return None
        return (total - queue.total) / (now - since)


def read_failing(target: Target) -> list[Failure]:
    """Return the messages that fail again and again; none where the log may not be read, which is only for this."""
    since_ms = target.surroundings.now_ms() - FAILING_MS
    with suppress(ClientError):
        lines = valid_deliveries(target, [], since_ms=since_ms, again=True)
        last = {line["sqs_message_id"]: line for line in lines if line["finished"] >= since_ms}
        return [failure_of(line) for line in last.values() if line["outcome"] == FAILED]
    return []


def format_failing(failing: Sequence[Failure], command: Callable[[str], str]) -> list[str]:
    """Return a sentence about messages that fail again and again; none without one. `command` is `Target.command`."""
    if not failing:
        return []
    kinds = Counter(map(str, failing)).most_common()
    worst = {str(each): each for each in sorted(failing, key=lambda each: each.receives)}
    said = "; ".join(
        f"{count} with {kind}, such as {worst[kind].message} at delivery {worst[kind].receives}"
        for kind, count in kinds
    )
    return [
        f"{numbered(len(failing), 'message')} failed again and again in the last {FAILING_MS // 60_000} minutes: "
        f"{said}. See `{command(f'inspect {worst[kinds[0][0]].message}')}`."
    ]


def until_drained(
    observer: Observer,
    *,
    interval: float,
    timeout: float | None,
    for_ever: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Snapshot]:
    """Yield a snapshot every `interval` seconds until the queue is drained or `timeout` seconds are over.

    With `for_ever` it goes on after the queue is drained.
    """
    started = clock()
    while True:
        snapshot = observer.look()
        yield snapshot
        if (snapshot.drained and not for_ever) or (timeout is not None and clock() - started >= timeout):
            return
        sleep(interval)
