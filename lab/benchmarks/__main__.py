"""All benchmarks of speed, one after another, into one file of tables, one of figures and one page.

    python -m lab.benchmarks [--short] [--requests 20000] [--demand FILE] [--minutes 35] [--to build/benchmarks] [--write]

The parts are modules with a command of their own: `billed_time`, `cold_start`, `contention`, `growth`, `rush`. Each
runs in a process of its own, and each figure is kept as soon as it is measured. A part that exceeds its share of
`--minutes` is interrupted and keeps its figures; then the next one starts.

`benchmarks.json` has the figures, `benchmarks.md` the printed tables, and `benchmarks.html` tables and plots without
external resources. `--write` keeps the figures in `lab/results/performance.json` and puts them into
`lab/docs/performance.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.benchmarks.harness.command import INTERRUPTED, run_main
from lab.benchmarks.pages import performance_page
from lab.benchmarks.pages.report import page
from lab.benchmarks.pages.tables import KILLED, RUSH, all_tables
from lab.benchmarks.rush.load import demands
from oneslot.errors import BadInput

GRACE_SECONDS = 30
"""Time for an interrupted part to end its child processes."""
RUSH_REPORT_SECONDS = 60
"""Time that the rush needs after its run, to check every request."""


@dataclass(frozen=True)
class Part:
    """One module's run, and its time limit."""

    name: str
    module: str
    arguments: tuple[str, ...]
    seconds: float


class Bench:
    """The figures so far, kept in a file from the first one on."""

    def __init__(self, folder: Path, *, short: bool, demand: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        machine = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"
        self.document: dict[str, Any] = {
            "machine": f"{machine}, Python {platform.python_version()}",
            "when": datetime.now(UTC).isoformat(timespec="minutes"),
            "short": short,
            "load_before": round(os.getloadavg()[0], 1),
            "demand": demand,
            "parts": {},
        }

    def run(self, part: Part, position: int, number: int) -> None:
        """Run a part until it ends or its time is over."""
        print(f"{position} of {number}: {part.name}, at most {part.seconds / 60:.0f} min", file=sys.stderr, flush=True)
        figures: list[Any] = []
        about = {"ended": "measuring", "seconds": 0.0, "figures": figures}
        self.document["parts"][part.name] = about
        command = [sys.executable, "-m", f"lab.benchmarks.{part.module}", *part.arguments, "--json"]
        started = time.monotonic()
        late = threading.Event()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # noqa: S101 - for mypy: PIPE was requested

            def stop() -> None:
                late.set()
                process.send_signal(signal.SIGINT)

            interrupt = threading.Timer(part.seconds, stop)
            kill = threading.Timer(part.seconds + GRACE_SECONDS, process.kill)
            interrupt.start()
            kill.start()
            try:
                for line in process.stdout:
                    figures.append(json.loads(line))
                    about["seconds"] = time.monotonic() - started
                    self.keep()
                status = process.wait()
            except KeyboardInterrupt:
                about["ended"] = "interrupted"
                self.keep()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_SECONDS)  # the terminal has interrupted it as well
                process.kill()
                raise
            finally:
                interrupt.cancel()
                kill.cancel()
        about["seconds"] = time.monotonic() - started
        about["ended"] = "stopped: its time was over" if late.is_set() else f"failed: status {status}"
        if status == 0 and not late.is_set():
            about["ended"] = "whole"
        print(f"  {about['ended']}, {len(figures)} figures, {about['seconds']:,.0f} s", file=sys.stderr, flush=True)
        self.keep()

    def keep(self) -> None:
        """Write the file of figures. A concurrent reader sees the previous file whole."""
        new = self._folder / "benchmarks.json.new"
        new.write_text(json.dumps(self.document, indent=1) + "\n")
        new.replace(self._folder / "benchmarks.json")

    def report(self) -> None:
        """Print and write the tables, and write the page."""
        text = all_tables(self.document)
        (self._folder / "benchmarks.md").write_text(text + "\n")
        (self._folder / "benchmarks.html").write_text(page(self.document))
        print(text)
        print(f"\nWrote benchmarks.json, benchmarks.md and benchmarks.html to {self._folder}", flush=True)


def parts(options: argparse.Namespace) -> list[Part]:
    """Return the parts, the quick ones first. The rush comes last and has the time that the others leave."""
    size = ("--short",) if options.short else ()
    demand = ("--demand", str(options.demand)) if options.demand else ()
    share = options.minutes / 35
    killed = "200" if options.short else "1500"
    rush = ("--requests", str(options.requests or (200 if options.short else 20_000)), *demand)
    return [
        Part("billed_time", "billed_time", size, 780 * share),
        Part("cold_start", "cold_start", size, 120 * share),
        Part("contention", "contention", size, 150 * share),
        Part("growth", "growth", size, 150 * share),
        Part(KILLED, "rush", ("--requests", killed, *demand, "--kill-every", "5"), 240 * share),
        Part(RUSH, "rush", rush, 0.0),
    ]


def main() -> int:
    """Run the parts and report. Return the exit status of `run_all`; 2 for invalid arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="fewer runs and smaller sizes, some minutes")
    parser.add_argument("--requests", type=int, help="requests of the rush: 20,000, or 200 with --short")
    parser.add_argument("--demand", type=Path, help="demand of the rush: a file of appointments by practice")
    parser.add_argument("--minutes", type=float, default=35.0, help="time for all parts; the rush has what is left")
    parser.add_argument("--to", type=Path, default=Path("build/benchmarks"), help="the report folder")
    parser.add_argument("--write", action="store_true", help="put the figures into lab/docs/performance.md")
    options = parser.parse_args()
    if options.minutes <= 0:
        parser.error("--minutes must be above 0")
    if options.write and options.short:
        parser.error("--write keeps figures, and --short has too few runs: leave one of them out")
    try:
        demands(options.demand, 1)  # before anything is measured, rather than when the rush starts
    except BadInput as error:
        parser.error(f"--demand: {error}")
    bench = Bench(options.to, short=options.short, demand=options.demand.name if options.demand else None)
    status = run_all(bench, parts(options), options.minutes * 60)
    bench.report()
    if options.write and status:
        print("A part failed or was interrupted, so lab/docs/performance.md is unchanged.", file=sys.stderr)
    elif options.write:
        performance_page.write(bench.document)
    return status


def run_all(bench: Bench, every: Sequence[Part], seconds: float) -> int:
    """Run the parts within `seconds`. Return 1 if a part failed (not if its limit stopped it), 130 if interrupted."""
    end = time.monotonic() + seconds
    try:
        for position, part in enumerate(every, 1):
            left = part.seconds or max(60.0, end - time.monotonic())
            arguments = part.arguments
            if part.module == "rush":
                arguments = (*arguments, "--seconds", f"{left - min(RUSH_REPORT_SECONDS, left / 4):.0f}")
            bench.run(Part(part.name, part.module, arguments, left), position, len(every))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 1 if any(one["ended"].startswith("failed") for one in bench.document["parts"].values()) else 0


if __name__ == "__main__":
    sys.exit(run_main(main))
