"""Judge the mutants of the whole system: `python -m lab.simulation.mutants`. Exit status 1 for a problem."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from lab.simulation.mutants.changes import CHANGES
from lab.simulation.mutants.judging import Judged, judge_all, problems, record
from oneslot.cli import run_command
from oneslot.terminal import Terminal


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, and nothing else.")
@click.option("--record", "recorded", is_flag=True, help="Record the judgements as the expected ones.")
def main(*, as_json: bool, recorded: bool) -> int:
    """Let the simulation judge each mutant of worker, mapping, order, sending and repair."""
    terminal = Terminal(as_json)

    def show(judged: Judged) -> None:
        terminal.plain(f"{judged.change.defect}: {judged.found or judged.change.guard or 'LIVES'}")

    judged = judge_all(CHANGES, show)
    found = {each.change.defect: each.found for each in judged}
    if recorded:
        record(judged)
    wrong = problems(found)
    for line in wrong:
        terminal.plain(line, style="bold red")
    dead = sum(map(bool, found.values()))
    terminal.plain(f"{dead} of {len(found)} mutants die.", style="bold red" if wrong else "bold green")
    terminal.result({"mutants": found, "problems": wrong})
    return int(bool(wrong))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return the exit status."""
    return run_command(
        lambda: main.main(list(arguments), "python -m lab.simulation.mutants", standalone_mode=False),
        as_json="--json" in arguments,
    )


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
