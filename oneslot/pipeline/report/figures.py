"""The report's plots as data for Plotly: the rush, the latency, and the lives of the most eventful messages."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from oneslot.pipeline.report.data import ReportData, percentiles
from oneslot.pipeline.report.lives import CRASHED, Attempt

# Roles, not colours: the page gives each role a colour in light and one in dark, and draws again when the mode changes.
REQUESTS, DELIVERIES, DUPLICATES, BOOKED, WARNING, BAD, QUIET = (
    "requests",
    "deliveries",
    "duplicates",
    "booked",
    "warning",
    "bad",
    "quiet",
)
ATTEMPTS = {
    "booked": (BOOKED, "square"),
    "waitlist": (REQUESTS, "square"),
    "cancelled": (QUIET, "square"),
    "refused": (QUIET, "triangle-up"),
    "duplicate": (DUPLICATES, "circle"),
    "busy": (WARNING, "diamond-open"),
    "fenced": (WARNING, "diamond"),
    "quarantined": (WARNING, "triangle-down"),
    "failed": (BAD, "triangle-up"),
    CRASHED: (BAD, "x"),
}
"""How each outcome of an attempt is drawn: its colour's role and its mark."""

BARS_PER_DECADE = 10
# Where a logarithmic axis of milliseconds is marked.
TICKS = {
    1: "1 ms",
    10: "10 ms",
    100: "100 ms",
    1_000: "1 s",
    10_000: "10 s",
    60_000: "1 min",
    600_000: "10 min",
    3_600_000: "1 h",
    36_000_000: "10 h",
    86_400_000: "1 day",
    864_000_000: "10 days",
}
# Marks within this part of a decade are drawn beside each other and not on top of each other.
SAME_PLACE = 0.12
LANE = 0.22


def rush_figure(data: ReportData) -> dict[str, Any] | None:
    """Requests, deliveries and duplicates over time."""
    if not data.rush:
        return None
    times = [row.time for row in data.rush]
    series = (
        ("Deliveries", DELIVERIES, [row.deliveries for row in data.rush]),
        ("Requests", REQUESTS, [row.requests for row in data.rush]),
        ("Duplicates", DUPLICATES, [row.duplicates for row in data.rush]),
    )
    traces = [{**_STEPS, "name": name, "role": role, "x": times, "y": y} for name, role, y in series]
    traces[1]["fill"] = "tozeroy"
    return _figure(traces, "sent, UTC", f"in {data.rush_step}")


_DURATIONS: dict[str, Any] = {"type": "log", "tickvals": list(TICKS), "ticktext": list(TICKS.values())}
_STEPS: dict[str, Any] = {"type": "scatter", "mode": "lines", "line": {"shape": "hv", "width": 2}}


def latency_figure(data: ReportData) -> dict[str, Any] | None:
    """How many requests were answered within which time, on a logarithmic axis, and the percentiles."""
    if not data.latency:
        return None
    bars: Counter[int] = Counter()
    for milliseconds, count in data.latency:
        bars[math.floor(math.log10(max(milliseconds, 1)) * BARS_PER_DECADE)] += count
    places = range(min(bars) - 1, max(bars) + 2)
    edges = [round(10 ** (place / BARS_PER_DECADE), 3) for place in places]
    trace = {**_STEPS, "name": "Requests", "role": BOOKED, "fill": "tozeroy", "x": edges}
    figure = _figure([{**trace, "y": [bars[place] for place in places]}], "from sent to answered", "requests")
    marked = percentiles(data.latency)[:-1]  # the last is hardly told from the one before
    ends = _to_the_next_marks(math.log10(edges[0]), math.log10(edges[-1]))
    figure["layout"]["xaxis"] |= {**_DURATIONS, "range": ends}
    figure["layout"]["shapes"] = [
        {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "role": QUIET, "line": {"dash": "dot"}}
        for _, at in marked
    ]
    # The marks' names stand one below the other: the high percentiles are close together.
    figure["layout"]["annotations"] = [
        {
            "x": math.log10(max(at, 1)),
            "y": 1 - 0.09 * number,
            "yref": "paper",
            "text": name,
            "showarrow": False,
            "xanchor": "right",
            "yanchor": "top",
        }
        for number, (name, at) in enumerate(marked)
    ]
    figure["layout"]["showlegend"] = False
    return figure


