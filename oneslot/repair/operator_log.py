"""The audit trail, `audit.jsonl`: what a person changed with `oneslot dlq` and `oneslot ledger`. No personal data is in it.

Two lines for each change: one before it, `outcome` = `begun`, and one after it. A `begun` without a second line is a change
of which nobody knows whether it was made: the process died in between.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.errors import OneslotError
from oneslot.target import Target
from oneslot.wording import as_json_value

AUDIT_FILE = "audit.jsonl"
BEGUN, DONE, NOT_DONE = "begun", "done", "not done"
DROP = "dlq drop"


@dataclass(frozen=True)
class AuditTrail:
    """Appends to the trail of one stack.

    `stack` is its `Target.identity`; `who` is the person: user and machine, and on AWS the caller's ARN.
    """

    path: Path
    stack_name: str
    stack: str
    who: Mapping[str, str]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def write(self, action: str, subject: Mapping[str, Any], outcome: str, **said: Any) -> None:
        """Append one line, on the disk before this returns. Raises `OneslotError` if it cannot: then change nothing."""
        line = {
            "at": self.now().isoformat(timespec="milliseconds"),
            "who": dict(self.who),
            "stack_name": self.stack_name,
            "stack": self.stack,
            "action": action,
            **subject,
            "outcome": outcome,
            **said,
        }
        append_line(self.path, line)


def open_trail(target: Target) -> AuditTrail:
    """Return the trail of a stack, beside its other evidence."""
    who = {"user": _user(), "host": socket.gethostname()}
    if target.local is None and (arn := _caller()):
        who["arn"] = arn
    return AuditTrail(target.home / AUDIT_FILE, target.stack_name, target.identity, who)


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append one JSON line to a file that only its owner can read, and wait until the disk has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            cut_off = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * cut_off + json.dumps(line, default=as_json_value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OneslotError(f"{path} cannot be written ({error.strerror}), so nothing more was changed.") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of such a file; one that a crash cut off is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line


def dropped(target: Target) -> Iterator[str]:
    """Yield the message ids of dead letters that a person dropped: accounted for, although no queue holds them."""
    for line in drops(target):
        if line.get("message_id"):
            yield line["message_id"]


def drops(target: Target) -> Iterator[dict[str, Any]]:
    """Yield the lines of dead letters of this stack that a person dropped, with an id or without."""
    for line in read_lines(target.home / AUDIT_FILE):
        of_this_stack = line.get("stack") == target.identity and line.get("action") == DROP
        if of_this_stack and line.get("outcome") == DONE:
            yield line


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def _caller() -> str | None:
    try:
        return str(boto3.client("sts").get_caller_identity()["Arn"])
    except (BotoCoreError, ClientError):
        return None
