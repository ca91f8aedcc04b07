"""The tables of all benchmarks, and what became of the targets, from the figures as `benchmarks.json` holds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import billed_time, cold_start, contention, growth
from benchmarks.bench_kit import table
from benchmarks.billed_time import (
    CONTENDERS,
    FINISHED,
    FLOOR,
    GROUPED,
    NEW,
    ONE_CORE,
    OURS,
    POWERTOOLS,
    TOGETHER,
)
from benchmarks.rush import __main__ as rush

RUSH, KILLED = "rush", "rush, consumers killed"
TITLES: Mapping[str, str] = {
    "billed_time": "Billed time, calls and units of a batch of ten",
    "cold_start": "Cold start",
    "contention": "32 consumers on one practice",
    RUSH: "The 8 a.m. rush",
    KILLED: "The rush, with consumers killed every five seconds",
    "growth": "Growth",
}

_TABLES: Mapping[str, tuple[Callable[..., Any], Callable[[Sequence[Any]], str]]] = {
    "billed_time": (billed_time.Figure, billed_time.tables),
    "cold_start": (cold_start.Figures, cold_start.tables),
    "contention": (contention.Figure, contention.tables),
    "growth": (growth.Figure, growth.tables),
    RUSH: (rush.Figures, rush.tables),
    KILLED: (rush.Figures, rush.tables),
}

Document = Mapping[str, Any]
"""What `benchmarks.json` holds: machine, when, short, load_before, and parts by name: how each ended, seconds, figures."""


def figures_of(document: Document, part: str) -> Sequence[Mapping[str, Any]]:
    """A part's figures; none if it was not run."""
    figures: Sequence[Mapping[str, Any]] = document["parts"].get(part, {}).get("figures", ())
    return figures


def tables_of(document: Document, part: str) -> str:
    """A part's tables, and a sentence if it did not come to its end."""
    make, tables = _TABLES[part]
    figures = figures_of(document, part)
    if not figures:
        return "No figures; `make bench` makes them."
    ended = document["parts"][part]["ended"]
    said = "" if ended == "whole" else f"\n\nNot all of it was measured: {ended}."
    return tables([make(**one) for one in figures]) + said


def where(document: Document) -> str:
    """A sentence on machine, time and load."""
    size = "`make bench SHORT=1`, small sizes" if document["short"] else "`make bench`"
    load = document["load_before"]
    busy = " **Other work ran at the same time: read times as ratios within a table.**" if load > 0.5 else ""
    demand = f"; the rush by the demand of {document['demand']}" if document.get("demand") else ""
    return f"Measured with {size}, {document['when']}, on {document['machine']}; load before it {load}{demand}.{busy}"


def targets(document: Document) -> str:
    """Each target with what was measured: billed time as a table of its own, then the others. What was not is left out."""
    return "\n\n".join(table for table in (_billed_targets(document), _other_targets(document)) if table)


def _billed_targets(document: Document) -> str:
    header = [
        "batch",
        "a call takes",
        "(a) / ours in a group: 10 or more",
        "ours / floor: 1.5 at most",
        "with `one_core`, (a) / ours: 10 or more",
        "with `one_core`, ours / floor: 1.5 at most",
        "with `queries_together`, too, (a) / ours: 10 or more",
        "with `queries_together`, too, ours / floor: 1.5 at most",
    ]
    billed = {
        (one["service_ms"], one["batch"], one["handler"]): one["billed_ms"]
        for one in figures_of(document, "billed_time")
        if one["batch"] != FINISHED
    }
    rows = []
    for service_ms, batch in dict.fromkeys((service_ms, batch) for service_ms, batch, _ in billed):
        known = {name: billed.get((service_ms, batch, name)) for name in CONTENDERS}
        # Whichever of the two is quicker: no row is helped by how the peer or the floor was run.
        peer, floor = (_quicker(known[name], known.get(name + ONE_CORE)) for name in (POWERTOOLS, FLOOR))
        ways = (known[GROUPED], known.get(GROUPED + ONE_CORE), known.get(TOGETHER + ONE_CORE))
        rows.append(
            [
                batch,
                f"{service_ms:g} ms",
                *(ratio for ours in ways for ratio in (_ratio(peer, ours, least=10), _ratio(ours, floor, most=1.5))),
            ]
        )
    return table(header, rows) if rows else ""


def _quicker(*times: float | None) -> float | None:
    return min((time for time in times if time), default=None)


def _ratio(over: float | None, under: float | None, *, least: float = 0.0, most: float = float("inf")) -> str:
    if not over or not under:
        return ""
    shown, reached = _judged(over / under, least=least, most=most)
    return shown if reached == "yes" else f"{shown}, missed"


def _other_targets(document: Document) -> str:
    rows: list[list[Any]] = []
    billed = figures_of(document, "billed_time")
    calls = {(one["batch"], one["handler"]): one for one in billed}
    if (one := calls.get((FINISHED, OURS))) is not None:
        rows.append(["calls for a finished duplicate", "1", *_judged(one["calls"], most=1)])
    if (one := calls.get((NEW, GROUPED))) is not None:
        rows.append(["calls for a new message in a group", "1.3 at most", *_judged(one["calls"], most=1.3)])
    if (one := calls.get((NEW, OURS))) is not None:
        rows.append(["RRU of the slot search, 500 slots a week", "1 at most", *_judged(one["read_units"], most=1)])
    for starts in (one["starts"] for one in figures_of(document, "cold_start")[-1:]):
        for floor in (cold_start.FLOOR, cold_start.UNCOLLECTED):
            ratio = starts[cold_start.HANDLER]["cpu_ms"] / starts[floor]["cpu_ms"]
            rows.append(
                [f"CPU of a cold start / {floor.removeprefix('floor: ')}", "1.25 at most", *_judged(ratio, most=1.25)]
            )
    for part in (RUSH, KILLED):
        for one in figures_of(document, part):
            if one["handler"] in (OURS, GROUPED) and one["done"]:
                wrong, killed = one["lost"] + one["double_booked"], one["killed"]
                what = f"{TITLES[part]}, {one['handler']}: lost or booked twice"
                if part == RUSH:
                    rows.append([what, "0", *_judged(wrong, most=0)])
                elif killed:
                    rows.append([f"{what}, {killed} killed", "0", *_judged(wrong, most=0)])
    return table(["target", "wanted", "measured", "reached"], rows) if rows else ""


def _judged(value: float, *, least: float = 0.0, most: float = float("inf")) -> tuple[str, str]:
    # Rounded against us: what is printed is judged.
    shown = (math.floor if least else math.ceil)(round(value * 100, 6)) / 100
    return f"{shown:,.2f}".removesuffix(".00"), "yes" if least <= shown <= most else "no"


def all_tables(document: Document) -> str:
    """Everything as Markdown."""
    known = [part for part in TITLES if part in document["parts"]]
    return "\n\n".join(
        [where(document), targets(document), *(f"## {TITLES[part]}\n\n{tables_of(document, part)}" for part in known)]
    )
