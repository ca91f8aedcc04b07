"""Print the size of each room beside its budget, and fail above one. `budget.toml` has the numbers.

Lines are of tracked Python files, blank ones included, and in tests of text files too: snapshots and transcripts.
Words are of the pages in `docs` and the README.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def measured(kind: str, paths: list[str]) -> int:
    """Return the lines, words or pages of the tracked files below these paths that the kind counts."""
    endings = {"lines": [".py"], "lines with text": [".py", ".txt"], "words": [".md"], "pages": [".md"]}[kind]
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.splitlines()]
    texts = [one.read_text("utf-8") for one in files if one.suffix in endings and one.exists()]
    if kind == "pages":
        return len(texts)
    return sum(len(text.split()) if kind == "words" else text.count("\n") for text in texts)


def main() -> int:
    """Return 1 if a room is above its budget."""
    rooms = tomllib.loads((ROOT / ".ci" / "budget.toml").read_text("utf-8"))
    above = []
    print(f"{'room':60}{'now':>10}{'budget':>10}")  # noqa: T201 - the table is its output
    for name, room in rooms.items():
        now = measured(room["counts"], room["paths"])
        print(f"{name + ', ' + room['counts']:60}{now:>10,}{room['budget']:>10,}")  # noqa: T201
        above += [name] if now > room["budget"] else []
    if above:
        sys.stderr.write(f"Above the budget: {'; '.join(above)}. Remove lines, or decide in an issue to raise it.\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
