"""GP practices and their demand, made up to the size of England's, and numbers that no patient has."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from appointments.nhs_number import check_digit

# NHS England, Appointments in General Practice, April 2025 to March 2026, per practice: median and largest total of the
# year, and the standard deviation of the natural logarithm (6,067 practices).
MEDIAN_A_YEAR = 51_380
LARGEST_A_YEAR = 648_456
LOGARITHMIC_DEVIATION = 0.653

# The same year, England, in the order of DELIVERY_CHANNELS: 62.9 % face to face and 1.2 % home visits, 24.4 % by telephone,
# 9.1 % by video or online (2.4 % not recorded).
CHANNEL_WEIGHTS = (0.641, 0.244, 0.091)

# The NHS reserves 999 000 0000 to 999 999 9999 for tests.
TEST_RANGE = "999"


@dataclass(frozen=True, slots=True)
class Demand:
    """One practice's year, in appointments. `practice` is its ODS code."""

    practice: str
    appointments: int


def synthetic_practices(count: int) -> list[str]:
    """Return the codes of synthetic practices, Z00001, Z00002, ...: valid ones that no real practice has."""
    return [f"Z{number:05d}" for number in range(1, count + 1)]


def synthetic_demand(practices: Iterable[str], seed: int) -> Iterator[Demand]:
    """Yield a synthetic year for each practice: log-normal around the national median, at most the largest on record."""
    for practice in practices:
        rng = random.Random(f"demand:{seed}:{practice}")
        drawn = rng.lognormvariate(math.log(MEDIAN_A_YEAR), LOGARITHMIC_DEVIATION)
        yield Demand(practice, min(LARGEST_A_YEAR, max(1, round(drawn))))


def synthetic_nhs_number(rng: random.Random) -> str:
    """Return a valid NHS number of the test range, which no patient has."""
    while True:
        nine = f"{TEST_RANGE}{rng.randrange(1_000_000):06d}"
        digit = check_digit(nine)
        if digit is not None:
            return f"{nine}{digit}"


def wrong_nhs_number(rng: random.Random) -> str:
    """Return ten digits whose check digit is wrong."""
    number = synthetic_nhs_number(rng)
    return number[:9] + str((int(number[9]) + rng.randrange(1, 10)) % 10)
