"""The journal of a redrive in batches: what was sent and what was deleted, so that a killed redrive can resume.

An unfinished journal is `redrive.jsonl`; a finished one is kept in `redrives/`, under its time. One process of a machine
runs it at a time, and holds `redrive.lock`; the operating system ends that lock with the process.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oneslot.errors import RedriveRunning, RedriveUnfinished
from oneslot.operator.evidence.operator_log import append_line, read_lines
from oneslot.runtime.surroundings import Surroundings
from oneslot.target import Target

JOURNAL_FILE = "redrive.jsonl"
FINISHED_FOLDER = "redrives"
LOCK_FILE = "redrive.lock"


@dataclass
class Journal:
    """One redrive of the messages `planned`, by their SQS ids in the dead-letter queue.

    The queue accepted those in `sent`. Those in `deleted` are gone from the dead-letter queue, also those that others took
    from it unsent. The queue will never accept those in `refused` (SQS id → code), which stay. A planned message in none of
    them is still to be sent.
    """

    path: Path
    run: str
    planned: frozenset[str]
    rate: float
    surroundings: Surroundings
    sent: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def left(self) -> frozenset[str]:
        """The messages that are still to be sent or deleted."""
        return self.planned - self.deleted - set(self.refused)

    @property
    def moved(self) -> set[str]:
        """The messages that were sent and deleted."""
        return self.sent & self.deleted

    def includes(self, sqs_message_id: str) -> bool:
        """Return whether to move this message if the dead-letter queue shows it.

        It does so even after a deletion, because another receive can come between, or a server of SQS miss it.
        """
        return sqs_message_id in self.planned and sqs_message_id not in self.refused

    def note_sent(self, ids: Mapping[str, str]) -> None:
        """Note messages that the queue accepted (SQS id in the dead-letter queue → new one), on disk before one is deleted."""
        self._append({"sent": dict(ids)})
        self.sent |= set(ids)

    def note_deleted(self, ids: Set[str]) -> None:
        """Note messages that are gone from the dead-letter queue."""
        self._append({"deleted": sorted(ids)})
        self.deleted |= ids

    def note_refused(self, sqs_message_id: str, code: str) -> None:
        """Note a message that the queue will never accept."""
        self._append({"refused": {sqs_message_id: code}})
        self.refused[sqs_message_id] = code

    def finish(self) -> Path:
        """Move the journal to the finished ones; return its new path."""
        folder = self.path.parent / FINISHED_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        now = datetime.fromtimestamp(self.surroundings.now_ms() / 1000, UTC)
        return self.path.replace(folder / f"{now:%Y%m%dT%H%M%SZ}-{self.run[:8]}.jsonl")

    def _append(self, line: Mapping[str, Any]) -> None:
        append_line(self.path, line, self.surroundings)


@contextmanager
def lock_journal(target: Target) -> Iterator[None]:
    """Hold the lock of this stack's redrive. Raises `OneslotError` if another process of this machine holds it.

    Two processes with one journal would not see each other's lines: both would send what either has sent.
    """
    target.home.mkdir(parents=True, exist_ok=True)
    with (target.home / LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RedriveRunning(
                f"Another process of this machine is redriving {target.stack_name}. Wait until it ends."
            ) from error
        yield


def begin_journal(target: Target, planned: frozenset[str], rate: float, who: Mapping[str, str]) -> Journal:
    """Start a redrive. Raises `OneslotError` if one of this stack is unfinished."""
    path = target.home / JOURNAL_FILE
    if open_journal(target) is not None:
        raise RedriveUnfinished(
            f"A redrive of {target.stack_name} is unfinished. Resume it with `{target.command('dlq redrive --resume --yes')}`, "
            "or give it up with --abandon."
        )
    surroundings = target.surroundings
    journal = Journal(path, surroundings.new_id(), planned, rate, surroundings)
    path.unlink(missing_ok=True)  # a journal of a stack that was deleted
    append_line(
        path,
        {"run": journal.run, "stack": target.identity, "who": dict(who), "rate": rate, "planned": sorted(planned)},
        surroundings,
    )
    return journal


def open_journal(target: Target) -> Journal | None:
    """Return the unfinished redrive of this stack; None if there is none."""
    path = target.home / JOURNAL_FILE
    lines = read_lines(path)
    head = next(lines, None)
    if head is None or head.get("stack") != target.identity:
        return None
    journal = Journal(path, head["run"], frozenset(head["planned"]), head["rate"], target.surroundings)
    for line in lines:
        journal.sent |= set(line.get("sent", {}))
        journal.deleted |= set(line.get("deleted", []))
        journal.refused |= line.get("refused", {})
    return journal
