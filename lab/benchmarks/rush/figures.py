"""The figures of a rush, and their tables."""

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
"""Figures of the first table, with their headings."""


@dataclass(frozen=True)
class Figures:
    """One handler's rush. `done` counts deleted messages; `drained` is true if the queue was empty in time.

    `cpu_ms` is for each message, by process. `memory` has seconds, MB of the largest consumer and MB of the server, at each
    twentieth of the load.
    """

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
    cpu_ms: Mapping[str, float]
    memory: Sequence[tuple[float, float, float]]


def tables(figures: Sequence[Figures]) -> str:
    """Return the figures as Markdown: results, then CPU and memory."""
    costs = [
        [one.handler, *one.cpu_ms.values(), sum(one.cpu_ms.values()) * one.per_second / 1000]
        + [over_time([sample[column] for sample in one.memory]) for column in (1, 2)]
        for one in figures
    ]
    cpu = [f"CPU ms/msg: {process}" for process in figures[0].cpu_ms]
    return f"{results(figures)}\n\n{table(['handler', *cpu, 'cores busy', 'consumer MB', 'server MB'], costs)}"


def results(figures: Sequence[Figures]) -> str:
    """Return what each handler reached, as Markdown, and a sentence on those that were stopped."""
    stopped = [one.handler for one in figures if not one.drained]
    said = f"Stopped before the queue was empty, at their share of the time: {', '.join(stopped)}." if stopped else ""
    reached = table(list(REACHED.values()), [[getattr(one, name) for name in REACHED] for one in figures])
    return f"{reached}\n\n{said}".strip()


def over_time(values: Sequence[float]) -> str:
    """Return the first and the last value, with an arrow between them."""
    return f"{values[0]:.0f} → {values[-1]:.0f}" if values else ""
