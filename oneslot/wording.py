"""Counts, times and values as the command line writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def counted(count: int, one: str, several: str) -> str:
    """Return a count and the word for it: `1 is`, `2,000 are`."""
    return f"{count:,} {one if count == 1 else several}"


def numbered(count: int, noun: str) -> str:
    """Return a count and its noun, whose plural ends in s: `1 slot`, `2,000 slots`."""
    return counted(count, noun, f"{noun}s")


def count_text(count: int | None) -> str:
    """Return a count with separators, or `unknown` for None."""
    return "unknown" if count is None else f"{count:,}"


def time_text(epoch_ms: int) -> str:
    """Return epoch milliseconds as UTC, to the millisecond."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def with_time(epoch_ms: Any) -> str:
    """Return epoch milliseconds followed by the time in UTC; any other value as text."""
    try:
        return f"{epoch_ms} ({time_text(epoch_ms)})"
    except (TypeError, ValueError, OverflowError, OSError):
        return str(epoch_ms)


def as_json_value(value: Any) -> Any:
    """Return a value that JSON lacks as a sorted list (DynamoDB's sets) or as text."""
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)
