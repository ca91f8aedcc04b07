"""A steady rate of messages."""

from __future__ import annotations

from oneslot.runtime.surroundings import Surroundings

# A longer stall is not made up for, because the messages would arrive as a flood.
MADE_UP_SECONDS = 1.0


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

    def __init__(self, rate: float, surroundings: Surroundings) -> None:
        self._rate = rate
        self._timetable = Timetable(surroundings)
        self._done = 0

    def wait(self, steps: int) -> None:
        """Wait until `steps` more messages are due."""
        self._timetable.wait_until(self._done / self._rate)
        self._done += steps
