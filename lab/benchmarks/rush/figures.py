"""The figures of a rush, and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.benchmarks.harness.figures import table

REACHED: Mapping[str, str] = {
    "handler": "handler",
    "messages": "messages",
    "done": "done",
    "seconds": "seconds",
    "per_second": "messages/s",
    "p50_ms": "p50 ms",
    "p95_ms": "p95 ms",
    "p99_ms": "p99 ms",
    "killed": "killed",
    "double_booked": "double-booked",
    "lost": "lost",
    "dead_letters": "dead letters",
}
"""Figures of the table, with their headings."""


@dataclass(frozen=True)
class Figures:
    """One handler's rush. `done` counts deleted messages; `drained` is true if the queue was empty in time."""

    handler: str
    messages: int
    done: int
    drained: bool
    seconds: float
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    killed: int
    double_booked: int
    lost: int
    dead_letters: int


def tables(figures: Sequence[Figures]) -> str:
    """Return what each handler reached, as Markdown, and a sentence on those that were stopped."""
    stopped = [one.handler for one in figures if not one.drained]
    said = f"Stopped before the queue was empty, at their share of the time: {', '.join(stopped)}." if stopped else ""
    reached = table(list(REACHED.values()), [[getattr(one, name) for name in REACHED] for one in figures])
    return f"{reached}\n\n{said}".strip()
