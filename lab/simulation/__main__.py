"""`python -m lab.simulation`: run the whole system on a virtual clock, under seeds and faults, or replay one run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lab.simulation.command import Options, run_replay, run_simulation
from oneslot.cli import run_command
from oneslot.options import COUNT, FILE, Number, json_option
from oneslot.terminal import Terminal

DIRECTORY = click.Path(file_okay=False, writable=True, path_type=Path)


@click.command()
@click.option(
    "--scenario",
    "scenarios",
    metavar="NAME",
    multiple=True,
    help="Run this scenario. Default: all.",
)
@click.option("--seed", metavar="N", type=int, help="Run this one seed, and print what happens step by step.")
@click.option("--first", metavar="N", type=int, default=0, show_default=True, help="Begin with seed N.")
@click.option("--seeds", metavar="N", type=COUNT, help="Run N seeds of each scenario. Default: 200.")
@click.option("--seconds", metavar="N", type=Number(0, min_open=True), help="Run seeds for N seconds.")
@click.option(
    "--every-place", is_flag=True, help="Instead of seeds: one fault, at every call and statement of a small run."
)
@click.option("--save", type=DIRECTORY, help="Shrink and write counterexamples to this directory, for --replay.")
@click.option("--write", type=DIRECTORY, help="Write the figures to this directory.")
@click.option("--replay", type=FILE, help="Replay the counterexample in this file on the current code.")
@json_option
def simulate(  # noqa: PLR0917 - click passes them by name
    scenarios: tuple[str, ...],
    seed: int | None,
    first: int,
    seeds: int | None,
    seconds: float | None,
    every_place: bool,
    save: Path | None,
    write: Path | None,
    replay: Path | None,
    as_json: bool,
) -> int:
    """Simulate workers, mapping, producers and operators on a virtual clock, with crashes and a bad network.

    \b
    python -m lab.simulation                                  200 seeds of each scenario
    python -m lab.simulation --scenario workers --seed 7      one run, step by step
    python -m lab.simulation --seconds 3600 --save found      an hour; counterexamples, shrunk, to found/

    The same seed and code give the same run. Exit status 0 only if no run breaks a law.
    """
    if sum(given is not None for given in (seed, seeds, seconds, replay)) + every_place > 1:
        raise click.UsageError("Give one of --seed, --seeds, --seconds, --every-place and --replay.")
    terminal = Terminal(as_json)
    if replay is not None:
        return run_replay(replay, terminal)
    return run_simulation(Options(scenarios, seed, first, seeds, seconds, every_place, save, write), terminal)


if __name__ == "__main__":
    sys.exit(run_command(lambda: simulate.main(standalone_mode=False), as_json="--json" in sys.argv))