def timeline_figure(data: ReportData) -> dict[str, Any] | None:
    """The attempts on the most eventful messages: a line from the begin of an attempt to its end, and a mark there."""
    places = [place(attempt) for life in data.lives for attempt in life.attempts]
    if not places:
        return None
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for row, life in enumerate(data.lives):
        for attempt, lane in zip(life.attempts, lanes(life.attempts), strict=True):
            bars, marks = found.setdefault(attempt.outcome, _attempt_traces(attempt.outcome))
            bars["x"] += [max(attempt.begin_ms, 1), max(attempt.end_ms, 1), None]
            bars["y"] += [row + lane, row + lane, None]
            marks["x"].append(round(10 ** place(attempt), 1))
            marks["y"].append(row + lane)
            marks["text"].append(attempt.words)
    traces = [trace for name in ATTEMPTS if name in found for trace in found[name]]
    figure = _figure(traces, "since it was sent", "")
    figure["layout"]["yaxis"] |= {
        "tickvals": list(range(len(data.lives))),
        "ticktext": [html.escape(life.label, quote=False) for life in data.lives],  # Plotly takes it for HTML
        "range": [len(data.lives) - 0.5, -0.5],
        "zeroline": False,
    }
    figure["layout"]["xaxis"] |= {**_DURATIONS, "range": _to_the_next_marks(min(places) - 0.2, max(places) + 0.1)}
    return figure


def _to_the_next_marks(low: float, high: float) -> list[float]:
    """A range of a logarithmic axis, made wider so that a mark of `TICKS` is at either end: without one it says nothing."""
    marks = [math.log10(tick) for tick in TICKS]
    return [
        max((mark for mark in marks if mark <= low), default=low),
        min((mark for mark in marks if mark >= high), default=high),
    ]


def _attempt_traces(outcome: str) -> tuple[dict[str, Any], dict[str, Any]]:
    role, symbol = ATTEMPTS[outcome]
    both = {"type": "scatter", "name": outcome, "legendgroup": outcome, "role": role}
    line = {"width": 3, "dash": "dot" if outcome == CRASHED else "solid"}
    bars = {**both, "mode": "lines", "line": line, "showlegend": False, "hoverinfo": "skip", "x": [], "y": []}
    marks = {"mode": "markers", "marker": {"symbol": symbol, "size": 12}, "hoverinfo": "text"}
    return bars, {**both, **marks, "x": [], "y": [], "text": []}


def place(attempt: Attempt) -> float:
    """Where an attempt's mark is on the logarithmic axis: at its end.

    When a process died is not known, only between which times; its mark is in the middle of them.
    """
    at = (attempt.begin_ms + attempt.end_ms) / 2 if attempt.outcome == CRASHED else attempt.end_ms
    return math.log10(max(at, 1))


def lanes(attempts: Sequence[Attempt]) -> list[float]:
    """Attempts of one message → how far from its line each is drawn, so that none hides another."""
    found: list[float] = []
    for number, attempt in enumerate(attempts):
        near = {found[other] for other in range(number) if abs(place(attempts[other]) - place(attempt)) < SAME_PLACE}
        found.append(next((lane for lane in (0.0, LANE, -LANE) if lane not in near), 0.0))
    return found


def _figure(traces: list[dict[str, Any]], x_title: str, y_title: str) -> dict[str, Any]:
    layout = {
        "xaxis": {"title": {"text": x_title}, "automargin": True},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero", "automargin": True},
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "legend": {"orientation": "h", "y": 1.01, "x": 0, "yanchor": "bottom"},
        "hovermode": "closest",
    }
    return {"data": traces, "layout": layout}
