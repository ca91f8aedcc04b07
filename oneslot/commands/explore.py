"""`prove`: every schedule and fault within a budget, on the real handler; or one path of it again, step by step."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from rich.table import Table

from oneslot.errors import OneslotError
from oneslot.options import FILE, json_option
from oneslot.terminal import Terminal, table

if TYPE_CHECKING:
    from verification.mutation.mutants import Verdict
    from verification.scenarios.exploration import Explored, Proof

IGNORED = {
    "replay": ("short", "mutants", "only_mutants", "record", "save", "write"),
    "only_mutants": ("short", "mutants", "save", "write"),
    "short": ("record",),
}
"""Options, and those that would make no difference beside them."""

DIRECTORY = click.Path(file_okay=False, writable=True, path_type=Path)


@click.command(short_help="Run the handler through every schedule and fault within a budget.")
@click.option("--short", is_flag=True, help="The budgets of `make test`: less than a minute.")
@click.option(
    "--mutants/--no-mutants", default=True, help="Also spoil the core in every way, and see that it is noticed."
)
@click.option("--only-mutants", is_flag=True, help="Do nothing but that.")
@click.option("--record", is_flag=True, help="Check the mutants' score in as the expected one.")
@click.option("--save", type=DIRECTORY, help="Write each counterexample to this directory, for --replay.")
@click.option("--write", type=DIRECTORY, help="Write the figures, the table and the picture to this directory.")
@click.option("--replay", type=FILE, help="Walk the path in this file on the code as it is now, and tell each step.")
@json_option
def prove(  # noqa: PLR0917 - click passes them by name
    short: bool,
    mutants: bool,
    only_mutants: bool,
    record: bool,
    save: Path | None,
    write: Path | None,
    replay: Path | None,
    as_json: bool,
) -> int:
    """Explore our handler and the museum's, then the mutants of ours; print what was covered and what broke.

    Exit status 0 only if no schedule of ours breaks a law, every exhibit of the museum is found out, and every mutant is
    caught or explained, as checked in.
    """
    _refuse_what_would_be_ignored()
    terminal = Terminal(as_json)
    if replay is not None:
        return _replay(replay, terminal)
    if only_mutants:
        return _show_mutants(terminal, *_mutants(terminal, record))
    for directory in (save, write):
        if directory is not None:  # what cannot be made shows before the exploration, and not after it
            directory.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    from verification.scenarios.exploration import Proof, explore_all

    def told(one: Explored) -> None:
        known = one.exploration
        terminal.say(
            f"{known.subject}: {known.scenario} ({known.size}): {known.schedules:,} schedules,"
            f" {known.violating:,} violating, {known.seconds:.1f} s"
        )

    with terminal.working("Exploring every schedule"):
        ours, museum = explore_all(short, told)
    proof = Proof(ours, museum, (), (), time.perf_counter() - started)
    # Kept at once: the mutants take as long again, and whatever may happen to them is no reason to lose these.
    if save is not None:
        _save(save, proof, terminal)
    if write is not None:
        _write(write, proof, terminal)
    if mutants and not short:
        verdicts, unexpected = _mutants(terminal, record)
        proof = replace(proof, mutants=verdicts, unexpected=unexpected)
        if write is not None:
            _write(write, proof, terminal)
    terminal.result(proof.document)
    _show(terminal, proof)
    return 0 if proof.holds else 1


def _refuse_what_would_be_ignored() -> None:
    context = click.get_current_context()
    options = {
        option.name: "/".join([*option.opts, *option.secondary_opts])
        for option in context.command.params
        if context.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT
    }
    for name, others in IGNORED.items():
        idle = [options[other] for other in others if other in options]
        if name in options and idle:
            raise click.UsageError(
                f"{options[name]} does nothing with {', '.join(idle)}; leave out the one or the other."
            )


def _mutants(terminal: Terminal, record: bool) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    from verification.mutation import mutants

    every = mutants.all_mutants()
    with terminal.progress("Mutants", len(every)) as advance:
        verdicts = mutants.judge_all(every, told=lambda _: advance())
    if record:
        mutants.record(verdicts)
    return tuple(verdicts), tuple(mutants.differences(verdicts))


def _show_mutants(terminal: Terminal, verdicts: tuple[Verdict, ...], unexpected: tuple[str, ...]) -> int:
    from verification.mutation.mutants import NOBODY
    from verification.scenarios.picture import mutants_score

    counts = Counter(verdict.by for verdict in verdicts)
    holds = not unexpected and not counts[NOBODY]
    terminal.result({"holds": holds, "mutants": dict(counts), "unexpected": list(unexpected)})
    terminal.plain(mutants_score(counts), style="bold green" if holds else "bold red")
    for verdict in verdicts:
        if verdict.by == NOBODY:
            terminal.plain(f"  lives: {verdict.mutant.name}: {verdict.mutant.change}", style="bold red")
    for line in unexpected:
        terminal.plain(f"  {line}", style="bold red")
    return 0 if holds else 1


def _replay(path: Path, terminal: Terminal) -> int:
    from oneslot.explorer.counterexample import Counterexample, NotReplayable, replay
    from verification.scenarios.exploration import subject_named
    from verification.scenarios.group_scenarios import GROUPS_BY_NAME
    from verification.scenarios.scenarios import BY_NAME

    try:
        kept = Counterexample.from_json(path.read_text(errors="replace"))
        subject, scenario = subject_named(kept.subject), {**BY_NAME, **GROUPS_BY_NAME}.get(kept.scenario)
        if subject is None or scenario is None:
            raise OneslotError(f"{path}: no handler '{kept.subject}' or no scenario '{kept.scenario}' here.")
        told = replay(kept, scenario, subject)
    except NotReplayable as error:
        raise OneslotError(f"{path}: {error}.") from error
    terminal.result({"lines": list(told.lines), "broken": list(told.broken)})
    for line in told.lines:
        terminal.plain(line)
    return 1 if told.broken else 0


def _show(terminal: Terminal, proof: Proof) -> None:
    terminal.show(_table("Oneslot", "Scenario", proof.ours), _table("The museum", "Handler", proof.museum))
    for one in proof.ours:
        for found in one.counterexamples:
            known = one.exploration
            terminal.plain(f"{known.scenario} ({known.size}): {'; '.join(found.laws)}", style="bold red")
    if proof.mutants:
        _show_mutants(terminal, proof.mutants, proof.unexpected)
    totals = proof.document["totals"]
    terminal.plain(
        f"{totals['schedules']:,} schedules of ours, {totals['violating']:,} violating;"
        f" {totals['executions']:,} executions in {proof.seconds:,.0f} s.",
        style="bold green" if proof.holds else "bold red",
    )


def _table(title: str, what: str, explored: tuple[Explored, ...]) -> Table:
    columns = (what, "Budget", "Schedules", "Violating", "States", "Executions", "Seconds", "Laws broken")
    made = table(title, *columns, numbers=(2, 3, 4, 5, 6))
    for one in explored:
        known = one.exploration
        made.add_row(
            known.subject if title != "Oneslot" else known.scenario,
            known.size,
            f"{known.schedules:,}",
            f"{known.violating:,}",
            f"{known.states:,}",
            f"{known.executions:,}",
            f"{known.seconds:.1f}",
            ", ".join(known.laws_broken) or "none",
        )
    return made


def _save(directory: Path, proof: Proof, terminal: Terminal) -> None:
    for one in (*proof.ours, *proof.museum):
        for number, found in enumerate(one.counterexamples, 1):
            known = one.exploration
            # With its size: the same scenario is explored with several.
            name = f"{known.subject} {known.scenario} {known.size} {number}".lower().replace(" ", "-")
            path = directory / f"{re.sub('[,:=]', '', name)}.json"
            path.write_text(found.to_json())
            terminal.say(f"Wrote {path}; tell it with: oneslot prove --replay {path}")


def _write(directory: Path, proof: Proof, terminal: Terminal) -> None:
    from verification.scenarios.exploration import to_json
    from verification.scenarios.picture import museum_picture, page

    (directory / "explored.json").write_text(to_json(proof))
    (directory / "explored.md").write_text(page(proof))
    (directory / "museum.svg").write_text(museum_picture([one.exploration for one in proof.museum]))
    terminal.say(f"Wrote explored.json, explored.md and museum.svg to {directory}")
