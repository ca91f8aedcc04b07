"""The audit's report: one HTML file that needs no network, made from the same tables that were written.

`pipeline.report_data` reads the tables, this module draws them; the template has the words, the look and the sorting.
"""

from __future__ import annotations

import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from pipeline.report_data import ReportData
from pipeline.vocabulary import VERDICT_SENTENCES, Verdict

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
OUTCOME_ROLES = {
    "booked": BOOKED,
    "waitlist": REQUESTS,
    "cancelled": QUIET,
    "refused": QUIET,
    "duplicate": DUPLICATES,
    "busy": WARNING,
    "fenced": WARNING,
    "quarantined": WARNING,
    "failed": BAD,
}
PERCENTILES = (50, 90, 99, 99.9)


def render(data: ReportData) -> str:
    """The report as HTML."""
    environment = Environment(
        loader=PackageLoader("pipeline"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    figures = {"rush": rush_figure(data), "latency": latency_figure(data), "timelines": timeline_figure(data)}
    return environment.get_template("report.html.j2").render(
        data=data,
        verdict_sentences={verdict.value: VERDICT_SENTENCES[verdict] for verdict in Verdict},
        percentiles=percentiles(data.latency),
        figures=_safe({name: figure for name, figure in figures.items() if figure}),
        plotly=get_plotlyjs(),
    )


def percentiles(latency: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """(milliseconds, requests) in order → [("50 %", milliseconds), ...]; empty if nothing was measured."""
    total = sum(count for _, count in latency)
    found = []
    for wanted in PERCENTILES if total else ():
        seen = 0
        for milliseconds, count in latency:
            seen += count
            if seen * 100 >= wanted * total:
                found.append((f"{wanted:g} %", milliseconds))
                break
    return found


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
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "line": {"shape": "hv", "width": 2},
            "name": name,
            "role": role,
            "x": times,
            "y": y,
        }
        for name, role, y in series
    ]
    traces[1]["fill"] = "tozeroy"
    return _figure(traces, "sent, UTC", f"in {data.rush_step}")


def latency_figure(data: ReportData) -> dict[str, Any] | None:
    """The share of requests that were answered within a time."""
    if not data.latency:
        return None
    total = sum(count for _, count in data.latency)
    shares, seen = [], 0
    for _, count in data.latency:
        seen += count
        shares.append(round(100 * seen / total, 4))
    within = [max(milliseconds, 1) for milliseconds, _ in data.latency]
    trace = {
        "type": "scatter",
        "mode": "lines",
        "line": {"shape": "hv", "width": 2},
        "name": "Answered",
        "role": BOOKED,
    }
    figure = _figure([{**trace, "x": within, "y": shares}], "from sent to answered, ms", "% of requests")
    figure["layout"]["xaxis"]["type"] = "log"
    figure["layout"]["yaxis"]["range"] = [0, 101]
    return figure


def timeline_figure(data: ReportData) -> dict[str, Any] | None:
    """The attempts on the most eventful messages: one line each, from the start of an attempt to its end."""
    attempts = [(life.label, attempt) for life in data.lives for attempt in life.attempts]
    if not attempts:
        return None
    traces = []
    for outcome, role in OUTCOME_ROLES.items():
        mine = [(label, attempt) for label, attempt in attempts if attempt.outcome == outcome]
        if mine:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "marker": {"size": 12, "symbol": "square" if outcome in ("booked", "waitlist") else "circle"},
                    "name": outcome,
                    "role": role,
                    "x": [attempt.after_ms / 1000 for _, attempt in mine],
                    "y": [label for label, _ in mine],
                    "text": [attempt.words for _, attempt in mine],
                    "hoverinfo": "text",
                }
            )
    figure = _figure(traces, "seconds since it was sent", "")
    figure["layout"]["yaxis"] |= {"type": "category", "autorange": "reversed", "automargin": True}
    return figure


def _figure(traces: list[dict[str, Any]], x_title: str, y_title: str) -> dict[str, Any]:
    layout = {
        "xaxis": {"title": {"text": x_title}, "automargin": True},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero", "automargin": True},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "legend": {"orientation": "h", "y": 1.12, "x": 0},
        "hovermode": "closest",
    }
    return {"data": traces, "layout": layout}


def _safe(document: Any) -> str:
    """JSON for inside a script element: nothing in it can end the element."""
    return json.dumps(document).replace("<", "\\u003c")
