"""Record what a first run shows on a terminal, with its times, and draw it as an SVG that plays.

`python -m lab.documentation.recording` runs the quickstart and `oneslot run`, keeps their lines and times in
lab/results/recording.json, and writes the SVG and the picture of the report to docs/images.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

from lab.documentation.site import DOCUMENTATION, REPOSITORY

KEPT = REPOSITORY / "lab" / "results" / "recording.json"
PICTURE = DOCUMENTATION / "images" / "recording.svg"
REPORT = DOCUMENTATION / "images" / "report.png"
COMMANDS = (("python quickstart.py", ["quickstart.py"]), ("make run", ["-m", "oneslot", "run"]))
"""Each command as a reader types it, and the arguments of the interpreter that runs it."""
COLUMNS = 112
LONGEST_WAIT = 1.2
"""The longest wait between two lines when the recording plays (s). The times in the lines are the true ones."""

_LINE, _TOP, _CHARACTER = 19, 46, 7.6
_STYLE = """
  .page { fill: #0d1117 } text { font: 12.6px ui-monospace, Menlo, Consolas, monospace; fill: #e6edf3 }
  .command { fill: #3fb950; font-weight: 600 } .end { fill: #3fb950; font-weight: 700 }
  .later { opacity: 0; animation: show 0.01s forwards }
  @keyframes show { to { opacity: 1 } }
  @media (prefers-reduced-motion: reduce) { .later { animation: none; opacity: 1 } }
"""
Line = tuple[float, str]


def record() -> list[Line]:
    """Run the commands, and return each line with the seconds since the start. Raises `CalledProcessError`."""
    start, lines = time.monotonic(), list[Line]()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    for typed, arguments in COMMANDS:
        lines.append((round(time.monotonic() - start, 1), f"$ {typed}"))
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            for line in process.stdout or ():
                lines.append((round(time.monotonic() - start, 1), line.rstrip()))
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, typed, "\n".join(text for _, text in lines))
    return lines


def picture(lines: Sequence[Line]) -> str:
    """Return an SVG in which the lines appear in their order, with waits of `LONGEST_WAIT` at most."""
    texts = [(at, text) for at, text in lines if text.strip()]
    height = _TOP + _LINE * len(texts) + 12
    width = round(COLUMNS * _CHARACTER + 32)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="'
        'A terminal: python quickstart.py, then make run, to its verdict">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        '<circle cx="20" cy="18" r="5" fill="#ff5f57"/><circle cx="38" cy="18" r="5" fill="#febc2e"/>'
        '<circle cx="56" cy="18" r="5" fill="#28c840"/>',
    ]
    shown, before = 0.3, 0.0
    for number, (at, text) in enumerate(texts):
        shown += min(max(at - before, 0.04), LONGEST_WAIT)
        before = at
        kind = "later command" if text.startswith("$ ") else "later"
        if re.search(r"0 lost|Exactly once|exactly once", text):
            kind = "later end"
        parts.append(
            f'<text class="{kind}" style="animation-delay:{shown:.2f}s" x="16" y="{_TOP + _LINE * number}" '
            f'xml:space="preserve">{escape(text[:COLUMNS])}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def report_of(lines: Sequence[Line]) -> Path | None:
    """Return the report that the run names, or None."""
    named = [Path(match) for _, text in lines for match in re.findall(r"(\S+\.html)", text)]
    files = [path if path.is_absolute() else REPOSITORY / path for path in named]
    return next((path for path in reversed(files) if path.exists()), None)


def photograph(report: Path, to: Path = REPORT) -> None:
    """Write the top of the report as a PNG. Needs Chromium (`make browser`)."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("Chromium is missing, so the report has no picture. Run `make browser`.")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000"]
    subprocess.run(
        [browser, *options, "--window-size=1200,900", f"--screenshot={to}", report.resolve().as_uri()],
        check=True,
        capture_output=True,
    )


def main() -> None:
    """Record, and write both pictures."""
    recorded = record()
    home = os.environ.get("ONESLOT_HOME", str(REPOSITORY / ".oneslot"))
    lines = [(at, text.replace(home, ".oneslot")) for at, text in recorded]
    KEPT.write_text(json.dumps(lines, indent=0) + "\n", encoding="utf-8")
    PICTURE.write_text(picture(lines), encoding="utf-8")
    report = report_of(recorded)
    if report is not None:
        photograph(report)
    sys.stderr.write(f"Wrote {PICTURE.name}{f' and {REPORT.name}' if report else ''}.\n")


if __name__ == "__main__":
    main()
