"""`python -m lab.simulation`: run the whole system on a virtual clock, under seeds and faults, or replay one run."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from lab.figures import LEFT, RIGHT, table
from lab.simulation import figures
from lab.simulation.counterexample import from_json, shrink, story, to_json
from lab.simulation.run import SCENARIOS, points, run
from lab.simulation.world.simulation import Plan
from oneslot.errors import OneslotError
from oneslot.explorer.counterexample import NotReplayable
from oneslot.operator.cli import run_command
from oneslot.operator.options import COUNT, FILE, Number
from oneslot.operator.terminal import Terminal

DIRECTORY = click.Path(file_okay=False, writable=True, path_type=Path)
SEEDS = 200
"""Seeds of each scenario, where neither seeds nor seconds are given."""


@click.command()
@click.option(
    "--scenario", "scenarios", metavar="NAME", multiple=True, type=click.Choice(list(SCENARIOS)), help="Default: all."
)
@click.option("--seed", metavar="N", type=int, help="Run this one seed, and print what happens step by step.")
@click.option("--first", metavar="N", type=int, default=0, show_default=True, help="Begin with seed N.")
@click.option("--seeds", metavar="N", type=COUNT, help=f"Run N seeds of each scenario. Default: {SEEDS}.")
@click.option("--seconds", metavar="N", type=Number(0, min_open=True), help="Run seeds for N seconds.")
@click.option("--save", type=DIRECTORY, help="Shrink and write counterexamples to this directory, for --replay.")
@click.option("--write", type=DIRECTORY, help="Write the figures to this directory.")
@click.option("--replay", type=FILE, help="Replay the counterexample in this file on the current code.")
def simulate(  # noqa: PLR0917 - click passes them by name
    scenarios: tuple[str, ...],
    seed: int | None,
    first: int,
    seeds: int | None,
    seconds: float | None,
    save: Path | None,
    write: Path | None,
    replay: Path | None,
) -> int:
    """Simulate workers, mapping, producers and operators on a virtual clock, with crashes and a bad network.

    \b
    python -m lab.simulation                                  200 seeds of each scenario
    python -m lab.simulation --scenario workers --seed 7      one run, step by step
    python -m lab.simulation --seconds 3600 --save found      an hour; counterexamples, shrunk, to found/

    The same seed and code give the same run. Exit status 0 only if no run breaks a law.
    """
    if sum(given is not None for given in (seed, seeds, seconds, replay)) > 1:
        raise click.UsageError("Give one of --seed, --seeds, --seconds and --replay.")
    names = scenarios or tuple(SCENARIOS)
    if replay is not None:
        try:
            name, plan = from_json(replay.read_text(errors="replace"))
        except NotReplayable as error:
            raise OneslotError(f"{replay}: {error}.") from error
        return _tell(name, plan)
    if seed is not None:
        return max(_tell(name, Plan(seed)) for name in names)
    for directory in (save, write):
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
    started, terminal = time.perf_counter(), Terminal()
    seeds = SEEDS if seeds is None and seconds is None else seeds
    with terminal.progress("Seeds", None if seeds is None else seeds * len(names)) as advance:
        found = figures.simulate(
            names, first=first, seeds=seeds, seconds=seconds, each=lambda newest: advance(newest.counts["seeds"])
        )
    if write is not None:
        document = {**figures.document(found), "seconds": round(time.perf_counter() - started, 1), "first": first}
        (write / "simulated.json").write_text(json.dumps(document, indent=2) + "\n")
    _show(found)
    if save is not None:
        _save(found, save)
    return int(any(each.broken for each in found.values()))


def _tell(name: str, plan: Plan) -> int:
    """Print what happens in a run, step by step. Return 1 if it breaks a law."""
    with points() as modules:
        done = run(name, plan, modules)
    for line in story(done):
        click.echo(line)
    click.echo(f"{done.steps:,} steps, {done.seconds:,.0f} virtual seconds, trace {done.trace[:16]}")
    return int(bool(done.breaches))


def _show(found: Mapping[str, figures.Figures]) -> None:
    rows: Sequence[tuple[str, figures.Figures]] = [*found.items(), ("all", figures.total(found.values()))]
    cells = [[name, *(f"{value:,}" for value in each.document.values())] for name, each in rows]
    header = ["scenario", *(name.replace("_", " ") for name in figures.Figures().document)]
    click.echo(table(header, cells, [LEFT, *[RIGHT] * (len(header) - 1)]), nl=False)
    for name, each in found.items():
        for seed, laws in each.broken:
            click.secho(f"{name}, seed {seed}: {', '.join(laws)}", bold=True, fg="red")


def _save(found: Mapping[str, figures.Figures], directory: Path) -> None:
    """Shrink and keep the first counterexample of each scenario."""
    with points() as modules:
        for name, each in found.items():
            for seed, _ in each.broken[:1]:
                path = directory / f"{name}-{seed}.json"
                path.write_text(to_json(shrink(run(name, Plan(seed), modules), modules)))
                click.echo(f"Wrote {path}. Replay it: python -m lab.simulation --replay {path}")


if __name__ == "__main__":
    sys.exit(run_command(lambda: simulate.main(standalone_mode=False), as_json=False))
