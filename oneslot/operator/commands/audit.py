"""`audit`: the Spark pipeline's judgement of a history, from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.audit.errors import AuditRefused, explain_spark_error
from oneslot.audit.layout import EXPORT_FOLDER, NO_EXPORT
from oneslot.audit.spark.session import SessionSettings
from oneslot.declaration.reading import declared
from oneslot.errors import (
    AuditDied,
    BadInput,
    HistoryRefused,
    JavaNotStarted,
    NoLocalStack,
    OneslotError,
    require_module,
)
from oneslot.laws.traces import LEDGER
from oneslot.operator.commands.check import verdicts_table
from oneslot.operator.commands.export import export_stack, new_folder, place_for, whole_histories
from oneslot.operator.explanations import explain
from oneslot.operator.options import NEW_FOLDER, SparkMemory, json_option, stack_option
from oneslot.operator.target import Target, format_command, home_folder, open_target
from oneslot.operator.terminal import Terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command(short_help="Judge every request in Spark, and write a report.")
@click.option(
    "--history",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Audit this history. Default: export the stack now.",
)
@click.option("--output", type=NEW_FOLDER, help="Write to this new folder. Default: one in the state folder.")
@click.option("--previous", type=click.Path(exists=True, path_type=Path), help="Continue this earlier audit.")
@click.option(
    "--continue", "keeps", is_flag=True, help="Keep the rows that an audit of changes needs to continue this one."
)
@click.option(
    "--memory",
    type=SparkMemory(),
    metavar="SIZE",
    default=SessionSettings.memory,
    show_default=True,
    help="Give Spark this much memory, e.g. 512m.",
)
@stack_option
@json_option
def audit(
    *,
    history: Path | None,
    output: Path | None,
    previous: Path | None,
    keeps: bool,
    memory: str,
    stack: str | None,
    as_json: bool,
) -> int:
    """Audit a history: judge every request, and write a report.

    Exit status 0 if it is sound, 1 if an invariant does not hold, 2 if there is no verdict, 70 if a process died.
    """
    require_module("pyspark", "audit")  # before an export, which may take long
    terminal = Terminal(as_json)
    folder, answer = history or new_folder("history"), output or new_folder("audit")
    notes: list[str] = []
    with _without_verdict(stack):
        place_for(answer).cleanup()  # before the work, which may take hours
        if history is not None:
            refuse_without_exports(history)
        else:
            target = _target_to_audit(stack)
            terminal.say(f"Exporting {target.stack_name} to {folder}")
            with terminal.working("Exporting"):
                export_stack(target, folder, notes.append)
            for note in notes:
                terminal.say(note)
        terminal.say(f"Auditing {folder} in Spark, which takes some seconds to start")
        with terminal.working("Auditing in Spark"):
            conclusion = audit_history(folder, answer, previous, memory, keeps=keeps)
    report = answer / "report.html"
    document = {**conclusion.document, "notes": [*notes, *conclusion.document["notes"]]}
    terminal.result({"audit": str(answer), "report": str(report), **document})
    _show(terminal, document, answer, stack)
    terminal.sentence(conclusion.sentence, style="bold green" if conclusion.sound else "bold red")
    terminal.plain(f"Report, for a browser: {report}")
    return 0 if conclusion.sound else 1


@contextmanager
def _without_verdict(stack: str | None) -> Iterator[None]:
    """Turn errors into exit status 2, because 1 says that an invariant does not hold."""
    try:
        yield
    except (BadInput, AuditDied):
        raise
    except (OneslotError, BotoCoreError, ClientError, OSError) as error:
        explained = explain(error, stack)
        explained.exit_code = BadInput.exit_code
        raise explained from error


def _target_to_audit(stack: str | None) -> Target:
    try:
        return open_target(stack)
    except NoLocalStack as error:
        histories = whole_histories(home_folder() / "history")
        if not histories:
            raise
        raise NoLocalStack(
            "No local stack is running. Start one with `oneslot up`, name one on AWS with `--stack Oneslot-dev`, or audit "
            f"the last export: oneslot audit --history {shlex.quote(str(histories[-1]))}"
        ) from error


def _show(terminal: Terminal, document: Mapping[str, Any], answer: Path, stack: str | None) -> None:
    """Show the verdicts, the invariants that do not hold, and what to do about them."""
    from oneslot.audit.model import model_of

    sentences = model_of(declared()).sentences
    terminal.show(verdicts_table(document["verdicts"]))
    for name, count in document["violations"].items():
        if count:
            terminal.plain(f"{name} does not hold for {count:,}: {sentences[name]}", style="red")
    redrive, look = (answer / "repair" / name for name in ("redrive.jsonl", "look-at.jsonl"))
    if look.stat().st_size:
        terminal.plain(f"Requests that need a decision: {look}")
    if redrive.stat().st_size:
        again = format_command(f"dlq redrive --file {shlex.quote(str(redrive))}", stack)
        terminal.plain(f"Send the failed requests again: {again}")
    for note in document["notes"]:
        terminal.plain(f"Note: {note}", style="yellow")


def refuse_without_exports(history: Path) -> None:
    """Raise `HistoryRefused` for a folder without the tables' exports, before Spark starts, which takes seconds."""
    for table in (LEDGER, *declared().declared_tables):
        if not (history / table / EXPORT_FOLDER).is_dir():
            raise HistoryRefused(NO_EXPORT.format(folder=(history / table).absolute(), table=table))


def audit_history(
    history: Path,
    output: Path,
    previous: Path | None = None,
    memory: str = SessionSettings.memory,
    *,
    keeps: bool = False,
) -> Any:
    """Run the audit in a Spark session of this process and return its `Conclusion`. Raises `BadInput`."""
    from oneslot.audit.job import audit as run_audit
    from oneslot.audit.settings import AuditSettings

    settings = AuditSettings(
        str(history.absolute()), str(output.absolute()), str(previous.absolute()) if previous else None, keeps=keeps
    )
    try:
        return run_audit(open_spark(memory), settings)
    except AuditRefused as refusal:
        raise HistoryRefused(str(refusal)) from refusal


def open_spark(memory: str) -> SparkSession:
    """Open a Spark session. Raises `AuditRefused`, or `BadInput` for a memory that Java or Spark rejects."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkRuntimeError

    from oneslot.audit.spark.session import open_session

    try:
        return open_session(SessionSettings(memory=memory))
    except PySparkRuntimeError as error:
        raise JavaNotStarted(
            f"Java did not start with --memory {memory}; its message is above. "
            "Give `oneslot audit` less memory, e.g. --memory 512m, or raise the limits of ulimit -a."
        ) from error
    except Py4JJavaError as error:
        raise HistoryRefused(explain_spark_error(error)) from error
