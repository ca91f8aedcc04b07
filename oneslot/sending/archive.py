"""The archive of accepted requests, `accepted.jsonl`: what the queue accepted, without personal data.

It has one line for each request, written when the last copy was accepted, and one more for each later command that sent it.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from oneslot.errors import OneslotError
from oneslot.sending.messages import Archived, Message

_ARCHIVED = frozenset(each.name for each in fields(Archived))


@dataclass(frozen=True)
class AcceptedRequest:
    """One line of the archive; `sent` is the time at which the queue accepted the first copy (epoch ms)."""

    request: Archived
    sent: int
    sqs_message_ids: Sequence[str]


@dataclass
class _Open:
    request: Archived
    sent: int
    expected: int
    sqs_message_ids: list[str] = field(default_factory=list)


class Archive:
    """An archive open for appending. A request with copies still to be sent is written when the archive closes.

    `stack` is the `Target.identity` of the stack that gets the requests; another stack of the same name has other evidence.
    """

    def __init__(self, path: Path, stack: str | None = None) -> None:
        self._path = path
        self._stack = stack
        self._open: dict[int, _Open] = {}
        self._file: TextIO | None = None

    def __enter__(self) -> Archive:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number in list(self._open):
            self._write(self._open.pop(number))
        if self._file is not None:
            self._file.close()
            self._file = None

    def accepted(self, message: Message, sqs_message_id: str, now_ms: int) -> None:
        """Note that the queue accepted this copy."""
        entry = self._open.setdefault(message.number, _Open(message.request, now_ms, message.request.copies))
        entry.sqs_message_ids.append(sqs_message_id)
        if len(entry.sqs_message_ids) >= entry.expected:
            self._write(self._open.pop(message.number))

    def flush(self) -> None:
        """Write the complete lines to the file."""
        if self._file is not None:
            self._file.flush()

    def _write(self, entry: _Open) -> None:
        document: dict[str, Any] = asdict(entry.request)
        document |= {"sent": entry.sent, "copies": len(entry.sqs_message_ids), "sqs_message_ids": entry.sqs_message_ids}
        if self._stack is not None:
            document["stack"] = self._stack
        if self._file is not None:
            self._file.write(json.dumps(document) + "\n")


def read_archive(path: Path, stack: str) -> Iterator[AcceptedRequest]:
    """Yield the archive's lines about a stack, by its `Target.identity`; a line without one counts as this stack's.

    Without a file there are none. A last line that a crash cut off is skipped. Raises `OneslotError` for any other invalid
    line.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                document = json.loads(line)
                sent, ids = document.pop("sent"), document.pop("sqs_message_ids", [])
                if document.pop("stack", stack) == stack:
                    known = {name: value for name, value in document.items() if name in _ARCHIVED}  # of any version
                    yield AcceptedRequest(Archived(**known), operator.index(sent), ids)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if not line.endswith("\n"):
                    return
                raise OneslotError(
                    f"{path}, line {number}, is not a line of an archive of accepted requests. Restore or delete the line."
                ) from error
