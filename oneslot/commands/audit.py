"""`oneslot export`, `audit` and `backfill`: the data pipeline from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.errors import BadInput, OneslotError
from oneslot.evidence.consumer_configuration import ledger_retention_seconds
from oneslot.evidence.export import export_history, place_for, whole_histories
from oneslot.local.errors import LocalRunError
from oneslot.options import Number, json_option, stack_option
from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.vocabulary import counted
from oneslot.runtime.sqs.queue_depth import queue_depth
from oneslot.sending.backfill import (
    DIFFERENT,
    HANDED_OVER,
    KNOWN,
    OUTCOMES,
    UNFINISHED,
    UNFIT,
    Access,
    Feeder,
    Seeder,
    may_be_shown,
)
from oneslot.sentences import numbered, sentence
from oneslot.target import Target, format_command, home_folder, open_target
from oneslot.terminal import Terminal, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNACCEPTABLE = "the consumer would not accept it (a field is missing or wrong)"
NEW_FOLDER = click.Path(exists=False, path_type=Path)


@click.command(short_help="Write what the stack left behind, in the layout that the audit reads.")
@click.option("--output", type=NEW_FOLDER, help="A new folder. Default: one in the state folder, named by the time.")
@stack_option
@json_option
def export(output: Path | None, stack: str | None, as_json: bool) -> int:
    """Export the tables, the delivery log, the archive of accepted requests and the dead-letter queue's content."""
    terminal = Terminal(as_json)
    target = open_target(stack)
    folder = output or _new_folder("history")
    notes: list[str] = []
    with terminal.working("Exporting"):
        counts = _exported(target, folder, notes.append)
    terminal.result({"history": str(folder), "rows": counts, "notes": notes})
    terminal.plain(f"{numbered(sum(counts.values()), 'row')} in {folder}")
    for note in notes:
        terminal.plain(f"Note: {note}", style="yellow")
    return 0


@click.command(short_help="Prove it: a verdict on each request, in Spark, and a report.")
@click.option("--history", type=click.Path(path_type=Path), help="A history. Default: export the stack now.")
@click.option("--output", type=NEW_FOLDER, help="A new folder. Default: one in the state folder, named by the time.")
@click.option("--previous", type=click.Path(exists=True, path_type=Path), help="The audit that this one continues.")
@click.option("--memory", default="3g", show_default=True, help="Memory for Spark, in its notation.")
@stack_option
@json_option
def audit(
    *, history: Path | None, output: Path | None, previous: Path | None, memory: str, stack: str | None, as_json: bool
) -> int:
    """Audit a history. Exit status 0: sound; 1: something does not hold; 2: no verdict, a sentence says why."""
    terminal = Terminal(as_json)
    folder = history
    answer = output or _new_folder("audit")
    notes: list[str] = []
    with _without_verdict(stack):
        place_for(answer).cleanup()  # before the work, which may take hours
        if folder is None:
            target = _target_to_audit(stack)
            folder = _new_folder("history")
            terminal.say(f"Exporting {target.stack_name} to {folder}")
            with terminal.working("Exporting"):
                _exported(target, folder, notes.append)
            for note in notes:
                terminal.say(note)
        terminal.say(f"Auditing {folder} in Spark; its start takes a moment")
        with terminal.working("Auditing in Spark"):
            conclusion = audit_history(folder, answer, previous, memory)
    report = answer / "report.html"
    document = {**conclusion.document, "notes": [*notes, *conclusion.document["notes"]]}
    terminal.result({"audit": str(answer), "report": str(report), **document})
    _show(terminal, document, answer, stack)
    terminal.plain(conclusion.sentence, style="bold green" if conclusion.sound else "bold red")
    terminal.plain(f"Report, for a browser: {report}")
    return 0 if conclusion.sound else 1


def _exported(target: Target, folder: Path, note: Callable[[str], None]) -> dict[str, int]:
    """Export, and say what a verdict on it is worth if the consumer was at work meanwhile."""

    def waiting() -> int:
        return queue_depth(target.sqs, target.outputs.queue_url).total

    before = waiting()
    counts = export_history(target, folder, note)
    if held := max(before, waiting()):
        note(
            f"The queue held {numbered(held, 'message')} while the tables were read, one after the other: a request that "
            "committed meanwhile looks broken (I4, I5r). For a verdict wait until it is drained: "
            f"{target.command('watch --until-drained')}."
        )
    return counts


