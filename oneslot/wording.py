"""Counts, times and values as the command line writes them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

_NOT_ASCII = re.compile("[^ -~]")


def counted(count: int, one: str, several: str) -> str:
    """Return a count and the word for it: `1 is`, `2,000 are`."""
    return f"{count:,} {one if count == 1 else several}"


def numbered(count: int, noun: str) -> str:
    """Return a count and its noun, whose plural ends in s: `1 slot`, `2,000 slots`."""
    return counted(count, noun, f"{noun}s")


def count_text(count: int | None) -> str:
    """Return a count with separators, or `unknown` for None."""
    return "unknown" if count is None else f"{count:,}"


def verdict_text(verdict: str, twice: str) -> str:
    """Return a verdict in words; `twice` is the consumer's for a request that took effect twice."""
    return twice if verdict == "duplicate_effect" else verdict.replace("_", " ")


def time_text(epoch_ms: int) -> str:
    """Return epoch milliseconds as UTC, to the millisecond."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def with_time(epoch_ms: Any) -> str:
    """Return epoch milliseconds followed by the time in UTC; any other value as text."""
    try:
        return f"{epoch_ms} ({time_text(epoch_ms)})"
    except (TypeError, ValueError, OverflowError, OSError):
        return str(epoch_ms)


def visible(text: str) -> str:
    """Return text of one line with each character that a terminal would obey, or not show, as `\\xNN` or `\\uNNNN`.

    These are the characters that Python's `repr` escapes: controls, line ends, format characters such as the overrides of
    the reading direction, and unpaired surrogates. Other people's text may hold any of them.
    """
    return _NOT_ASCII.sub(lambda found: _shown(found[0]), text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"  # noqa: PLR2004 - the last of Latin-1


def visible_json(text: str) -> str:
    """Return a JSON document with the same characters as JSON's escapes: the same document to a program."""
    return "\n".join(
        _NOT_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], line)
        for line in text.split("\n")
    )


def as_json_value(value: Any) -> Any:
    """Return a value that JSON lacks as a sorted list (DynamoDB's sets) or as text."""
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)
