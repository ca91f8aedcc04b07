"""All benchmarks of speed, one after the other, into one page and one file of figures.

    python -m benchmarks [--short] [--requests 20000] [--demand FILE] [--to build/benchmarks]

Each is a module of its own, runs in a process of its own and prints its own tables too: `billed_time`, `cold_start`,
`contention`, `growth`, `rush`. The page, `benchmarks.html`, needs nothing from outside; `benchmarks.json` has the figures.
"""

from __future__ import annotations

import argparse
import html
import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Figures = Sequence[Mapping[str, Any]]

WIDTH, BAR, LABEL = 720, 18, 250
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1c2733}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:13px}td,th{border-bottom:1px solid #d5dde5;padding:3px 9px;"
    "text-align:right}td:first-child,th:first-child{text-align:left}text{font:12px system-ui,sans-serif;fill:#1c2733}"
    "pre{background:#f3f6f9;padding:.6rem;overflow:auto}"
)


def main() -> None:
    """Run them and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a few minutes: fewer runs, smaller sizes")
    parser.add_argument("--requests", type=int, help="of the rush; 20,000, or 1,000 with --short")
    parser.add_argument("--demand", type=Path, help="of the rush: appointments by practice")
    parser.add_argument("--to", type=Path, default=Path("build/benchmarks"), help="the report folder")
    options = parser.parse_args()
    short = ["--short"] if options.short else []
    number = str(options.requests or (1_000 if options.short else 20_000))
    rush = ["rush", "--requests", number, *(["--demand", str(options.demand)] if options.demand else [])]
    figures: dict[str, Any] = {
        "billed_time": _run("billed_time", *short),
        "cold_start": _run("cold_start", *short),
        "contention": _run("contention", *short),
        "growth": _run("growth", *short),
        "rush": _run(*rush),
        "rush, consumers killed": _run(*rush, "--kill-every", "5"),
    }
    figures["machine"] = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    figures["when"] = datetime.now(UTC).isoformat(timespec="minutes")
    options.to.mkdir(parents=True, exist_ok=True)
    (options.to / "benchmarks.json").write_text(json.dumps(figures, indent=1) + "\n")
    (options.to / "benchmarks.html").write_text(page(figures))
    print(f"\nWrote benchmarks.html and benchmarks.json to {options.to}")


def _run(module: str, *arguments: str) -> Any:
    print(f"{module} {' '.join(arguments)} ...", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments, "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def page(figures: Mapping[str, Any]) -> str:
    """All figures as one HTML page, with a bar for each that the targets speak of."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Oneslot: benchmarks</title>",
        f"<style>{_STYLE}</style><h1>Oneslot: benchmarks</h1>",
        f"<p>{html.escape(figures['machine'])}, {html.escape(figures['when'])}. What each figure means is said at the top of",
        " its module in <code>benchmarks/</code>, and in <code>docs/performance.md</code>.</p>",
    ]
    billed: Figures = figures["billed_time"]
    parts.append("<h2>Billed time of a batch of ten</h2>")
    for service_ms, batch in dict.fromkeys((one["service_ms"], one["batch"]) for one in billed):
        chosen = [one for one in billed if (one["service_ms"], one["batch"]) == (service_ms, batch)]
        bars = [(one["handler"], one["billed_ms"]) for one in chosen]
        parts.append(chart(f"{batch}; a call takes {service_ms:g} ms, a transaction twice that", bars, "ms"))
    parts.append(rows(billed))
    starts: Mapping[str, Mapping[str, float]] = figures["cold_start"]["starts"]
    parts.append("<h2>Cold start</h2>")
    parts.append(chart("CPU of a start", [(name, one["cpu_ms"]) for name, one in starts.items()], "ms"))
    imports = list(figures["cold_start"]["imports_ms"].items())[:12]
    parts.append(chart("imports of the handler, a package's own time", imports, "ms"))
    parts.append(chart("what is deployed", list(figures["cold_start"]["package_kb"].items()), "KB"))
    contention: Figures = figures["contention"]
    parts.append("<h2>32 consumers on one practice</h2>")
    parts.append(
        chart(
            "retries for each booking",
            [
                (
                    f"{one['strategy']}, {one['free_slots']} free, {one['candidates']} candidates",
                    one["retries_per_booking"],
                )
                for one in contention
            ],
            "",
        )
    )
    parts += [rows(contention), "<h2>Growth</h2>", rows(figures["growth"])]
    for name in ("rush", "rush, consumers killed"):
        rush: Figures = figures[name]
        parts.append(f"<h2>The 8 a.m. {html.escape(name)}</h2>")
        parts.append(chart("messages a second", [(one["handler"], one["per_second"]) for one in rush], ""))
        parts.append(rows(rush))
    return "".join(parts) + "</html>\n"


def chart(title: str, bars: Sequence[tuple[str, float]], unit: str) -> str:
    """Horizontal bars with their values, as SVG."""
    most = max((value for _, value in bars), default=0) or 1
    lines = [f"<h4>{html.escape(title)}</h4><svg width='{WIDTH}' height='{BAR * len(bars) + 4}' role='img'>"]
    for number, (name, value) in enumerate(bars):
        top = number * BAR
        length = max(1.0, value / most * (WIDTH - LABEL - 90))
        colour = "#1d70b8" if name.startswith("ours") or "our" in name else "#9aa7b3"
        lines.append(
            f"<text x='0' y='{top + 13}'>{html.escape(name)}</text>"
            f"<rect x='{LABEL}' y='{top + 3}' width='{length:.1f}' height='{BAR - 5}' fill='{colour}'/>"
            f"<text x='{LABEL + length + 6:.1f}' y='{top + 13}'>{_number(value)} {unit}</text>"
        )
    return "".join(lines) + "</svg>"


def rows(figures: Figures) -> str:
    """A table of all values."""
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in figures[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_number(value))}</td>" for value in one.values()) + "</tr>"
        for one in figures
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
    if isinstance(value, list):
        return " → ".join(map(_number, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
