"""`scan`: every function of a template through the explorer, and its mappings through the rules."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oneslot.errors import HandlerNotExplorable
from oneslot.operator.options import FILE, NameValue, Number, json_option
from oneslot.operator.terminal import Terminal, table

if TYPE_CHECKING:
    from oneslot.explorer.scan.judging import Row
    from oneslot.explorer.scan.scan import Scan

STYLES = {"holds": "green", "breaks": "red", "fault": "red"}


class NewPath(click.Path):
    """A file to write in a folder that exists, or a folder to make with those above it. It is refused before the scan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raise a usage error for what cannot be written."""
        path: Any = super().convert(value, param, ctx)
        folder = path.parent if self.file_okay else next(each for each in path.absolute().parents if each.exists())
        click.Path(exists=True, file_okay=False, writable=True).convert(folder, param, ctx)
        return path


NEW_FILE = NewPath(dir_okay=False, writable=True, path_type=Path)
NEW_FOLDER = NewPath(file_okay=False, writable=True, path_type=Path)


@click.command(short_help="Explore every function of a template, and check its event source mappings.")
@click.argument("template", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--budget",
    type=Number(min=1),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="For all functions together.",
)
@click.option("--function", "only", multiple=True, metavar="ID", help="Scan this logical id alone. Repeatable.")
@click.option(
    "--events",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of recorded events: ID.json, one whole event of the function's source.",
)
@click.option(
    "--env",
    multiple=True,
    type=NameValue("variable", "TABLE=orders"),
    metavar="NAME=VALUE",
    help="A variable of every function. Repeatable.",
)
@click.option(
    "--parameter",
    multiple=True,
    type=NameValue("parameter", "Stage=dev"),
    metavar="NAME=VALUE",
    help="A parameter of the stack. Repeatable.",
)
@click.option("--packages", type=NEW_FOLDER, help="Install each function's requirements.txt here, and import from it.")
@click.option("--sarif", type=NEW_FILE, help="Write the results as SARIF 2.1.0 to this file.")
@click.option("--summary", type=NEW_FILE, help="Append a summary in Markdown to this file.")
@click.option("--baseline", type=FILE, help="Known breaches and functions without a verdict, which do not fail.")
@click.option("--write-baseline", type=NEW_FILE, help="Write what is found as known to this file.")
@click.option(
    "--write-test", type=NEW_FOLDER, help="Write a failing pytest on moto for each new breach to this folder."
)
@click.option("--verbose", is_flag=True, help="Show each step of the shortest paths, with the rows.")
@json_option
def scan(
    *,
    template: Path,
    budget: float,
    only: tuple[str, ...],
    events: Path | None,
    env: Sequence[tuple[str, str]],
    parameter: Sequence[tuple[str, str]],
    packages: Path | None,
    sarif: Path | None,
    summary: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    write_test: Path | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Explore every function of a SAM or CloudFormation template, or of cdk.out, by the events of its sources.

    Exit status 0 if each function is judged and nothing new breaks, 1 for a new breach or a mapping that breaks a rule,
    4 for a function without a verdict that the baseline does not name, and 3 if only the budget ended first.
    """
    # Not imported before it is used: it needs `oneslot[explorer]`.
    from oneslot.explorer.refusal import NotExplorable
    from oneslot.explorer.scan import report
    from oneslot.explorer.scan.scan import scan as scan_template

    terminal = Terminal(as_json)

    def say(row: Row) -> None:
        terminal.say(
            f"{row.function}, {row.source}: {row.verdict}, {row.seconds:.1f} s", STYLES.get(row.verdict, "yellow")
        )

    try:
        known = report.read_baseline(baseline) if baseline else set()
        found = scan_template(
            template,
            budget=budget,
            events=events,
            parameters=dict(parameter),
            env=dict(env),
            only=only,
            packages=packages,
            on_row=say,
        )
    except NotExplorable as error:
        raise HandlerNotExplorable(str(error)) from error
    new = report.failures(found, known)
    _show(found, known, terminal, verbose=verbose)
    if sarif:
        sarif.write_text(json.dumps(report.sarif(found, known), indent=2) + "\n")
    if summary:
        with summary.open("a") as file:
            file.write(report.markdown(found, known))
    if write_test:
        _write_tests([row for row in found.rows if row in new and row.test], write_test, terminal)
    if write_baseline:
        write_baseline.write_text(report.baseline_text(found))
    terminal.result(report.document(found, known))
    return 0 if write_baseline else report.status(found, known)


def _show(found: Scan, known: Collection[str], terminal: Terminal, *, verbose: bool) -> None:
    """Show the tables, the event and the path of what is not known and does not hold, and the values that were assumed."""
    from oneslot.explorer.scan import report

    shown = table(f"Functions of {found.template}", "function", "source", "verdict", "steps", "why", numbers=(3,))
    for row in found.rows:
        shown.add_row(*report.cells_of(row, known), style=STYLES.get(row.verdict, "yellow"))
    terminal.show(shown)
    rules = table("Mappings", "mapping", "rule", "why")
    for one in found.findings:
        is_known = " (known)" if report.key_of(one) in known else ""
        style = "red" if one.severity == "error" and not is_known else ""
        mapping = f"{one.function}: {one.source}"
        rules.add_row(mapping, f"{one.severity}{is_known}: {one.rule}", one.sentence, style=style)
    if found.findings:
        terminal.show(rules)
    for row in found.rows:
        story = row.story(verbose=verbose)
        if story and report.key_of(row) not in known:
            terminal.lines(f"\n{row.function}, {row.source}: {row.why}\n{story}")
    assumed = dict.fromkeys(one for row in found.rows for one in row.assumed)
    if assumed:
        terminal.say(f"assumed {', '.join(assumed)}. Give values with --parameter and --env.")
    terminal.lines(f"\n{report.conclusion(found, known)}")


def _write_tests(rows: Sequence[Row], folder: Path, terminal: Terminal) -> None:
    from oneslot.explorer.scan.judging import NO_TEST
    from oneslot.explorer.scan.written_test import file_name, why_not

    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        said = row.test
        if not said.startswith(NO_TEST):
            file = folder / file_name(row.function, row.source)
            file.write_text(row.test)
            said = str(file)
            if why := why_not(file):
                file.unlink()
                said = f"{NO_TEST}{why}"
        terminal.plain(f"{row.function}, {row.source}: {said}")
