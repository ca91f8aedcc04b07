"""What a stack is doing now: its queues, its ledger, how fast, and how long that will take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from appointments.statuses import COMPLETE, IN_PROGRESS
from oneslot.evidence.missing import Missing, unless_missing
from oneslot.evidence.unusable import RELEASED, Tally, Unusable, tally
from oneslot.runtime.sqs.queue_depth import QueueDepth, queue_depth
from oneslot.target import Target

# Counting reads the whole ledger: it may take this share of the time, so that watching a large one costs little. Where the
# queue stays empty, less; yet what comes and is consumed between two looks is counted, too.
SHARE_OF_TIME = 0.1
SHARE_OF_TIME_WHEN_IDLE = 0.01
# An empty queue is believed when it was seen empty so often in a row: SQS's numbers are approximate.
LOOKS_WHEN_EMPTY = 3
# The rate is that of the last so many seconds.
RATE_SECONDS = 10.0


@dataclass(frozen=True)
class Snapshot:
    """One look.

    Attributes:
        complete: rows of the ledger with an answer; like the next three None if the ledger is missing.
        in_progress: rows under a lease. released: rows given back, of messages that wait or were quarantined. unknown: rows
            with another status, or none that is usable.
        counted_seconds_ago: the age of these four.
        unusable: what rows of the ledger lack. missing: the ledger, if it is.
        rate: how many messages fewer each second the queue holds; None: it grows, or nobody knows yet.
        seconds_left: until nothing waits any more, at that rate.
    """

    queue: QueueDepth
    dead_letters: int
    complete: int | None = None
    in_progress: int | None = None
    released: int | None = None
    rate: float | None = None
    seconds_left: float | None = None
    drained: bool = False
    unknown: int | None = None
    counted_seconds_ago: float = 0.0
    unusable: Sequence[Unusable] = ()
    missing: Sequence[Missing] = ()

    def document(self) -> dict[str, Any]:
        """The snapshot as JSON."""
        return asdict(self)


class Observer:
    """Looks at a stack again and again."""

    def __init__(self, target: Target, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._clock = clock
        self._ledger: Tally | Missing = Tally()
        self._counted_at, self._count_took = -math.inf, 0.0
        self._history: list[tuple[float, int]] = []  # (time, messages in the queue)
        self._empty_looks = 0

    def look(self) -> Snapshot:
        """Look once."""
        outputs = self._target.outputs
        queue = queue_depth(self._target.sqs, outputs.queue_url)
        dead = queue_depth(self._target.sqs, outputs.dead_letter_queue_url).total
        # Once more when the queue turns out empty, and then seldom for as long as it stays so.
        self._count_ledger(now=queue.empty and self._empty_looks < LOOKS_WHEN_EMPTY)
        self._empty_looks = self._empty_looks + 1 if queue.empty else 0
        rate = self._rate(queue)
        looked = Snapshot(
            queue,
            dead,
            rate=rate,
            seconds_left=queue.waiting / rate if rate and queue.waiting else None,
            drained=self._empty_looks >= LOOKS_WHEN_EMPTY,
            counted_seconds_ago=self._clock() - self._counted_at,
        )
        if isinstance(self._ledger, Missing):
            return replace(looked, missing=[self._ledger])
        counted = self._ledger.statuses
        return replace(
            looked,
            complete=counted[COMPLETE],
            in_progress=counted[IN_PROGRESS],
            released=counted[RELEASED],
            unknown=counted.total() - counted[COMPLETE] - counted[IN_PROGRESS] - counted[RELEASED],
            unusable=self._ledger.unusable,
        )

    def _count_ledger(self, *, now: bool) -> None:
        started = self._clock()
        share = SHARE_OF_TIME_WHEN_IDLE if self._empty_looks >= LOOKS_WHEN_EMPTY else SHARE_OF_TIME
        if not now and started < self._counted_at + self._count_took / share:
            return
        client, name = self._target.dynamodb, self._target.outputs.ledger_table_name
        self._ledger = unless_missing(lambda: tally(client, name, "ledger"), "ledger", name)
        self._counted_at = self._clock()
        self._count_took = self._counted_at - started

    def _rate(self, queue: QueueDepth) -> float | None:
        """How fast the queue gets shorter, by the last ten seconds. Nothing sensible while it grows: None."""
        now = self._clock()
        self._history.append((now, queue.total))
        self._history = [(at, total) for at, total in self._history if now - at <= RATE_SECONDS]
        since, total = self._history[0]
        if now - since <= 0 or total <= queue.total:
            return None
        return (total - queue.total) / (now - since)


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

    With `for_ever` a drained queue is no end.
    """
    started = clock()
    while True:
        snapshot = observer.look()
        yield snapshot
        if (snapshot.drained and not for_ever) or (timeout is not None and clock() - started >= timeout):
            return
        sleep(interval)
