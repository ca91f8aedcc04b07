"""Enter messages that another system has handled into the ledger as COMPLETE, so that a copy of one is a duplicate.

A file has a message on each line: its body, as the consumer gets it, or its id alone. A row is put only where none is, so a
file can be entered again after a crash, and a message that a consumer has is left to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from oneslot.operator.evidence.consumer_configuration import is_content_based, ledger_retention_seconds
from oneslot.operator.evidence.operator_log import BEGUN, DONE, open_operator_log
from oneslot.operator.repair.changing import CHANGED
from oneslot.operator.repair.forecast import facts_of
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.identity import require_message_id
from oneslot.runtime.protocol import ANY_CONTENT, COMPLETE, conflicts
from oneslot.runtime.stores.expressions import error_code, found_item
from oneslot.runtime.values import to_attributes, to_json
from oneslot.target import Target

ENTER = "ledger enter"
HANDLED_BEFORE = "handled_before_migration"
"""The outcome of a message that was entered, for a consumer that declares no result of its own."""
BYTE_ORDER_MARK = "\ufeff"
WRITERS, AT_ONCE = 8, 256
PROBLEMS_NAMED = 10_000


@dataclass(frozen=True, slots=True)
class EnteredLine:
    """One line of the file: an id and the digest of its content, or the `problem` because of which it is not entered."""

    number: int
    message_id: str = ""
    payload_hash: str = ANY_CONTENT
    problem: str | None = None


class Fate(StrEnum):
    """What became of a line."""

    ENTERED = "entered"
    COMPLETE = "already_complete"
    IN_PROGRESS = "in_progress"
    OTHER_CONTENT = "other_content"
    INVALID = "invalid"


REASONS = {
    Fate.IN_PROGRESS: "its row is IN_PROGRESS and unchanged, so the next delivery is processed",
    Fate.OTHER_CONTENT: "its row has another content and is unchanged, so a delivery of this body is quarantined",
}
"""Why a line was not entered, beside the problem of an invalid one."""


@dataclass
class EntryReport:
    """The number of lines by fate, and why the first ten thousand were left out."""

    fates: Counter[Fate] = field(default_factory=Counter)
    problems: list[dict[str, Any]] = field(default_factory=list)

    def add_all(self, ended: Iterable[tuple[EnteredLine, Fate]], progress: Callable[[], None]) -> None:
        """Count lines as their fates become known."""
        for line, fate in ended:
            self.fates[fate] += 1
            problem = line.problem or REASONS.get(fate)
            if problem and len(self.problems) < PROBLEMS_NAMED:
                self.problems.append({"line": line.number, "problem": problem})
            progress()

    @property
    def left_out(self) -> int:
        """The lines without a COMPLETE row."""
        return sum(self.fates[fate] for fate in (Fate.INVALID, *REASONS))

    def document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {**{fate.value: self.fates[fate] for fate in Fate}, "problems": self.problems}


def read_lines(target: Target, path: Path) -> Iterator[EnteredLine]:
    """Yield each line of the file; skip empty ones."""
    content_based = is_content_based(target)
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                text = raw.decode().lstrip(BYTE_ORDER_MARK).strip()
                if text:
                    yield _read_line(target, number, text, content_based=content_based)
            except UnicodeDecodeError:
                yield EnteredLine(number, problem="it is not UTF-8 text")


def _read_line(target: Target, number: int, text: str, *, content_based: bool) -> EnteredLine:
    declaration = target.declaration
    if text.startswith("{"):
        facts = facts_of({"Body": text}, declaration, content_based=content_based)
        message_id, digest, problem = facts.message_id or "", facts.payload_hash or "", facts.problem
    else:
        message_id, digest, problem = text, ANY_CONTENT, None
    try:
        require_message_id(message_id)
    except Unprocessable as invalid:
        problem = problem or invalid.detail
    if declaration.private and declaration.is_private(message_id):
        problem = f"its id may be {declaration.private.name}"
    return EnteredLine(number, problem=problem) if problem else EnteredLine(number, message_id, digest)


def enter_logged(target: Target, path: Path, lines: int, report: EntryReport, progress: Callable[[], None]) -> None:
    """Enter a file, with its two lines in the operator log. Raises the client's errors."""
    log, subject = open_operator_log(target), {"file": str(path.absolute()), "lines": lines}
    log.write(ENTER, subject, BEGUN)
    try:
        report.add_all(enter(target, read_lines(target, path)), progress)
    except BaseException as error:
        error.add_note(f"{report.fates[Fate.ENTERED]:,} were entered. Run the same command again for the others.")
        raise
    log.write(ENTER, subject, DONE, **{fate.value: report.fates[fate] for fate in Fate})


def enter(target: Target, lines: Iterable[EnteredLine]) -> Iterator[tuple[EnteredLine, Fate]]:
    """Enter the lines; yield each with its fate as soon as it is known. Raises the client's errors."""
    write = partial(_enter, target, ledger_retention_seconds(target))
    remaining = iter(lines)
    with target.surroundings.threads.executor(WRITERS, "enter") as writers:
        while batch := list(islice(remaining, AT_ONCE)):
            yield from zip(batch, writers.map(write, batch), strict=True)


def _enter(target: Target, retention_seconds: int | None, line: EnteredLine) -> Fate:
    if line.problem is not None:
        return Fate.INVALID
    item = to_attributes(_row(target, retention_seconds, line))
    try:
        target.dynamodb.put_item(
            TableName=target.outputs.ledger_table_name,
            Item=item,
            ConditionExpression="attribute_not_exists(message_id)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except ClientError as error:
        if error_code(error) != CHANGED:
            raise
        found = found_item(error)
        if error.response.get("Item") == item:  # our own write, whose answer was lost
            return Fate.ENTERED
        if line.payload_hash != ANY_CONTENT and conflicts(found["payload_hash"], found["status"], line.payload_hash):
            return Fate.OTHER_CONTENT
        return Fate.COMPLETE if found["status"] == COMPLETE else Fate.IN_PROGRESS
    return Fate.ENTERED


def _row(target: Target, retention_seconds: int | None, line: EnteredLine) -> dict[str, Any]:
    now = target.surroundings.now_ms()
    result_before = target.declaration.tool("handled_before")
    result = result_before(line.message_id) if result_before else {"outcome": HANDLED_BEFORE}
    row = {
        "message_id": line.message_id,
        "status": COMPLETE,
        "consumption_count": 1,
        "updated": now,
        "claimed_by": ENTER,
        "payload_hash": line.payload_hash,
        "result": to_json(result),
    }
    return row if retention_seconds is None else row | {"expires_at": now // 1000 + retention_seconds}
