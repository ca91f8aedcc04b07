"""The times at which messages are due: at once, at a steady rate, or as on a Monday morning."""

from __future__ import annotations

import math
from dataclasses import dataclass

from oneslot.runtime.surroundings import Surroundings

# NHS telephone demand on a Monday from 08:00 to 10:00, modelled as a decay from its peak with a constant of 20 minutes. Two
# hours are six constants, so it starts at six times the mean rate.
CONSTANTS_IN_A_MORNING = 6.0

# A longer stall is not made up for, because the messages would arrive as a flood.
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


class Timetable:
    """Waits for due times, in seconds since its construction.

    After a stall of more than a second, as of a queue that does not answer, all due times move by the rest of it.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._started = surroundings.steady()

    def wait_until(self, due: float) -> None:
        """Sleep until the second `due`; return at once if it is past."""
        late = self._surroundings.steady() - self._started - due
        if late < 0:
            self._surroundings.sleep(-late)
        self._started += max(0.0, late - MADE_UP_SECONDS)


class Pacer:
    """Holds a rate in messages a second since its construction."""

    def __init__(self, rate: float, surroundings: Surroundings | None = None) -> None:
        self._rate = rate
        self._timetable = Timetable(surroundings or Surroundings())
        self._done = 0

    def wait(self, steps: int) -> None:
        """Wait until `steps` more messages are due."""
        self._timetable.wait_until(self._done / self._rate)
        self._done += steps
