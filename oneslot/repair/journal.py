"""The journal of a redrive in batches: what was sent, and what was deleted, so that a killed one goes on where it was.

The journal in work is `redrive.jsonl`; one that is finished is kept in `redrives/`, under its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from oneslot.errors import OneslotError
from oneslot.repair.operator_log import append_line, read_lines
from oneslot.target import Target

JOURNAL_FILE = "redrive.jsonl"
FINISHED_FOLDER = "redrives"


@dataclass
class Journal:
    """One redrive. `planned` are the SQS ids (in the dead-letter queue) of what it moves.

    `sent` were accepted by the queue; of these, `deleted` are gone from the dead-letter queue; `refused` will never be
    accepted, and stay where they are. A planned one that is in none of them is still to be sent.
    """

    path: Path
    run: str
    planned: frozenset[str]
    rate: float
    sent: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def left(self) -> frozenset[str]:
        """What is still to be done, wholly or in part."""
        return self.planned - self.deleted - set(self.refused)

    def note_sent(self, ids: Mapping[str, str]) -> None:
        """The queue accepted these: SQS id in the dead-letter queue → its new one. On the disk before any is deleted."""
        append_line(self.path, {"sent": dict(ids)})
        self.sent |= set(ids)

    def note_deleted(self, ids: set[str]) -> None:
        """These are gone from the dead-letter queue."""
        append_line(self.path, {"deleted": sorted(ids)})
        self.deleted |= ids

    def note_refused(self, sqs_message_id: str, code: str) -> None:
        """The queue will never take this one."""
        append_line(self.path, {"refused": {sqs_message_id: code}})
        self.refused[sqs_message_id] = code

    def finish(self, name: str) -> Path:
        """Keep it, under this name, among the finished ones."""
        folder = self.path.parent / FINISHED_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        return self.path.replace(folder / f"{name}-{self.run[:8]}.jsonl")


def begin_journal(target: Target, planned: frozenset[str], rate: float, who: Mapping[str, str]) -> Journal:
    """Start a redrive. Raises `OneslotError` while another one of this stack is unfinished."""
    path = target.home / JOURNAL_FILE
    if open_journal(target) is not None:
        raise OneslotError(
            f"A redrive of {target.stack_name} was interrupted. Finish it first: "
            f"{target.command('dlq redrive --resume --yes')} (what it has sent already is not sent again), "
            "or give it up: --abandon."
        )
    journal = Journal(path, uuid4().hex, planned, rate)
    path.unlink(missing_ok=True)  # of a stack that is gone
    append_line(
        path,
        {"run": journal.run, "stack": target.identity, "who": dict(who), "rate": rate, "planned": sorted(planned)},
    )
    return journal


def open_journal(target: Target) -> Journal | None:
    """Return the unfinished redrive of this very stack, None if there is none."""
    path = target.home / JOURNAL_FILE
    lines = read_lines(path)
    head = next(lines, None)
    if head is None or head.get("stack") != target.identity:
        return None
    journal = Journal(path, head["run"], frozenset(head["planned"]), head["rate"])
    for line in lines:
        journal.sent |= set(line.get("sent", {}))
        journal.deleted |= set(line.get("deleted", []))
        journal.refused |= line.get("refused", {})
    return journal
