"""Make each defect of the table in a copy of the code, and run its search there: `python -m lab.mutants [WORD ...]`.

WORD chooses the defects with this text in their name, file or search. Exit status 1 if a search does not find the law that
the table names, or finds one without the defect.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PARTS = ("oneslot", "lambda_src", "demo", "lab", "oneslot.toml")
SECONDS = 300
"""The longest search. The unchanged code takes a tenth of it."""


def run(copy: Path, law: str, searches: Sequence[str]) -> str:
    """Return the laws that these searches find broken in a copy of the code; or that they end with an error, or not."""
    environment = {**os.environ, "PYTHONPATH": f"{copy}:{copy / 'lambda_src'}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "lab.mutants.search", law, *searches]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "no end"
    return done.stdout.strip() if not done.returncode else f"an error: {done.stderr.splitlines()[-1:]}"


def judge(edits: Sequence[Edit]) -> list[str]:
    """Judge these defects, and print each with what its search found. Return what is wrong."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for part in map(ROOT.joinpath, PARTS):
            ignored = shutil.ignore_patterns("__pycache__", "results")
            shutil.copytree(part, copy / part.name, ignore=ignored) if part.is_dir() else shutil.copy(part, copy)
        found = run(copy, "", list(dict.fromkeys(edit.search for edit in edits)))
        wrong = [f"without a defect: {found}"] if found else []
        for edit in edits:
            path = copy / edit.file
            original = path.read_text()
            path.write_text(edit.apply(original))
            found = run(copy, edit.law, [edit.search])
            path.write_text(original)
            sys.stdout.write(f"{edit.defect}: {found or 'nothing'} ({edit.search})\n")
            sys.stdout.flush()
            if edit.law not in found.split():
                wrong.append(f"{edit.defect}: {edit.search} finds {found or 'nothing'}, and not {edit.law}")
    return wrong


ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("edits.txt")


class Outdated(AssertionError):
    """The file does not have the text before exactly once; write the edit again."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A defect: `before` becomes `after`. `search` is `explore SCENARIO`, `simulate SCENARIO SEED`, `replay NAME`
    or `judge SEED`, of the audit's quick look; `derive SEED` of the one that follows from a declaration."""

    file: str
    search: str
    law: str
    defect: str
    before: str
    after: str

    def apply(self, source: str) -> str:
        """Return the edited source. Raises `Outdated`."""
        if source.count(self.before) != 1:
            raise Outdated(f"{self.defect}: {self.file} has {self.before!r} {source.count(self.before)} times")
        return source.replace(self.before, self.after)


def read_edits() -> Iterator[Edit]:
    """Yield the edits of the table. Lines with `@` begin an edit, those with `<` and `>` are the texts before and after."""
    for block in TABLE.read_text().split("@ ")[1:]:
        head, *lines = block.splitlines()
        before, after = ("\n".join(line[2:] for line in lines if line[:1] == mark) for mark in "<>")
        file, search, law, defect = head.split(" | ")
        yield Edit(file, search, law, defect, before, after)


if __name__ == "__main__":
    chosen = [edit for edit in read_edits() if not sys.argv[1:] or any(word in str(edit) for word in sys.argv[1:])]
    problems = judge(chosen)
    sys.stdout.write("".join(f"{line}\n" for line in [*problems, f"{len(chosen)} defects, {len(problems)} problems."]))
    sys.exit(bool(problems))
