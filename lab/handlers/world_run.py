"""Explore what the rule of `world` chooses: `python -m lab.handlers.world_run CLONES [--only TEXT]`.

CLONES has a clone of each repository, named OWNER+NAME. What the handlers import is found on PYTHONPATH. Each function
is scanned in a process of its own. `world_given.py` has the values that the scan cannot guess.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from lab.handlers.figures import WORLD, keep, kept, shown_path
from lab.handlers.world import REPOSITORIES, Chosen, chosen
from lab.handlers.world_given import GIVEN
from oneslot.explorer.scan.scan import scan

CPU_S = 60
"""The CPU seconds of a function."""
BUDGET_S = 240
"""The seconds of its scan: more than its CPU seconds, because other processes share the machine."""


def run(clones: Path, repository: str, one: Chosen) -> dict[str, Any]:
    """Scan one function in this process, which it limits, and return its row."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    key = f"{repository}/{one.template}#{one.function}"
    clone = clones / repository.replace("/", "+")
    given = dict(GIVEN.get(key, {}))
    names = sorted(given)
    if "path" in given:
        given["path"] = [str((clone / one).resolve()) for one in given["path"]]
    env = given.pop("env", {})
    with tempfile.TemporaryDirectory() as folder:
        if given:
            text = "\n".join(f"{name} = {value!r}" for name, value in given.items())
            (Path(folder) / f"{one.function}.py").write_text(text)
        found = scan(
            clone / one.template, budget=BUDGET_S, workers=1, events=Path(folder), env=env, only=[one.function]
        )
    row = next(row for row in found.rows if row.source == one.source)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = spent.ru_utime + spent.ru_stime
    # A given event with which the handler fails or does nothing says as little as a made one.
    is_in_vain = row.why.startswith("fails when nothing goes wrong")
    verdict = "needs an event" if is_in_vain else row.verdict
    is_spent = seconds >= CPU_S - 1 and row.verdict == "refused"
    why = f"{CPU_S} CPU seconds ended first" if is_spent else row.why
    return {
        "key": key,
        "repository": repository,
        "template": one.template,
        "function": one.function,
        "source": row.source,
        "verdict": "not finished" if is_spent else verdict,
        "why": _plain(why.partition("\nTraceback")[0], clones),
        "steps": row.steps,
        "outside": list(row.outside),
        "given": names,
        "cpu_seconds": round(seconds, 1),
        "path": shown_path(_plain(row.path, clones)) if row.path else [],
    }


def _plain(text: str, clones: Path) -> str:
    """Return a text without the places of this machine."""
    return text.replace(f"{clones.resolve()}/", "").replace(f"{clones}/", "")


def all_chosen(clones: Path) -> Iterator[tuple[str, Chosen]]:
    """Yield what the rule chooses from every clone."""
    for repository in REPOSITORIES:
        for one in chosen(clones / repository.replace("/", "+")):
            yield repository, one


def main(arguments: Sequence[str] | None = None) -> int:
    """Scan, keep the rows, and fill the pages."""
    parser = argparse.ArgumentParser(prog="lab.handlers.world_run", description=__doc__)
    parser.add_argument("clones", type=Path, help="a folder with a clone of each repository")
    parser.add_argument("--only", default="", help="a pattern of the keys to scan; the others keep their rows")
    options = parser.parse_args(arguments)
    order = {
        f"{repository}/{one.template}#{one.function}": (repository, one)
        for repository, one in all_chosen(options.clones)
    }
    rows = {row["key"]: row for row in kept(WORLD)}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["oneslot.explorer.scan.scan"])
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as pool:
        waiting = [
            pool.submit(run, options.clones, *pair) for key, pair in order.items() if re.search(options.only, key)
        ]
        for done in as_completed(waiting):
            row = done.result()
            rows[row["key"]] = row
            sys.stderr.write(f"{row['key']}: {row['verdict']}, {row['cpu_seconds']} CPU s\n")
    keep(WORLD, [rows[key] for key in order if key in rows])
    return 0


if __name__ == "__main__":  # pragma: no cover
    sys.exit(main())
