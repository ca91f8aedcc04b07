"""The report of the benchmarks: tables, targets and the HTML page."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from lab.benchmarks import billed_time, cold_start, contention, growth
from lab.benchmarks.pages.report import as_html, page
from lab.benchmarks.pages.tables import KILLED, RUSH, all_tables, tables_of, targets, where
from lab.benchmarks.rush import figures as rush


def billed(handler: str, batch: str, billed_ms: float) -> billed_time.Figure:
    return billed_time.Figure(handler, batch, 5.0, billed_ms, 4.5, 1.2, 8.0, 1.5, 0, (billed_ms - 1, billed_ms + 1.5))


def rushed(handler: str, lost: int, done: int = 1_000) -> rush.Figures:
    return rush.Figures(
        handler=handler,
        messages=1_000,
        done=done,
        drained=done == 1_000,
        seconds=12.5,
        per_second=321.0,
        p50_ms=40.0,
        p95_ms=50.0,
        p99_ms=60.0,
        killed=3,
        double_booked=0,
        lost=lost,
        dead_letters=0,
        cpu_ms={"consumers": 7.25, "embedded AWS": 2.5},
        memory=[(1.0, 50.0, 60.0), (2.0, 51.0, 70.0)],
        packages={"botocore": 0.75, "runtime": 0.25},
        functions=[("botocore: <parse>", 0.375)],
    )


def part(*figures: Any, ended: str = "whole") -> dict[str, Any]:
    return {"ended": ended, "seconds": 9.0, "figures": json.loads(json.dumps([asdict(one) for one in figures]))}


STARTS = {
    cold_start.FLOOR: {"cpu_ms": 300.0, "memory_mb": 46.0},
    cold_start.UNCOLLECTED: {"cpu_ms": 250.0, "memory_mb": 46.0},
    cold_start.HANDLER: {"cpu_ms": 330.0, "memory_mb": 50.0},
}
DOCUMENT: dict[str, Any] = {
    "machine": "a machine",
    "when": "2026-11-21T22:00+00:00",
    "short": False,
    "load_before": 0.1,
    "parts": {
        "billed_time": part(
            billed("floor", "ten new", 20.0),
            billed("(a) Powertools", "ten new", 400.0),
            billed("the group's calls alone", "ten new", 25.0),
            billed("ours, group commit", "ten new", 31.25),
            billed("(a) Powertools, one core", "ten new", 350.0),
            billed("floor, one core", "ten new", 19.0),
            billed("floor", "ten duplicates", 5.0),
            billed("ours, group commit", "ten duplicates", 9.0),
        ),
        "cold_start": part(cold_start.Figures(STARTS, {"<parse>": 12.0}, {"handler": 7.5}, {"our own code": 138.0})),
        "contention": part(contention.Figure("default", 10, 16, "random", 10, 0.5, 60.0, 150.0, 4.5, 0.1)),
        "growth": part(growth.Figure(1_000, 100, 0.4, 1.16, 8.0, 1.5)),
        RUSH: part(rushed("ours (default)", lost=0), rushed("(a) Powertools", lost=2)),
        KILLED: part(rushed("ours (default)", lost=0, done=400), ended="stopped: its time was over"),
    },
}
SHOWN = ("31.2 (4.50)", "1.20, 8.00, 1.50", "138 KB", "0.50, 150, 4.50", "1,000", "50 → 51", "321", "7.25")


def rows(markdown: str) -> list[list[str]]:
    """Return the cells of a Markdown table, without its header."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines()[2:]]


def test_report_shows_every_figure() -> None:
    html, text = page(DOCUMENT), all_tables(DOCUMENT)
    assert [figure for figure in SHOWN if figure not in text or figure not in html] == []
    assert "polyline" in html


def test_page_escapes_names_and_loads_nothing() -> None:
    html = page(DOCUMENT)
    assert "&lt;parse&gt;" in html
    assert "<parse>" not in html
    assert "http" not in html


def test_tables_say_that_a_part_was_stopped() -> None:
    text = all_tables(DOCUMENT)
    assert "Not all of it was measured: stopped: its time was over." in text
    assert text.count("Stopped before the queue was empty, at their share of the time: ours (default).") == 1


def test_tables_say_that_a_part_has_no_figures() -> None:
    document = {**DOCUMENT, "parts": {RUSH: {"ended": "failed: status 1", "seconds": 1.0, "figures": []}}}
    assert "No figures" in all_tables(document)
    assert "No figures" in page(document)


def test_tables_leave_unknown_contenders_out() -> None:
    assert "one core" not in tables_of(DOCUMENT, "billed_time")


def test_targets_judge_by_the_quicker_peer_and_floor() -> None:
    billed_targets, _ = targets(DOCUMENT).split("\n\n")
    assert rows(billed_targets) == [["ten new", "11.20", "1.65, missed"]]


def test_targets_leave_out_what_was_not_measured() -> None:
    measured = part(billed("floor", "ten new", 20.0), billed("ours, group commit", "ten new", 31.25))
    billed_targets, *_ = targets({**DOCUMENT, "parts": {"billed_time": measured}}).split("\n\n")
    assert rows(billed_targets) == [["ten new", "", "1.57, missed"]]
    assert targets({**DOCUMENT, "parts": {}}) == ""


def test_targets_judge_cold_start_and_rush_by_their_figures() -> None:
    _, others = targets(DOCUMENT).split("\n\n")
    judged = {row[0]: row[2:] for row in rows(others)}
    killed = "The rush, with consumers killed every five seconds, ours (default): lost or booked twice, 3 killed"
    assert judged["CPU of a cold start / Python, boto3, one client"] == ["1.10", "yes"]
    assert judged["CPU of a cold start / the floor without garbage collection"] == ["1.32", "no"]
    assert judged["The 8 a.m. rush, ours (default): lost or booked twice"] == ["0", "yes"]
    assert judged[killed] == ["0", "yes"]
    assert not any("Powertools" in name and "lost" in name for name in judged)


def test_targets_leave_out_a_rush_without_kills() -> None:
    unharmed = part(replace(rushed("ours (default)", lost=0), killed=0))
    assert targets({**DOCUMENT, "parts": {KILLED: unharmed}}) == ""


def test_where_mentions_a_busy_machine() -> None:
    assert "**Other work" not in where(DOCUMENT)
    assert "**Other work" in where({**DOCUMENT, "load_before": 3.0})
    assert "<b>Other work" in as_html(where({**DOCUMENT, "load_before": 3.0}))


def test_where_names_the_demand_of_the_rush() -> None:
    assert "demand" not in where(DOCUMENT)
    assert "; the rush by the demand of practices.csv." in where({**DOCUMENT, "demand": "practices.csv"})
