"""`export`: a stack's evidence as a history, which the audit reads.

The tables are scanned and written in the layout of DynamoDB's export to S3, because the embedded AWS accepts the export call
and writes nothing. The scan is one moment's state only if nothing is written meanwhile, so drain the queue first. Only
the declared attributes are read, so a history of appointments holds no patient's number.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from oneslot.audit.layout import CONTEXT, Full, Part, item_line, write_export
from oneslot.errors import FolderExists
from oneslot.local.state import private_folder
from oneslot.operator.evidence.dead_letters import count_hidden, format_hidden, list_dead_letters
from oneslot.operator.evidence.deliveries import read_deliveries
from oneslot.operator.evidence.operator_log import drops, read_lines, sent_as
from oneslot.operator.evidence.tables import scan
from oneslot.operator.options import NEW_FOLDER, on_stack
from oneslot.operator.target import (
    ARCHIVE_FILE,
    FOREVER,
    Target,
    home_folder,
    ledger_forgotten_before,
    ledger_retention_seconds,
)
from oneslot.operator.terminal import Terminal
from oneslot.runtime.sqs.queue import queue_depth
from oneslot.wording import numbered

ITEMS_PER_FILE = 200_000
UNFINISHED = ".unfinished-"
ARN = "arn:aws:dynamodb:{region}:000000000000:table/{name}"


@click.command(short_help="Export a stack's evidence for the audit.")
@click.option("--output", type=NEW_FOLDER, help="Write to this new folder. Default: one in the state folder.")
@on_stack
def export(terminal: Terminal, target: Target, output: Path | None) -> int:
    """Export the tables, the delivery log, the archive of accepted requests and the dead letters."""
    folder = output or new_folder("history")
    notes: list[str] = []
    with terminal.working("Exporting"):
        counts = export_stack(target, folder, notes.append)
    terminal.result({"history": str(folder), "rows": counts, "notes": notes})
    terminal.plain(f"{numbered(sum(counts.values()), 'row')} in {folder}")
    for note in notes:
        terminal.plain(f"Note: {note}", style="yellow")
    return 0


def export_stack(target: Target, folder: Path, note: Callable[[str], None]) -> dict[str, int]:
    """Export a stack's history and return its counts of rows. Note it if the consumer was at work meanwhile."""

    def waiting() -> int:
        return queue_depth(target.sqs, target.outputs.queue_url).total

    before = waiting()
    counts = export_history(target, folder, note)
    if held := max(before, waiting()):
        note(
            f"The queue held {numbered(held, 'message')} during the export, and a request that committed meanwhile looks "
            f"broken (I4, I5r). For a verdict, drain the queue first: {target.command('watch --until-drained')}."
        )
    return counts


def new_folder(kind: str) -> Path:
    """Return a folder of the state folder that is named by the time: `history/20261124T120000`."""
    return home_folder() / kind / datetime.now(UTC).strftime("%Y%m%dT%H%M%S")


def export_history(target: Target, folder: Path, note: Callable[[str], None] = lambda _: None) -> dict[str, int]:
    """Write the history into a new folder; return the number of rows of each source.

    `note` is called with a sentence about what the history lacks. The folder gets its name when it is complete, because the
    audit takes every table and list in it as complete.
    """
    with place_for(folder) as unfinished:
        written = private_folder(Path(unfinished) / folder.name)
        counts = _write_history(target, written, note)
        written.rename(folder)
    return counts


def place_for(folder: Path) -> TemporaryDirectory[str]:
    """Return a temporary folder beside the new `folder`. Raises `BadInput` if that exists."""
    if folder.exists():
        raise FolderExists(f"{folder} exists already. Name a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    return TemporaryDirectory(prefix=f"{UNFINISHED}{folder.name}-", dir=folder.parent)


def whole_histories(folder: Path) -> list[Path]:
    """Return the complete histories in a folder, sorted by name, without those of a killed export."""
    return sorted(path for path in folder.glob("*") if not path.name.startswith(UNFINISHED))


def _write_history(target: Target, folder: Path, note: Callable[[str], None]) -> dict[str, int]:
    now = time.time_ns() // 1_000_000
    counts = {}
    for table, (name, attributes) in target.tables.items():
        counts[table] = _write_table(folder / table, name, scan(target.dynamodb, name, attributes), now)
    counts["deliveries"] = _write_lines(folder / "deliveries" / "deliveries.jsonl", read_deliveries(target))
    # A last line that a crash cut off is skipped. Its request is in the delivery log, or was not accepted.
    accepted = (line for line in read_lines(target.archive) if line.pop("stack", target.identity) == target.identity)
    if first := next(accepted, None):
        counts["accepted"] = _write_lines(folder / "accepted" / ARCHIVE_FILE, chain([first], accepted))
    letters = list_dead_letters(target)
    hidden = count_hidden(target, len(letters))
    counts["dead-letters"] = _write_lines(
        folder / "dead-letters" / "dead-letters.jsonl", (letter.line for letter in letters)
    )
    dropped = (
        {"message_id": line.get("message_id"), "source_message_id": sent_as(line), "at": line["at_ms"]}
        for line in drops(target)
    )
    counts["dropped"] = _write_lines(folder / "dropped" / "dropped.jsonl", dropped)
    # SQS cannot list a queue, and only an empty one needs no list: then an unfinished request is lost, unless the dead-letter
    # queue hides it.
    if hidden:
        note(
            f"{' '.join(format_hidden(hidden))} The history has no list of waiting messages, so the audit calls no recent "
            "request lost."
        )
    elif queue_depth(target.sqs, target.outputs.queue_url).empty:
        counts["waiting"] = _write_lines(folder / "waiting" / "waiting.jsonl", ())
    seconds = ledger_retention_seconds(target)
    kept: dict[str, Any] = {"ledger_retention": FOREVER} if seconds is None else {"ledger_retention_seconds": seconds}
    if before := ledger_forgotten_before(target, time.time_ns() // 1_000_000):
        kept["ledger_forgotten_before"] = datetime.fromtimestamp(before / 1000, UTC).isoformat()
    (folder / CONTEXT).write_text(json.dumps(kept) + "\n", encoding="utf-8")
    return counts


def _write_table(folder: Path, name: str, rows: Iterator[Mapping[str, Any]], now: int) -> int:
    count = 0

    def parts() -> Iterator[Part]:
        nonlocal count
        while lines := [item_line(row) for row in islice(rows, ITEMS_PER_FILE)]:
            count += len(lines)
            yield Part(b"".join(lines), len(lines))
        if not count:
            yield Part(b"", 0)  # as DynamoDB does: a file for a partition without items

    write_export(folder, ARN.format(region="eu-west-2", name=name), Full(now), parts())
    return count


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as file:
        return len([file.write(json.dumps(row) + "\n") for row in rows])
