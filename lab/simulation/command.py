"""Run scenarios under seeds, or replay one run; show the figures and the counterexamples."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from lab.simulation import figures, places
from lab.simulation.counterexample import from_json, story, to_json
from lab.simulation.run import SCENARIOS, Run, points, run
from lab.simulation.shrink import shrink
from lab.simulation.world.simulation import Plan
from oneslot.errors import BadInput, OneslotError
from oneslot.explorer.counterexample import NotReplayable
from oneslot.terminal import Terminal, table

SEEDS = 200
"""Seeds for each scenario, where neither seeds nor seconds are given."""

SMALL = {"messages": 2, "workers": 1, "threads": 1}
"""The numbers of a run in which every place of one fault is tried."""


@dataclass(frozen=True)
class Options:
    """The options of one run, except --replay. `seed` runs one seed and tells its story."""

    scenarios: Sequence[str] = ()
    seed: int | None = None
    first: int = 0
    seeds: int | None = None
    seconds: float | None = None
    every_place: bool = False
    save: Path | None = None
    write: Path | None = None


def run_simulation(options: Options, terminal: Terminal) -> int:
    """Simulate as the options say. Return the exit status: 1 if a law is broken."""
    names = list(options.scenarios or SCENARIOS)
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise BadInput(f"There is no scenario {unknown[0]}. Choose from {', '.join(SCENARIOS)}.")
    for directory in (options.save, options.write):
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
    if options.seed is not None:
        return max(_tell(name, Plan(options.seed), terminal) for name in names)
    if options.every_place:
        return _run_everywhere(names, options, terminal)
    return _run_seeds(names, options, terminal)


def run_replay(path: Path, terminal: Terminal) -> int:
    """Replay the counterexample in a file. Return the exit status: 1 if it still breaks a law."""
    try:
        name, plan = from_json(path.read_text(errors="replace"))
    except NotReplayable as error:
        raise OneslotError(f"{path}: {error}.") from error
    return _tell(name, plan, terminal)


def _tell(name: str, plan: Plan, terminal: Terminal) -> int:
    with points() as modules:
        done = run(name, plan, modules)
    lines = list(story(done))
    terminal.result(
        {
            "scenario": name,
            "seed": plan.seed,
            "lines": lines,
            "broken": sorted({breach.law for breach in done.breaches}),
            "steps": done.steps,
            "virtual_seconds": round(done.seconds, 3),
            "trace": done.trace,
        }
    )
    for line in lines:
        terminal.plain(line)
    terminal.plain(f"{done.steps:,} steps, {done.seconds:,.0f} virtual seconds, trace {done.trace[:16]}")
    return 1 if done.breaches else 0


def _run_seeds(names: Sequence[str], options: Options, terminal: Terminal) -> int:
    seeds = options.seeds or (SEEDS if options.seconds is None else None)
    started = time.perf_counter()
    with terminal.progress("Seeds", None if seeds is None else seeds * len(names)) as advance:
        found = figures.simulate(
            names,
            first=options.first,
            seeds=seeds,
            seconds=options.seconds,
            each=lambda _, newest: advance(newest.seeds),
        )
    elapsed = time.perf_counter() - started
    every = figures.total(found.values())
    if options.write is not None:
        document = {**figures.document(found), "seconds": round(elapsed, 1), "first": options.first}
        (options.write / "simulated.json").write_text(json.dumps(document, indent=2) + "\n")
    terminal.result({**figures.document(found), "seconds": elapsed, "holds": not every.broken})
    terminal.show(_table(found))
    for name, each in found.items():
        for seed, laws in each.broken:
            terminal.plain(f"{name}, seed {seed}: {', '.join(laws)}", style="bold red")
    _save_all([(name, seed) for name, each in found.items() for seed, _ in each.broken], options.save, terminal)
    terminal.plain(
        f"{every.seeds:,} seeds, {every.steps:,} steps, {every.virtual_seconds / 3600:,.0f} virtual hours,"
        f" {len(every.broken):,} violations, in {elapsed:,.0f} s.",
        style="bold red" if every.broken else "bold green",
    )
    return 1 if every.broken else 0


def _run_everywhere(names: Sequence[str], options: Options, terminal: Terminal) -> int:
    broken: list[Run] = []
    runs = 0
    with points() as modules:
        for name in names:
            plan = Plan(0, SMALL)
            every = places.places(name, plan, modules)
            with terminal.progress(name, len(every)) as advance:
                for done in places.run_each(name, plan, every, modules):
                    runs += 1
                    advance()
                    if done.breaches:
                        broken.append(done)
    terminal.result({"runs": runs, "violating": len(broken), "holds": not broken})
    for done in broken:
        terminal.plain(f"{done.scenario}: {done.plan.faults}: {done.breaches[0].law}", style="bold red")
        _save(done, options.save, terminal)
    terminal.plain(
        f"{runs:,} runs with one fault each, {len(broken):,} violations.",
        style="bold red" if broken else "bold green",
    )
    return 1 if broken else 0


def _save_all(found: Sequence[tuple[str, int]], directory: Path | None, terminal: Terminal) -> None:
    """Shrink and keep the first counterexample of each scenario."""
    if directory is None:
        return
    with points() as modules:
        for name in dict.fromkeys(name for name, _ in found):
            seed = next(seed for other, seed in found if other == name)
            _save(shrink(run(name, Plan(seed), modules), modules), directory, terminal)


def _save(found: Run, directory: Path | None, terminal: Terminal) -> None:
    if directory is None:
        return
    path = directory / f"{found.scenario}-{found.plan.seed}.json"
    path.write_text(to_json(found))
    terminal.say(f"Wrote {path}. Replay it: python -m lab.simulation --replay {path}")


def _table(found: Mapping[str, figures.Figures]) -> Table:
    shown = table("The whole system", "Scenario", "Seeds", "Steps", "Virtual hours", "Faults", "Violating",
                  numbers=(1, 2, 3, 4, 5))  # fmt: skip
    for name, each in found.items():
        shown.add_row(
            name,
            f"{each.seeds:,}",
            f"{each.steps:,}",
            f"{each.virtual_seconds / 3600:,.1f}",
            f"{sum(each.faults.values()):,}",
            f"{len(each.broken):,}",
        )
    return shown
