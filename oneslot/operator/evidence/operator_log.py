"""The operator log, `operator-log.jsonl`: every change that a person made with `oneslot dlq`, `ledger`, `pause` and
`resume`.

Each change has two lines: one before it with `outcome` = `begun`, and one after it. A `begun` without a second line is a
change that may or may not have been made, because the process died in between. The log holds no personal data.
"""

import getpass
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.errors import LogNotWritten
from oneslot.operator.sending.archive import is_cut_off, json_object
from oneslot.operator.target import Target
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import to_json
from oneslot.wording import as_json_value

OPERATOR_LOG_FILE = "operator-log.jsonl"
BEGUN, DONE, NOT_DONE = "begun", "done", "not done"
DROP = "dlq drop"
DROPPED = "Dropped without an answer: an operator deleted its dead letter for good."


@dataclass(frozen=True)
class OperatorLog:
    """The log of one stack, open for appending.

    `stack` is its `Target.identity`. `who` is the operator: user, machine, and on AWS the caller's ARN.
    """

    path: Path
    stack_name: str
    stack: str
    who: Mapping[str, str]
    surroundings: Surroundings

    def write(self, action: str, subject: Mapping[str, Any], outcome: str, **more: Any) -> None:
        """Append one line and wait until it is on disk. Raises `OneslotError` if that fails: then change nothing."""
        line = {
            "at": datetime.fromtimestamp(self.surroundings.now_ms() / 1000, UTC).isoformat(timespec="milliseconds"),
            "who": dict(self.who),
            "stack_name": self.stack_name,
            "stack": self.stack,
            "action": action,
            **subject,
            "outcome": outcome,
            **more,
        }
        append_line(self.path, line, self.surroundings)


def open_operator_log(target: Target) -> OperatorLog:
    """Return the log of a stack, which is kept beside its other evidence."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = f"uid {os.getuid()}"
    who = {"user": user, "host": socket.gethostname()}
    if target.local is None and (arn := _caller()):
        who["arn"] = arn
    return OperatorLog(target.home / OPERATOR_LOG_FILE, target.stack_name, target.identity, who, target.surroundings)


def append_line(path: Path, line: Mapping[str, Any], surroundings: Surroundings) -> None:
    """Append one JSON line to a file that only its owner can read, and wait until it is on disk.

    A line that a crash cut off is ended first. Raises `OneslotError` if the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = to_json(line, other=as_json_value).encode() + b"\n"
        surroundings.append(path, b"\n" * is_cut_off(path) + data)
    except OSError as error:
        raise LogNotWritten(f"{path} cannot be written ({error.strerror}), so nothing more was changed.") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one a line; a line that a crash cut off is skipped."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        yield from filter(None, map(json_object, file))


def changes(target: Target, about: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the lines of this stack, or those about one id of a message, each with its time `at_ms` (epoch ms)."""
    for line in read_lines(target.home / OPERATOR_LOG_FILE):
        ids = (line.get(name) for name in ("message_id", "sqs_message_id", "source_message_id"))
        if line.get("stack") == target.identity and about in (None, *ids, *line.get("message_ids", ())):
            yield {**line, "at_ms": round(datetime.fromisoformat(line["at"]).timestamp() * 1000)}


def drops(target: Target) -> Iterator[dict[str, Any]]:
    """Yield the last line of each dead letter of this stack that an operator dropped, with a message id or without.

    A letter whose drop was begun and not ended counts: if the deletion was made, nothing else is left of the letter.
    """
    last = {line["sqs_message_id"]: line for line in changes(target) if line.get("action") == DROP}
    yield from (line for line in last.values() if line["outcome"] != NOT_DONE)


def dropped_at(lines: Iterable[Mapping[str, Any]]) -> int:
    """Return when an operator last dropped a letter of a request (epoch ms), by the lines about it; 0 without a drop."""
    return max((each["at_ms"] for each in lines if each["action"] == DROP and each["outcome"] != NOT_DONE), default=0)


def sent_as(line: Mapping[str, Any]) -> str:
    """Return the SQS id that a dropped message had in the consumer's queue."""
    return str(line.get("source_message_id") or line["sqs_message_id"])


def _caller() -> str | None:
    try:
        return str(boto3.client("sts").get_caller_identity()["Arn"])
    except (BotoCoreError, ClientError):
        return None
