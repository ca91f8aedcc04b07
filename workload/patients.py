"""Made-up patients: NHS numbers of the range that is kept for tests, 999 000 0000 to 999 999 9999."""

from __future__ import annotations

import random

from appointments.nhs_number import check_digit

TEST_RANGE = "999"


def synthetic_nhs_number(rng: random.Random) -> str:
    """Return a valid number that no patient has."""
    while True:
        nine = f"{TEST_RANGE}{rng.randrange(1_000_000):06d}"
        digit = check_digit(nine)
        if digit is not None:
            return f"{nine}{digit}"


def wrong_nhs_number(rng: random.Random) -> str:
    """Return ten digits whose check digit is wrong."""
    number = synthetic_nhs_number(rng)
    return number[:9] + str((int(number[9]) + rng.randrange(1, 10)) % 10)
