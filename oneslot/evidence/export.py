"""`oneslot export`: writes what a stack left behind as a history that the audit reads.

On this machine the tables are scanned and written in the layout of DynamoDB's export to S3, because the embedded AWS
answers the export call and writes nothing. It is a picture of one moment only if nothing is written meanwhile: drain first.
The patient's number is not read, so a local history holds nothing personal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from booking.configuration import FOREVER
from oneslot.errors import BadInput
from oneslot.evidence.consumer_configuration import ledger_forgotten_before, ledger_retention_seconds
from oneslot.evidence.deliveries import read_deliveries
from oneslot.evidence.scanning import APPOINTMENTS, LEDGER, SLOTS, scan
from oneslot.evidence.stack_dead_letters import letters_of
from oneslot.pipeline.layout import CONTEXT, Full, Part, item_line, write_export
from oneslot.repair.operator_log import drops, read_lines
from oneslot.runtime.sqs.dead_letters import unseen_told, waiting_behind
from oneslot.runtime.sqs.queue_depth import queue_depth
from oneslot.target import ARCHIVE_FILE, Target

ITEMS_PER_FILE = 200_000
UNFINISHED = ".unfinished-"
ARN = "arn:aws:dynamodb:{region}:000000000000:table/{name}"


def export_history(target: Target, folder: Path, note: Callable[[str], None] = lambda _: None) -> dict[str, int]:
    """Write the history into a folder that does not exist yet; returns how many rows each source has.

    `note` is told what the history cannot hold. The folder has its name only when it is whole: the audit takes every
    table and list that it finds there for all there was.
    """
    with place_for(folder) as unfinished:
        written = Path(unfinished) / folder.name
        counts = _write_history(target, written, note)
        written.rename(folder)
    return counts


def place_for(folder: Path) -> TemporaryDirectory[str]:
    """Return a place beside a folder that is to be made. Raises `BadInput` or OSError if it cannot be made there."""
    if folder.exists():
        raise BadInput(f"{folder} exists already; name a folder that does not.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    return TemporaryDirectory(prefix=f"{UNFINISHED}{folder.name}-", dir=folder.parent)


def whole_histories(folder: Path) -> list[Path]:
    """The exported histories in a folder, sorted by name, without what an export that was killed left behind."""
    return sorted(path for path in folder.glob("*") if not path.name.startswith(UNFINISHED))


def _write_history(target: Target, folder: Path, note: Callable[[str], None]) -> dict[str, int]:
    now = time.time_ns() // 1_000_000
    outputs = target.outputs
    tables = {
        "ledger": (outputs.ledger_table_name, LEDGER),
        "slots": (outputs.slots_table_name, SLOTS),
        "appointments": (outputs.appointments_table_name, APPOINTMENTS),
    }
    counts = {}
    for table, (name, attributes) in tables.items():
        rows = scan(target.dynamodb, name, attributes)
        counts[table] = _write_table(folder / table, name, rows, now)
    counts["deliveries"] = _write_lines(folder / "deliveries" / "deliveries.jsonl", read_deliveries(target))
    accepted = _accepted(target)
    if first := next(accepted, None):
        counts["accepted"] = _write_lines(folder / "accepted" / ARCHIVE_FILE, chain([first], accepted))
    letters = letters_of(target)
    behind = waiting_behind(target.sqs, outputs.dead_letter_queue_url, len(letters))
    counts["dead-letters"] = _write_lines(
        folder / "dead-letters" / "dead-letters.jsonl", (letter.line for letter in letters)
    )
    counts["dropped"] = _write_lines(folder / "dropped" / "dropped.jsonl", map(_dropped, drops(target)))
    # SQS cannot list a queue. An empty one needs no list: everything that is not finished elsewhere is lost. Unless it is
    # where the dead-letter queue does not show it.
    if behind:
        note(
            f"{' '.join(unseen_told(behind))} The history has no list of what waits, so the audit calls nothing lost that was "
            "seen of late."
        )
    elif queue_depth(target.sqs, outputs.queue_url).empty:
        counts["waiting"] = _write_lines(folder / "waiting" / "waiting.jsonl", ())
    seconds = ledger_retention_seconds(target)
    kept: dict[str, Any] = {"ledger_retention": FOREVER} if seconds is None else {"ledger_retention_seconds": seconds}
    if before := ledger_forgotten_before(target, time.time_ns() // 1_000_000):
        kept["ledger_forgotten_before"] = datetime.fromtimestamp(before / 1000, UTC).isoformat()
    (folder / CONTEXT).write_text(json.dumps(kept) + "\n", encoding="utf-8")
    return counts


def _accepted(target: Target) -> Iterator[dict[str, Any]]:
    """The archive's lines about this very stack, without its name.

    A last line that a crash cut off is left out: its request is in the delivery log, or was not accepted.
    """
    for line in read_lines(target.archive):
        if line.pop("stack", target.identity) == target.identity:
            yield line


def _dropped(line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "message_id": line.get("message_id"),
        "source_message_id": line.get("source_message_id") or line.get("sqs_message_id"),
        "at": round(datetime.fromisoformat(line["at"]).timestamp() * 1000),
    }


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
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for count, row in enumerate(rows, 1):  # noqa: B007 - the count is the answer
            file.write(json.dumps(row) + "\n")
    return count
