"""When each message is to leave: as fast as possible, at a steady rate, or like a Monday morning."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# NHS telephone demand on a Monday from 08:00 to 10:00, if it decays from its peak with a 20-minute constant: two hours
# are six constants, so the first moment brings six times the mean rate.
CONSTANTS_IN_A_MORNING = 6.0

# What a stall cost is made up for as far as this, so that the rate is kept; more would be a flood behind the dam.
MADE_UP_SECONDS = 1.0

STEADY = "steady"
MONDAY = "monday-8am"
SHAPES = (STEADY, MONDAY)


@dataclass(frozen=True)
class Pacing:
    """A mean `rate` in messages a second (None: no limit) and the shape of arrival over `total` messages."""

    rate: float | None
    total: int
    shape: str = STEADY

    def due(self, number: int) -> float:
        """Return the second at which the message of that number is due."""
        if self.rate is None:
            return 0.0
        if self.shape == STEADY:
            return number / self.rate
        duration = self.total / self.rate
        reached = min(number / self.total, 1.0)
        decayed = -math.log1p(-reached * -math.expm1(-CONSTANTS_IN_A_MORNING))
        return duration * decayed / CONSTANTS_IN_A_MORNING


@dataclass
class Timetable:
    """Waits for the seconds at which something is due, counted from when it is made.

    After a stall of more than a second (a queue that did not answer, a machine that was asleep) all that follows is due
    later by the rest of it.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def wait_until(self, due: float) -> None:
        """Return at the second `due`, or at once if it is over."""
        late = self.clock() - self.started - due
        if late < 0:
            self.sleep(-late)
        self.started += max(0.0, late - MADE_UP_SECONDS)


@dataclass
class Pacer:
    """Holds a rate in messages a second, from when it is made."""

    rate: float
    timetable: Timetable = field(default_factory=Timetable)
    done: int = 0

    def wait(self, steps: int) -> None:
        """Wait until so many more messages are due."""
        self.timetable.wait_until(self.done / self.rate)
        self.done += steps
