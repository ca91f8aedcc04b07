"""The report's plots as data for Plotly: the rush, the latency, and the lives of the most eventful messages."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from oneslot.pipeline.report.data import ReportData, percentiles
from oneslot.pipeline.report.lives import CRASHED, Attempt

# Roles rather than colours: the page has a light and a dark colour for each, and redraws when the mode changes.
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
"""The role of the colour and the mark of each outcome of an attempt."""

BARS_PER_DECADE = 10
# The marks of a logarithmic axis of milliseconds.
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
# Marks closer than this part of a decade are drawn beside each other.
SAME_PLACE = 0.12
LANE = 0.22


def rush_figure(data: ReportData) -> dict[str, Any] | None:
    """Return requests, deliveries and duplicates over time; None without requests."""
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
    """Return the number of requests by latency on a logarithmic axis, with percentiles; None without answers."""
    if not data.latency:
        return None
    bars: Counter[int] = Counter()
    for milliseconds, count in data.latency:
        bars[math.floor(math.log10(max(milliseconds, 1)) * BARS_PER_DECADE)] += count
    places = range(min(bars) - 1, max(bars) + 2)
    edges = [round(10 ** (place / BARS_PER_DECADE), 3) for place in places]
    trace = {**_STEPS, "name": "Requests", "role": BOOKED, "fill": "tozeroy", "x": edges}
    figure = _figure([{**trace, "y": [bars[place] for place in places]}], "from sent to answered", "requests")
    marked = percentiles(data.latency)[:-1]  # the last is too close to the one before
    ends = _to_the_next_marks(math.log10(edges[0]), math.log10(edges[-1]))
    figure["layout"]["xaxis"] |= {**_DURATIONS, "range": ends}
    figure["layout"]["shapes"] = [
        {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "role": QUIET, "line": {"dash": "dot"}}
        for _, at in marked
    ]
    # One name below the other, because the high percentiles are close together.
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
    """Return the attempts on the most eventful messages, each as a line with a mark at its end; None without attempts."""
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
        "ticktext": [html.escape(life.label, quote=False) for life in data.lives],  # Plotly reads it as HTML
        "range": [len(data.lives) - 0.5, -0.5],
        "zeroline": False,
    }
    figure["layout"]["xaxis"] |= {**_DURATIONS, "range": _to_the_next_marks(min(places) - 0.2, max(places) + 0.1)}
    return figure


def _to_the_next_marks(low: float, high: float) -> list[float]:
    """Return a range widened to the next mark of `TICKS` on either side, because an axis without marks says nothing."""
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
    """Return the position of an attempt's mark on the logarithmic axis: at its end.

    The time of a crash is known only as an interval, so its mark is in the middle.
    """
    at = (attempt.begin_ms + attempt.end_ms) / 2 if attempt.outcome == CRASHED else attempt.end_ms
    return math.log10(max(at, 1))


def lanes(attempts: Sequence[Attempt]) -> list[float]:
    """Return each attempt's distance from the line of its message, so that no mark hides another."""
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
