"""Which request a delivery belongs to: the id that the message itself carries, and a digest of what it says.

SQS's own MessageId is no identity: it changes when a producer sends again and when a dead-letter queue is redriven.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable

IDENTITY_ATTRIBUTE = "MessageDeduplicationId"
"""The SQS message attribute that, where present, is the message's identity; named as in SQS FIFO."""

NOT_JSON = "the body must be one JSON object, {...}, with each name once, moderate nesting and numbers up to 1e308"
_MESSAGE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def parse_body(text: str) -> Mapping[str, Any]:
    """The body as a JSON object. Raises `Unprocessable` (`not_json`) for anything else, hostile JSON included."""
    try:
        body = json.loads(
            text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant, parse_float=_number
        )
    except (ValueError, RecursionError):
        # The parser's own message may quote the body.
        raise Unprocessable("not_json", NOT_JSON) from None
    if not isinstance(body, dict):
        raise Unprocessable("not_json", NOT_JSON)
    return body


def identify(attributes: Mapping[str, Any], body: Mapping[str, Any], text: str, *, content_based: bool = False) -> str:
    """The identity of a message: its attribute, else its body's `message_id`, else, if switched on, its content.

    Args:
        attributes: the record's `messageAttributes`, as Lambda passes them.
        body: the parsed body.
        text: the body as sent, for content-based identity: its SHA-256, attributes not counted, as SQS FIFO has it.

    Raises:
        Unprocessable: `missing_message_id`, or `invalid_message_id` for one that is no fit key.
    """
    identity = attributes.get(IDENTITY_ATTRIBUTE, {}).get("stringValue") or body.get("message_id")
    if identity is None and content_based:
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    if identity is None:
        raise Unprocessable("missing_message_id", "message_id is missing; give each request an id of its own")
    if not isinstance(identity, str) or not _MESSAGE_ID.fullmatch(identity):
        raise Unprocessable(INVALID_MESSAGE_ID, "message_id must be 1 to 128 letters, digits or any of . _ : -")
    return identity


def payload_hash(body: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the body in one canonical spelling: names sorted, no spaces, ASCII."""
    try:
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise Unprocessable("not_json", NOT_JSON) from None
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise ValueError("a name is repeated")
    return body


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # all that are too large would be one content
        raise ValueError("a number is too large")
    return number


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
