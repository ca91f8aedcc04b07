"""Requests from a file (NDJSON): one JSON object on each line, each the body of one message."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from oneslot.declaration.reading import declared
from oneslot.errors import FileUnreadable, InvalidFile
from oneslot.laws.form import is_encodable
from oneslot.operator.sending.messages import Archived, RequestCopy, group_of
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.record import Content, parse_body, payload_hash
from oneslot.runtime.sqs.batches import text_attributes
from oneslot.runtime.sqs.dead_letters import identity_and_content, identity_of

# SQS's limit for one message (1 MiB).
LARGEST_BODY_BYTES = 1_048_576
BYTE_ORDER_MARK = "\ufeff"
STANDARD_INPUT = Path("-")
EMPTY = "{path} holds no request. Write one JSON object on each line."


def check_file(path: Path) -> int:
    """Read the whole file and return its number of requests. Raises `BadInput`, naming the line, for an invalid one.

    A line is invalid if SQS could not carry it. The consumer judges its content.
    """
    count = sum(1 for _ in read_requests(path))
    if count == 0:
        raise InvalidFile(EMPTY.format(path=path))
    return count


def load_requests(path: Path, attributes: Mapping[str, str] | None = None) -> tuple[int, Iterable[RequestCopy]]:
    """Return the number of requests and the requests. A file is read twice, in bounded memory, anything else once.

    Each message gets the `attributes`.

    Raises `BadInput` as `check_file` does.
    """
    if path.is_file():
        return check_file(path), read_requests(path, attributes)
    messages = list(read_requests(path, attributes))  # a pipe gives its content once
    if not messages:
        raise InvalidFile(EMPTY.format(path=path))
    return len(messages), messages


def read_requests(path: Path, attributes: Mapping[str, str] | None = None) -> Iterator[RequestCopy]:
    """Yield the file's requests; skip empty lines. Raises `BadInput` for a line that is not one, or another kind of file."""
    try:
        with sys.stdin if path == STANDARD_INPUT else path.open(encoding="utf-8") as file:
            for line, text in enumerate(file, 1):
                text = text.lstrip(BYTE_ORDER_MARK).strip()  # noqa: PLW2901 - an editor on Windows writes one before the first line
                if text:
                    yield _message(f"{path}, line {line}", text, line, attributes or {})
    except UnicodeDecodeError as error:
        raise FileUnreadable(f"{path} is not UTF-8 text. Save it as UTF-8.") from error
    except OSError as error:
        raise FileUnreadable(f"{path} cannot be read: {error.strerror}. Name a file that you may read.") from error


def read_request(text: str, attributes: Mapping[str, str] | None = None) -> RequestCopy:
    """Return the message with this body. Raises `BadInput` for one that is not a request."""
    return _message("The message", text.strip(), 0, attributes or {})


def _message(where: str, text: str, number: int, attributes: Mapping[str, str]) -> RequestCopy:
    if not is_encodable(text):
        raise InvalidFile(f"{where} is not UTF-8 text. Write it as UTF-8.")
    if len(text.encode()) > LARGEST_BODY_BYTES:
        raise InvalidFile(f"{where}: more than {LARGEST_BODY_BYTES:,} bytes, SQS's limit for a message. Shorten it.")
    try:
        body = parse_body(text)
    except Unprocessable as problem:
        raise InvalidFile(f"{where}: {problem.detail}.") from problem
    group = group_of(body.get("practice"))
    archived, why_no_id = _archived(body, text, attributes)
    return RequestCopy(text, archived, number, group, attributes, why_no_id)


def _archived(body: Mapping[str, Any], text: str, attributes: Mapping[str, str]) -> tuple[Archived, str | None]:
    """Return the request's id, as the consumer finds it, and the digest of its content; and why it finds no id."""
    content: Content = body
    own = declared().tool("identity")
    sent = {"Body": text, **text_attributes(attributes)}
    try:
        if own is None:
            identity = identity_of(text, sent.get("MessageAttributes", {}))
        else:
            identity, content = identity_and_content(own, sent)
    except Unprocessable as problem:
        return Archived(None, payload_hash=payload_hash(body)), problem.detail
    private = declared().is_private(identity)
    return Archived(None if private else identity, payload_hash=payload_hash(content)), None
