"""NHS numbers: ten digits, the last a Modulus 11 check digit (NHS Data Dictionary, "NHS NUMBER")."""

from __future__ import annotations

import re

_TEN_DIGITS = re.compile(r"[0-9]{10}")
WRITTEN = re.compile(r"(?<![0-9A-Fa-f])([0-9]{3})[ ._:-]?([0-9]{3})[ ._:-]?([0-9]{4})(?![0-9A-Fa-f])")
"""Ten digits, plain or grouped 3-3-4 as people write them. Beside hexadecimal digits they are part of a longer number."""


def check_digit(nine_digits: str) -> int | None:
    """The tenth digit for the first nine; None where there is no valid one (the remainder asks for a "10")."""
    total = sum(int(digit) * weight for digit, weight in zip(nine_digits, range(10, 1, -1), strict=True))
    digit = (11 - total % 11) % 11
    return None if digit == 10 else digit  # noqa: PLR2004 - the Data Dictionary's own number


def is_valid(text: str) -> bool:
    """Whether `text` is ten digits, no spaces, with the right check digit."""
    return bool(_TEN_DIGITS.fullmatch(text)) and check_digit(text[:9]) == int(text[9])


def contains_one(text: str) -> bool:
    """Whether a valid NHS number stands in `text`, plain or grouped 3-3-4, and in no longer decimal or hexadecimal number."""
    return any(is_valid("".join(groups)) for groups in WRITTEN.findall(text))
