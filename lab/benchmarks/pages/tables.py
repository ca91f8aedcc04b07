"""The tables of all benchmarks and of the targets, from the figures in `benchmarks.json`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.benchmarks import billed_time, cold_start, contention, growth
from lab.benchmarks.billed_time import FINISHED, FLOOR, GROUPED, NEW, OURS, POWERTOOLS, SERIAL
from lab.benchmarks.harness.figures import table
from lab.benchmarks.rush import figures as rush

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
    KILLED: (rush.Figures, rush.results),
}

_BRIEF: Mapping[str, Callable[[Sequence[Any]], str]] = {
    "billed_time": lambda figures: billed_time.tables([one for one in figures if one.handler != SERIAL]),
    "cold_start": cold_start.starts,
    RUSH: rush.results,
}
"""The tables of the page, where they are fewer."""

Document = Mapping[str, Any]
"""The content of `benchmarks.json`: machine, when, short, load_before, and by name the parts: ended, seconds, figures."""


def figures_of(document: Document, part: str) -> Sequence[Mapping[str, Any]]:
    """Return a part's figures; none if it was not run."""
    figures: Sequence[Mapping[str, Any]] = document["parts"].get(part, {}).get("figures", ())
    return figures


def tables_of(document: Document, part: str, *, brief: bool = False) -> str:
    """Return a part's tables, or with `brief` those of the page, and a sentence if it was stopped early."""
    make, tables = _TABLES[part]
    if brief:
        tables = _BRIEF.get(part, tables)
    figures = figures_of(document, part)
    if not figures:
        return "No figures; `make -C lab bench` makes them."
    ended = document["parts"][part]["ended"]
    said = "" if ended == "whole" else f"\n\nNot all of it was measured: {ended}."
    return tables([make(**one) for one in figures]) + said


def where(document: Document) -> str:
    """Return a sentence on machine, time and load."""
    size = "`make -C lab bench SHORT=1`, small sizes" if document["short"] else "`make -C lab bench`"
    load = document["load_before"]
    busy = " **Other work ran at the same time: read times as ratios within a table.**" if load > 0.5 else ""
    demand = f"; the rush by the demand of {document['demand']}" if document.get("demand") else ""
    return f"Measured with {size}, {document['when']}, on {document['machine']}; load before it {load}{demand}.{busy}"


def targets(document: Document) -> str:
    """Return the measured targets: a table for billed time, and one for the others."""
    return "\n\n".join(table for table in (_billed_targets(document), _other_targets(document)) if table)


def _billed_targets(document: Document) -> str:
    billed: defaultdict[tuple[float, str], dict[str, float]] = defaultdict(dict)
    for one in figures_of(document, "billed_time"):
        if one["batch"] != FINISHED:
            billed[one["service_ms"], one["batch"]][one["handler"]] = one["billed_ms"]
    ratios: defaultdict[str, list[str]] = defaultdict(list)
    for (_, batch), times in billed.items():
        # The kept figures have a second run of peer and floor, on one core. The quicker one counts, against us.
        peer, floor = (
            min((times[run] for run in (name, f"{name}, one core") if run in times), default=None)
            for name in (POWERTOOLS, FLOOR)
        )
        ours = times.get(GROUPED)
        ratios[batch] += [_ratio(peer, ours, least=10), _ratio(ours, floor, most=1.5)]
    calls = [f"{service_ms:g} ms" for service_ms in dict.fromkeys(service_ms for service_ms, _ in billed)]
    header = [
        "a call takes",
        *(f"{call}: {ratio}" for call in calls for ratio in ("(a) / ours, 10 or more", "ours / floor, 1.5 at most")),
    ]
    return table(header, [[batch, *cells] for batch, cells in ratios.items()]) if ratios else ""


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
    # Rounded against us, and judged as printed.
    shown = (math.floor if least else math.ceil)(round(value * 100, 6)) / 100
    return f"{shown:,.2f}".removesuffix(".00"), "yes" if least <= shown <= most else "no"


def all_tables(document: Document) -> str:
    """Return all tables as Markdown."""
    known = [part for part in TITLES if part in document["parts"]]
    return "\n\n".join(
        [where(document), targets(document), *(f"## {TITLES[part]}\n\n{tables_of(document, part)}" for part in known)]
    )