@contextmanager
def _without_verdict(stack: str | None) -> Iterator[None]:
    """End with 2 for what ends an audit before its verdict: 1 says that something does not hold."""
    try:
        yield
    except BadInput:
        raise
    except (OneslotError, LocalRunError, BotoCoreError, ClientError, OSError) as error:
        raise BadInput(sentence(error, stack)) from error


def _target_to_audit(stack: str | None) -> Target:
    try:
        return open_target(stack)
    except OneslotError as error:
        histories = whole_histories(home_folder() / "history")
        if stack is not None or not histories:
            raise
        raise OneslotError(
            f"No local stack is running. Start one with `oneslot up`, name one on AWS with `--stack Oneslot-dev`, or audit "
            f"what was exported last: oneslot audit --history {shlex.quote(str(histories[-1]))}"
        ) from error


def _show(terminal: Terminal, document: Mapping[str, Any], answer: Path, stack: str | None) -> None:
    """What became of the requests, what does not hold, and what to do about it."""
    from oneslot.pipeline.judge.conclusion import SENTENCES

    shown = table("What became of the requests", "Verdict", "Requests", numbers=(1,))
    for verdict, count in document["verdicts"].items():
        if count:
            shown.add_row(verdict.replace("_", " "), f"{count:,}")
    terminal.show(shown)
    for name, count in document["violations"].items():
        if count:
            terminal.plain(f"{name} does not hold for {count:,}: {SENTENCES[name]}", style="red")
    redrive, look = (answer / "repair" / name for name in ("redrive.jsonl", "look-at.jsonl"))
    if look.stat().st_size:
        terminal.plain(f"What a person must see: {look}")
    if redrive.stat().st_size:
        again = format_command(f"dlq redrive --file {shlex.quote(str(redrive))}", stack)
        terminal.plain(f"What may be sent through again: {again}")
    for note in document["notes"]:
        terminal.plain(f"Note: {note}", style="yellow")


