"""The archive of accepted requests, `accepted.jsonl`: what the queue accepted, without personal data.

It has one line for each message, on disk as soon as the queue's answer is known. A message without an answer is not in it,
because a request that the queue never had would count as lost. The sender repeats it, and reports an error if no answer comes.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from oneslot.errors import InvalidArchive
from oneslot.laws.form import LINES, without_null
from oneslot.operator.sending.messages import Archived, RequestCopy
from oneslot.runtime.surroundings import Surroundings

_ARCHIVED = frozenset(each.name for each in fields(Archived))
_CUT_OFF = " (cut off)\n"
"""Ends a line that a crash cut off, so that the next line does not continue it and the reader can skip it."""


@dataclass(frozen=True)
class AcceptedRequest:
    """One line of the archive; `sent` is the time at which the queue accepted the message (epoch ms)."""

    request: Archived
    sent: int
    sqs_message_ids: Sequence[str]

    @property
    def subject(self) -> tuple[str | None, str | None]:
        """The same for all copies of a request: its id and content, or the SQS id of a message without an id."""
        if self.request.message_id:
            return self.request.message_id, self.request.payload_hash
        return None, next(iter(self.sqs_message_ids), None)


class Archive:
    """An archive to append to, from any thread.

    `stack` is the `Target.identity` of the stack that gets the requests; another stack of the same name has other evidence.
    """

    def __init__(self, path: Path, stack: str | None = None, surroundings: Surroundings | None = None) -> None:
        self._path = path
        self._stack = {} if stack is None else {"stack": stack}
        self._surroundings = surroundings or Surroundings()
        path.parent.mkdir(parents=True, exist_ok=True)

    def accepted(self, messages: Iterable[tuple[RequestCopy, str]]) -> None:
        """Write messages that the queue has just accepted, each with its SQS id, and wait until they are on disk."""
        now = self._surroundings.now_ms()
        lines = [
            json.dumps({**asdict(message.request), "sent": now, "copies": 1, "sqs_message_ids": [each], **self._stack})
            for message, each in messages
        ]
        if lines:
            begun = _CUT_OFF if is_cut_off(self._path) else ""
            self._surroundings.append(self._path, (begun + "".join(f"{line}\n" for line in lines)).encode())


def read_archive(path: Path, stack: str) -> Iterator[AcceptedRequest]:
    """Yield the archive's lines about a stack, by its `Target.identity`; a line without one counts as this stack's.

    Without a file there are none. A line that a crash cut off is skipped. Raises `OneslotError` for any other invalid line.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            try:
                document = json_object(line) or {}
                known = {name: value for name, value in document.items() if name in _ARCHIVED}  # of any version
                found = AcceptedRequest(Archived(**known), document["sent"], document.get("sqs_message_ids", []))
                invalid = any(LINES["accepted"](without_null(document)))
            except (KeyError, TypeError):
                invalid = True
            if invalid and line.endswith("\n") and not line.endswith(_CUT_OFF):
                raise InvalidArchive(
                    f"{path}, line {number}, is not a line of an archive of accepted requests. Restore or delete the line."
                )
            if not invalid and document.get("stack", stack) == stack:
                yield found


def json_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object of a line; None for anything else, such as what a crash cut off, or nesting without end."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_cut_off(path: Path) -> bool:
    """Return whether the last line of a file has no end."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        return file.read() not in (b"", b"\n")
