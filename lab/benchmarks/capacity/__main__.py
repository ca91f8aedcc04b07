"""England's Monday at 8: which limit holds the queue back, for how long, and the bill.

    python -m lab.benchmarks.capacity [--log consumer.jsonl] [--batch-ms 150] [--json]

Second by second, requests arrive, the event source mapping takes what its concurrency and the tables allow, and the
rest waits in the queue. This is arithmetic, not a load test: AWS's behaviour under such a load was not measured. The
time of a batch comes from a delivery log, or is assumed and marked so.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lab.benchmarks.capacity.model import MOST_BATCHES, PEAK_PER_SECOND, SOURCES, Morning, Outcome, Setup, simulate
from lab.benchmarks.harness.command import run_main

Case = tuple[Morning, str, Setup, Outcome]
"""A morning, the name of a setup, the setup, and the outcome."""

ADVICE = {
    "max_concurrency": "raise max_concurrency (-c max_concurrency=...), to 1,000 at most",
    "account concurrency": "ask for a higher quota of concurrent executions, before Monday",
    "the mapping's maximum": "a shorter batch; or -c provisioned_pollers=...; or a second queue by region",
    "Lambda's scaling": "provisioned_pollers, which run before the rush; or nothing: the queue holds what comes meanwhile",
    "in flight": "a smaller batch_size, or a second queue",
    "a table's writes": "warm the tables before Monday (-c table_warm_writes=...), and ask for a higher table quota",
    "one practice's partition": "spread that practice's slots over several keys: a change of the schema",
}


COLUMNS = (
    "morning",
    "setup",
    "messages",
    "waiting, at most",
    "wait, about",
    "empty after",
    "batches at once",
    "writes/s of a table",
    "cost",
    "held back longest by",
)


def batch_ms(lines: Iterable[str]) -> tuple[float, int]:
    """Return the median time of the full batches in a delivery log, in milliseconds, and their number.

    A batch lasts from the start of its first attempt to the end of its last. Raise `ValueError` if none has ten records.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for text in lines:
        if '"delivery"' not in text:
            continue
        line = json.loads(text)
        if line.get("message") == "delivery":
            spans[line["function_request_id"]].append((line["finished"] - line["attempt_ms"], line["finished"]))
    full = sorted(
        max(end for _, end in each) - min(start for start, _ in each) for each in spans.values() if len(each) >= 10
    )
    if not full:
        raise ValueError("the log has no batch of ten records")
    return float(full[len(full) // 2]), len(full)


def cases(time_ms: float) -> list[tuple[Morning, str, Setup]]:
    """Return the mornings and setups that are compared."""
    monday = Morning("Monday 8 a.m.")
    storm = Morning("redial storm, all different", peak=10 * PEAK_PER_SECOND)
    again = Morning("redial storm, nine of ten copies", peak=10 * PEAK_PER_SECOND, duplicates=0.9)
    hot = replace(storm, name="storm, one practice with 10 %", largest_practice=0.1)
    dev, prod, free = (Setup(time_ms, max_concurrency=number) for number in (8, 50, None))
    warm = replace(free, account_concurrency=MOST_BATCHES, warm_writes=40_000)
    polled = replace(warm, pollers=20)
    capped = replace(warm, maximum_writes=8_000)
    return [
        (monday, "dev: max_concurrency 8", dev),
        (monday, "prod: max_concurrency 50", prod),
        (storm, "dev: max_concurrency 8", dev),
        (storm, "prod: max_concurrency 50", prod),
        (storm, "no maximum", free),
        (storm, "no maximum, tables warmed", warm),
        (storm, "20 pollers, tables warmed", polled),
        (storm, "table_maximum_writes 8,000", capped),
        (again, "prod: max_concurrency 50", prod),
        (again, "no maximum", free),
        (hot, "no maximum, tables warmed", warm),
    ]


def main() -> None:
    """Print the outcome of each morning with each setup."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--log", type=Path, help="a delivery log, from which the time of a batch is read")
    parser.add_argument("--batch-ms", type=float, default=150.0, help="time of a full batch without a log (150)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if not 0 < arguments.batch_ms < math.inf:
        parser.error("--batch-ms must be a number above 0")
    time_ms, origin = arguments.batch_ms, "assumed"
    if arguments.log:
        try:
            time_ms, count = batch_ms(arguments.log.read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError, KeyError) as error:
            parser.error(f"--log: {arguments.log} cannot be used: {error}")
        origin = f"the median of {count:,} full batches in {arguments.log.name}"
    results = [(morning, name, setup, simulate(morning, setup)) for morning, name, setup in cases(time_ms)]
    if arguments.json:
        rows = [_as_json(*result) for result in results]
        print(json.dumps({"batch_ms": time_ms, "origin": origin, "sources": SOURCES, "cases": rows}, indent=2))
    else:
        print(f"A batch of ten takes {time_ms:.0f} ms: {origin}.\n")
        print(_as_text(results))


def _as_text(results: Sequence[Case]) -> str:
    """Return the table, and the advice for each limit that was reached."""
    lines = ["| " + " | ".join(row) + " |" for row in (COLUMNS, *(_row(*result) for result in results))]
    lines.insert(1, "|---" * len(COLUMNS) + "|")
    limits = dict.fromkeys(name for *_, out in results for name in out.limits)
    return "\n".join([*lines, "", *(f"{limit}: {ADVICE[limit]}." for limit in limits)])


def _row(morning: Morning, name: str, _: Setup, out: Outcome) -> tuple[str, ...]:
    return (
        morning.name,
        name,
        f"{out.messages:,.0f}",
        f"{out.peak_backlog:,.0f}",
        f"{out.longest_wait:,.0f} s",
        "not in 4 h" if out.over_after is None else f"{out.over_after / 60:.0f} min",
        f"{out.peak_concurrency:,.0f}",
        f"{out.peak_writes:,.0f}",
        f"${out.dollars:,.2f}",
        f"{out.worst}, {out.limits[out.worst]:,} s" if out.worst else "nothing",
    )


def _as_json(morning: Morning, name: str, setup: Setup, out: Outcome) -> dict[str, Any]:
    said = {"worst": out.worst, "advice": {limit: ADVICE[limit] for limit in out.limits}}
    return {"morning": asdict(morning), "setup": {"name": name, **asdict(setup)}, **asdict(out), **said}


if __name__ == "__main__":
    sys.exit(run_main(main))