@click.command(short_help="Feed a historical file to the queue, or enter it into the ledger as done.")
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--into",
    type=click.Choice(["queue", "ledger"]),
    default="queue",
    show_default=True,
    help="To be done, or entered as done before.",
)
@click.option(
    "--rate",
    type=Number(min=0, min_open=True),
    default=200.0,
    show_default=True,
    metavar="N",
    help="Requests a second, at most.",
)
@click.option(
    "--retention-seconds",
    type=click.IntRange(min=1),
    metavar="N",
    help="How long the ledger keeps what --into ledger enters. Default: as long as what the consumer enters.",
)
@click.option("--memory", default="3g", show_default=True, help="Memory for Spark, in its notation.")
@stack_option
@json_option
def backfill(
    *, file: Path, into: str, rate: float, retention_seconds: int | None, memory: str, stack: str | None, as_json: bool
) -> int:
    """FILE is CSV with a header, or Parquet. Requests are deduplicated by message_id, or by content where they have none.

    Run it again after a crash: nothing that is sent or entered twice counts twice. Exit status 1 if something was left out
    or looks different in the ledger; it is named.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    access = access_of(target)

    def handler(share: float) -> Feeder | Seeder:
        if into == "queue":
            return Feeder(access, target.outputs.queue_url, share)
        kept = retention_seconds or ledger_retention_seconds(target)
        return Seeder(access, target.outputs.ledger_table_name, kept, share)

    with terminal.working(f"Backfilling the {into}"):
        counts = backfill_file(file, handler, rate, memory, terminal.say)
    terminal.result(counts)
    terminal.plain(
        f"{counts['read']:,} read, {numbered(counts['duplicates'], 'duplicate')} dropped, "
        f"{counts[HANDED_OVER]:,} into the {into}."
    )
    if counts[KNOWN]:
        terminal.plain(f"{counted(counts[KNOWN], 'was', 'were')} in the ledger before, and left unchanged.")
    if counts[UNFINISHED]:
        terminal.plain(
            f"{counted(counts[UNFINISHED], 'is', 'are')} IN_PROGRESS in the ledger and left unchanged: "
            "when such a message comes again it is processed. Look, and run the same command again when all are through.",
            style="red",
        )
    if counts[DIFFERENT]:
        terminal.plain(
            f"{counted(counts[DIFFERENT], 'is', 'are')} in the ledger with another content and left unchanged: "
            "if such a message comes again it is quarantined.",
            style="red",
        )
    if counts["ignored_columns"]:
        terminal.plain(f"Columns that no request has were not looked at: {', '.join(counts['ignored_columns'])}.")
    if counts[UNFIT]:
        why = "it is larger than the queue takes" if into == "queue" else UNACCEPTABLE
        terminal.plain(f"{counts[UNFIT]:,} left out, of each: {why}.", style="red")
    if counts["empty"]:
        terminal.plain(f"{counted(counts['empty'], 'row holds', 'rows hold')} no field of a request: passed over.")
    conflicts = len(counts["conflicts"]) + counts["conflicts_not_shown"]
    if conflicts:
        terminal.plain(
            f"{counted(conflicts, 'id has', 'ids have')} several contents: left out, see --json.", style="red"
        )
    return 1 if conflicts or counts[UNFIT] or counts[UNFINISHED] or counts[DIFFERENT] else 0


commands = [export, audit, backfill]
"""For the command line to register."""


def audit_history(history: Path, output: Path, previous: Path | None = None, memory: str = "3g") -> Any:
    """Run the audit in a Spark session of this process; returns its `Conclusion`."""
    from oneslot.pipeline.job import AuditSettings
    from oneslot.pipeline.job import audit as run_audit

    settings = AuditSettings(
        str(history.absolute()), str(output.absolute()), str(previous.absolute()) if previous else None
    )
    try:
        spark = _session(memory, settings.reads_bytes)
        return run_audit(spark, settings)
    except AuditRefused as refusal:
        raise BadInput(str(refusal)) from refusal


def backfill_file(
    file: Path,
    handler: Callable[[float], Callable[[Iterable[Any]], Mapping[str, int]]],
    rate: float,
    memory: str = "3g",
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Deduplicate a file and hand its requests over, `rate` a second; returns the counts and the ids in conflict.

    Of these, the first ten thousand; one that is no fit id is only counted: people have used NHS numbers for ids.

    `handler` makes what an executor runs, from its share of the rate. Raises BadInput for a file that cannot be used,
    OneslotError if handing over stopped on the way.
    """
    from oneslot.pipeline.read.backfill import deduplicate, feed
    from oneslot.pipeline.read.request_files import open_file
    from oneslot.pipeline.session import size_on_disk

    try:
        spark = _session(memory, size_on_disk(str(file)))
        opened = open_file(spark, str(file.absolute()))
        found = deduplicate(opened.requests)
    except AuditRefused as refusal:
        raise BadInput(str(refusal)) from refusal
    requests = found.read - found.empty - found.duplicates - found.conflicts
    if found.read == found.empty:
        raise BadInput(f"{file} holds no requests: there is nothing to hand over.")
    tell(f"{numbered(requests, 'request')} at {rate:g} a second: about {requests / rate:,.0f} seconds.")
    # Each begins with a message: of a low rate, none begins with more than a second's worth.
    executors = max(1, min(spark.sparkContext.defaultParallelism, int(rate)))
    try:
        tally = feed(found.rows, handler(rate / executors), executors)
    except AuditRefused as refusal:
        raise OneslotError(str(refusal)) from refusal
    shown = [message_id for message_id in found.first_conflicts if may_be_shown(message_id)]
    return {
        "read": found.read,
        "empty": found.empty,
        "duplicates": found.duplicates,
        "conflicts": shown,
        "conflicts_not_shown": found.conflicts - len(shown),
        "ignored_columns": opened.ignored,
        **{name: tally[name] for name in OUTCOMES},
    }


def _session(memory: str, reads_bytes: int | None) -> SparkSession:
    """Open a Spark session. Raises AuditRefused or `BadInput`, also for a memory that Java or Spark does not take."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkRuntimeError

    from oneslot.pipeline.session import SessionSettings, open_session
    from oneslot.pipeline.write.outputs import sentence_of

    try:
        return open_session(SessionSettings(memory=memory, reads_bytes=reads_bytes))
    except PySparkRuntimeError as error:
        raise BadInput(
            f"Java did not start with --memory {memory}; its own words are above. If they are about memory, give it what this "
            "machine has, in Spark's notation: `--memory 512m`, to `oneslot audit` or `backfill`. Else see what a process may "
            "have here: ulimit -a."
        ) from error
    except Py4JJavaError as error:
        raise BadInput(sentence_of(error)) from error


def access_of(target: Target) -> Access:
    """What an executor needs to reach the stack."""
    return Access(None if target.local is None else target.local.connection)


def _new_folder(kind: str) -> Path:
    return home_folder() / kind / datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
