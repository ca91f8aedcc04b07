"""NHS numbers: ten digits, the last a Modulus 11 check digit (NHS Data Dictionary, "NHS NUMBER")."""

import re
from operator import mul

_TEN_DIGITS = re.compile(r"[0-9]{10}")
_GROUPED = "[0-9]{3}[^0-9A-Za-z]{0,3}[0-9]{3}[^0-9A-Za-z]{0,3}[0-9]{4}"
WRITTEN = re.compile(
    rf"(?<![0-9A-Fa-f]){_GROUPED}(?![0-9A-Fa-f])"
    rf"|(?<![0-9A-Za-z])[A-Fa-f]{{0,40}}{_GROUPED}(?=[A-Fa-f][A-Za-z]{{0,40}}[G-Zg-z])"  # before a word such as "cancel"
    rf"|(?<=[G-Zg-z])(?:[A-Za-z]{{0,40}}[A-Fa-f])?{_GROUPED}"  # after a word such as "case", or between two
    r"(?=[A-Fa-f]{0,40}(?![0-9A-Za-z])|[A-Fa-f][0-9A-Za-z]{0,40}[G-Zg-z])"
)
"""Ten digits, plain or in groups of 3, 3 and 4 with up to three signs between, with or without a word glued to them.

Ten digits inside a longer hexadecimal number do not count, even with a word before or after that number: one random id in
300 holds ten digits that would pass for an NHS number. Repetitions are bounded, so that matching stays fast.
"""


def check_digit(nine_digits: str) -> int | None:
    """Return the tenth digit for the first nine; None if the remainder asks for a "10", which is not valid."""
    total = sum(map(mul, map(int, nine_digits), range(10, 1, -1)))
    digit = (11 - total % 11) % 11
    return None if digit == 10 else digit  # noqa: PLR2004 - the Data Dictionary's own number


def is_valid(text: str) -> bool:
    """Return whether `text` is ten digits without spaces, with the right check digit."""
    return bool(_TEN_DIGITS.fullmatch(text)) and check_digit(text[:9]) == int(text[9])


def could_hold_one(text: str) -> bool:
    """Return whether any ten digits in a row of `text` are a valid NHS number, also inside a longer number."""
    return any(is_valid(text[at : at + 10]) for at in range(len(text) - 9))


def contains_one(text: str) -> bool:
    """Return whether `text` holds a valid NHS number outside longer decimal or hexadecimal numbers."""
    return any(is_valid(re.sub("[^0-9]", "", found)) for found in WRITTEN.findall(text))
