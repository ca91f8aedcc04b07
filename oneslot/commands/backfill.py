"""`backfill`: a historical file into the queue or the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from oneslot.audit.errors import AuditRefused
from oneslot.commands.audit import open_spark
from oneslot.errors import BadInput, OneslotError
from oneslot.evidence.consumer_configuration import ledger_retention_seconds
from oneslot.options import COUNT, Number, json_option, memory_option, stack_option
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
from oneslot.target import open_target
from oneslot.terminal import Terminal
from oneslot.wording import counted, numbered


@click.command(short_help="Feed a historical file to the queue or the ledger.")
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--into",
    type=click.Choice(["queue", "ledger"]),
    default="queue",
    show_default=True,
    help="Send the requests, or enter them as done before.",
)
@click.option(
    "--rate",
    type=Number(min=0, min_open=True),
    default=200.0,
    show_default=True,
    metavar="N",
    help="Hand over at most N requests a second.",
)
@click.option(
    "--retention-seconds",
    type=COUNT,
    metavar="N",
    help="Keep rows of --into ledger for N seconds. Default: as long as the consumer's own.",
)
@memory_option
@stack_option
@json_option
def backfill(
    *, file: Path, into: str, rate: float, retention_seconds: int | None, memory: str, stack: str | None, as_json: bool
) -> int:
    """Hand over the requests of FILE, which is CSV with a header, or Parquet.

    Requests are deduplicated by message_id, or by content where they have none. Safe to run again after a crash.
    Exit status 1 if a request was left out, or is different in the ledger.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    access = Access(target.local.connection if target.local else None)

    def handler(share: float) -> Feeder | Seeder:
        if into == "queue":
            return Feeder(access, target.outputs.queue_url, share)
        kept = retention_seconds or ledger_retention_seconds(target)
        return Seeder(access, target.outputs.ledger_table_name, kept, share, consumer=target.declaration.path)

    with terminal.working(f"Backfilling the {into}"):
        counts = backfill_file(file, handler, rate, memory, terminal.say)
    terminal.result(counts)
    terminal.plain(
        f"{counts['read']:,} read, {numbered(counts['duplicates'], 'duplicate')} dropped, "
        f"{counts[HANDED_OVER]:,} into the {into}."
    )
    if counts[KNOWN]:
        terminal.plain(f"{counted(counts[KNOWN], 'was', 'were')} in the ledger before, and unchanged.")
    if counts["ignored_columns"]:
        terminal.plain(f"Ignored columns, which no request has: {', '.join(counts['ignored_columns'])}.")
    if counts["empty"]:
        terminal.plain(f"{counted(counts['empty'], 'row holds', 'rows hold')} no field of a request: ignored.")
    problems = list(_problems(counts, into))
    terminal.warn(problems)
    return int(bool(problems))


def _problems(counts: Mapping[str, Any], into: str) -> Iterator[str]:
    """Yield a sentence for each kind of request that was not handed over."""
    if counts[UNFINISHED]:
        yield (
            f"{counted(counts[UNFINISHED], 'is', 'are')} IN_PROGRESS in the ledger and unchanged: "
            "a new delivery of such a message is processed. Run the same command again when all are complete."
        )
    if counts[DIFFERENT]:
        yield (
            f"{counted(counts[DIFFERENT], 'is', 'are')} in the ledger with another content and unchanged: "
            "a new delivery of such a message is quarantined."
        )
    if counts[UNFIT]:
        cause = "it is larger than the queue takes" if into == "queue" else "a field is missing or wrong"
        yield f"{counts[UNFIT]:,} left out, of each: {cause}."
    if conflicts := len(counts["conflicts"]) + counts["conflicts_not_shown"]:
        yield f"{counted(conflicts, 'id has', 'ids have')} several contents: left out, see --json."


def backfill_file(
    file: Path,
    handler: Callable[[float], Callable[[Iterable[Any]], Mapping[str, int]]],
    rate: float,
    memory: str = "3g",
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Deduplicate a file and hand its requests over, `rate` a second. Return the counts and the ids in conflict.

    `handler` returns what an executor runs, for its share of the rate. The ids are the first ten thousand; an invalid id
    is only counted, because it may be an NHS number. Raises `BadInput` for an unusable file, and `OneslotError` if
    handing over stopped.
    """
    from oneslot.audit.read.backfill import deduplicate, feed
    from oneslot.audit.read.request_files import open_file
    from oneslot.audit.session import size_on_disk

    try:
        spark = open_spark(memory, size_on_disk(str(file)))
        opened = open_file(spark, str(file.absolute()))
        found = deduplicate(opened.requests)
    except AuditRefused as refusal:
        raise BadInput(str(refusal)) from refusal
    requests = found.read - found.empty - found.duplicates - found.conflicts
    if found.read == found.empty:
        raise BadInput(f"{file} holds no requests. Give a file with at least one.")
    tell(f"{numbered(requests, 'request')} at {rate:g} a second: about {requests / rate:,.0f} seconds.")
    # Each executor begins with a message, so a low rate gets fewer of them.
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
