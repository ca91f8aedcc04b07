"""A message's identity: the id that it carries itself, and a digest of its content.

SQS's own MessageId is not an identity: it changes when a producer retries and when a dead-letter queue is redriven.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeGuard

from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable
from oneslot.runtime.values import MOST_LEVELS, fraction, require_levels, to_json

IDENTITY_ATTRIBUTE = "MessageDeduplicationId"
"""The SQS message attribute that identifies the message where present; named as in SQS FIFO."""

NOT_JSON = f"the body must be one JSON object, {{...}}, with each name once, up to {MOST_LEVELS} levels and numbers up to 1e308"
MESSAGE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
MESSAGE_ID_FORM = "1 to 128 letters, digits or any of . _ : -, the first a letter or a digit"


Content = Mapping[str, Any] | str
"""What counts of a message: a JSON object, or any text."""


class Identity(NamedTuple):
    """A message's id, and the content that counts: the ledger compares it, and the parser gets it in place of the body."""

    message_id: str
    content: Content


Identify = Callable[[Mapping[str, Any]], "str | Identity"]
"""A record, as Lambda passes it, → the message's id; with its content where that is not the whole body."""


class InvalidIdentity(TypeError):
    """An `identity` returned something else than an id. Its code is at fault, so the message is delivered again."""


def is_message_id(value: object) -> TypeGuard[str]:
    """Return whether a value is a valid message id: text of the form `MESSAGE_ID_FORM`."""
    return isinstance(value, str) and MESSAGE_ID.fullmatch(value) is not None


def parse_body(text: str) -> Mapping[str, Any]:
    """Parse the body, which must be a JSON object. A fraction is a float, or a `Decimal` where a float would lose digits.

    Raises:
        Unprocessable: `not_json` for anything else, hostile JSON included.
    """
    try:
        body = json.loads(
            text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant, parse_float=fraction
        )
        if text.count("{") + text.count("[") > MOST_LEVELS:
            require_levels(body, text)
    except (ValueError, RecursionError):
        # The parser's own message may quote the body.
        raise Unprocessable("not_json", NOT_JSON) from None
    if not isinstance(body, dict):
        raise Unprocessable("not_json", NOT_JSON)
    return body


def identify(attributes: Mapping[str, Any], body: Mapping[str, Any], text: str, *, content_based: bool = False) -> str:
    """Return the message's id: its attribute, else its body's `message_id`, else (if switched on) a digest of its text.

    Args:
        attributes: the record's `messageAttributes`, as Lambda passes them.
        body: the parsed body.
        text: the body as sent. Content-based identity is its SHA-256 without attributes, as in SQS FIFO.

    Raises:
        Unprocessable: `missing_message_id`, or `invalid_message_id` for an id that must not become a key.
    """
    identity = (attributes.get(IDENTITY_ATTRIBUTE) or {}).get("stringValue") or body.get("message_id")
    if identity is None and content_based:
        return payload_hash(text)
    if identity is None:
        raise Unprocessable("missing_message_id", "message_id is missing; give each request its own id")
    return require_message_id(identity)


def plain(record: Mapping[str, Any], *, content_based: bool = False) -> Identity:
    """Identify a message by the usual rules: `identify` of a body that is a JSON object. The whole body is the content."""
    text = str(record["body"])
    body = parse_body(text)
    return Identity(identify(message_attributes(record), body, text, content_based=content_based), body)


def require_message_id(identity: object) -> str:
    """Return a valid message id unchanged. Raises `Unprocessable`, `invalid_message_id`, for any other value."""
    if not isinstance(identity, str):
        raise Unprocessable(INVALID_MESSAGE_ID, f"message_id must be text, in quotes: {MESSAGE_ID_FORM}")
    if not is_message_id(identity):
        raise Unprocessable(INVALID_MESSAGE_ID, f"message_id must be {MESSAGE_ID_FORM}")
    return identity


def identified(identity: Identify, record: Mapping[str, Any]) -> Identity:
    """Return what a consumer's own rule finds in a record, as Lambda passes it. The rule is asked first, whatever the body is.

    Without a content of its own, the content is the body: as a JSON object if it is one, else as its text.

    Raises:
        Unprocessable: by the rule itself, or `invalid_message_id` for an id that must not become a key.
        InvalidIdentity: if the rule returns anything but text or an `Identity` of text.
    """
    found = identity(record)
    chosen = found if isinstance(found, Identity) else Identity(found, _content(str(record["body"])))
    if not isinstance(chosen.message_id, str):
        raise InvalidIdentity(
            f"identity returned a {type(chosen.message_id).__name__}; return the id as text, or raise Unprocessable for a "
            "message that has none"
        )
    require_message_id(chosen.message_id)
    return chosen


def _content(text: str) -> Content:
    try:
        return parse_body(text)
    except Unprocessable:
        return text


def message_attributes(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record's message attributes. An event that was written by hand may have null in their place."""
    return record.get("messageAttributes") or {}


def payload_hash(body: Content) -> str:
    """Return the SHA-256 (hex) of the body in canonical form: sorted names, no spaces, ASCII. A text counts as it is."""
    if isinstance(body, str):
        return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    except TypeError:  # for a Decimal
        canonical = to_json(body, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise Unprocessable("not_json", NOT_JSON) from None
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise ValueError("a name is repeated")
    return body


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
