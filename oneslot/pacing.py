"""When each message is to leave: as fast as possible, at a steady rate, or like a Monday morning."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# NHS telephone demand on a Monday from 08:00 to 10:00, if it decays from its peak with a 20-minute constant: two hours
# are six constants, so the first moment brings six times the mean rate.
CONSTANTS_IN_A_MORNING = 6.0

STEADY = "steady"
MONDAY = "monday-8am"
SHAPES = (STEADY, MONDAY)

Pace = Callable[[int], float]
"""The number of a message, counted from 0 → the second, from the start, at which it is due."""


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
