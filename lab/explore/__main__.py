"""`python -m lab.explore`: our handler and the peers through every schedule within the budgets.

python -m lab.explore --short                            half a minute
python -m lab.explore --replay lab/results/booked-twice.json
"""

import re
import sys
import time
from pathlib import Path

import click

from demo.declared import CONSUMER as DECLARED
from lab.explore import exploration
from lab.explore.budgets import BY_NAME
from lab.explore.exploration import SUBJECTS, Explored, Results, to_json
from lab.figures import explorations_table, page, peers_table
from lab.laws import OF_CALLS
from lab.peers.peers import PEERS
from oneslot.errors import OneslotError
from oneslot.explorer.counterexample import Counterexample, NotReplayable, replay
from oneslot.operator.cli import run_command
from oneslot.operator.options import FILE
from oneslot.operator.terminal import Terminal

DIRECTORY = click.Path(file_okay=False, writable=True, path_type=Path)


@click.command()
@click.option("--short", is_flag=True, help="Use the budgets of `make test`: less than a minute.")
@click.option("--save", type=DIRECTORY, help="Write each counterexample to this directory, for --replay.")
@click.option("--write", type=DIRECTORY, help="Write the figures and their tables to this directory.")
@click.option("--replay", type=FILE, help="Replay the counterexample in this file on the current code.")
def explore(short: bool, save: Path | None, write: Path | None, replay: Path | None) -> int:
    """Explore our handler and the peers', and print what was covered and what broke.

    Exit status 0 only if no schedule of ours breaks a law, and every peer breaks its known laws.
    """
    terminal = Terminal()
    if replay is not None:
        return run_replay(replay, terminal)
    for directory in (save, write):
        if directory is not None:  # before the exploration, so that an unusable directory costs no time
            directory.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with terminal.working("Exploring every schedule"):
        ours, peers = exploration.explore_all(short, lambda explored: _say_explored(terminal, explored))
    results = Results(ours, peers, time.perf_counter() - started)
    if save is not None:
        _save(save, results, terminal)
    if write is not None:
        (write / "explored.json").write_text(to_json(results))
        (write / "explored.md").write_text(page(results.document))
        terminal.say(f"Wrote explored.json and explored.md to {write}")
    _show(terminal, results)
    return 0 if results.holds else 1


def run_replay(path: Path, terminal: Terminal) -> int:
    """Replay the counterexample in a file, and show each step. Return the exit status: 1 if it still breaks a law.

    Raises `OneslotError` for a file that cannot be replayed.
    """
    try:
        kept = Counterexample.from_json(path.read_text(errors="replace"))
        subject, scenario = SUBJECTS.get(kept.subject), BY_NAME.get(kept.scenario)
        if subject is None or scenario is None:
            raise OneslotError(f"{path}: there is no handler '{kept.subject}' or no scenario '{kept.scenario}'.")
        replayed = replay(kept, scenario, subject)
    except NotReplayable as error:
        raise OneslotError(f"{path}: {error}.") from error
    for line in replayed.lines:
        terminal.plain(line)
    return 1 if replayed.broken else 0


def _say_explored(terminal: Terminal, explored: Explored) -> None:
    figures = explored.exploration
    terminal.say(
        f"{figures.subject}: {figures.scenario} ({figures.size}): {figures.schedules:,} schedules,"
        f" {figures.violating:,} violating, {figures.seconds:.1f} s"
    )


def _show(terminal: Terminal, results: Results) -> None:
    document = results.document
    terminal.lines(explorations_table(document))
    terminal.lines(peers_table(document["peers"]))
    for explored in results.ours:
        for found in explored.counterexamples:
            figures = explored.exploration
            terminal.plain(f"{figures.scenario} ({figures.size}): {'; '.join(found.laws)}", style="bold red")
    terminal.plain("The laws:")
    for name, sentence in {**{law.name: law.sentence for law in DECLARED.laws}, **OF_CALLS}.items():
        terminal.plain(f"  {name:4} {sentence}")
    for number, line in enumerate(ending(results)):
        terminal.plain(line, style=("bold green" if results.holds else "bold red") if not number else "")


def ending(results: Results) -> list[str]:
    """Return the verdict, what was explored, and how many of the peers were found to be broken."""
    totals = results.document["totals"]
    found = sum(bool(one.exploration.laws_broken) for one in results.peers[: len(PEERS)])
    return [
        "PASS" if results.holds else "FAIL",
        f"Our explorations: {len(results.ours)}; {totals['schedules']:,} schedules, {totals['violating']:,} violating;"
        f" {totals['executions']:,} executions in {results.seconds:,.0f} s.",
        f"{found} of {len(PEERS)} broken handlers found.",
    ]


def _save(directory: Path, results: Results, terminal: Terminal) -> None:
    for explored in (*results.ours, *results.peers):
        for number, found in enumerate(explored.counterexamples, 1):
            figures = explored.exploration
            # With the size, because a scenario is explored with several.
            name = f"{figures.subject} {figures.scenario} {figures.size} {number}".lower().replace(" ", "-")
            path = directory / f"{re.sub('[,:=]', '', name)}.json"
            path.write_text(found.to_json())
            terminal.say(f"Wrote {path}. Replay it: python -m lab.explore --replay {path}")


if __name__ == "__main__":
    sys.exit(run_command(lambda: explore.main(standalone_mode=False), as_json=False))
