"""The envelopes of AWS's services around a message: pass one of these functions as `Consumer(identity=...)`.

The id that the message inside carries comes first: a publisher that retries gets a new id from the service. The content is
what the ledger compares and what the parser gets, without the envelope, which differs between two copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.identity import IDENTITY_ATTRIBUTE, Identity, parse_body, payload_hash, require_message_id

SEND_SOURCE = "oneslot"
"""The `source` of an event that a decision sent. Its `detail-type` is the target's logical name, its first resource the id."""


def sns(record: Mapping[str, Any]) -> Identity:
    """Identify an SNS notification (without raw message delivery). Its content is the message, which must be a JSON object.

    The id is the message attribute `MessageDeduplicationId`, else the message's `message_id`, else SNS's `MessageId`.
    """
    envelope = parse_body(record["body"])
    try:
        text, own_id = envelope["Message"], envelope["MessageId"]
        attribute = envelope.get("MessageAttributes", {}).get(IDENTITY_ATTRIBUTE, {}).get("Value")
        content = parse_body(text)
    except (AttributeError, KeyError, TypeError):
        raise _unlike("SNS notification; with raw message delivery leave `identity` out") from None
    return Identity(require_message_id(attribute or content.get("message_id", own_id)), content)


def eventbridge(record: Mapping[str, Any]) -> Identity:
    """Identify an EventBridge event. Its content is `source`, `detail-type` and `detail`.

    The id is that of a decision's `Send`, else the detail's `message_id`, else the event's `id`. Two sends of one decision may
    name the same `message_id` in their details.
    """
    event = parse_body(record["body"])
    try:
        content = {name: event[name] for name in ("source", "detail-type", "detail")}
        own_id = (
            event["resources"][0] if event["source"] == SEND_SOURCE else event["detail"].get("message_id", event["id"])
        )
    except (AttributeError, IndexError, KeyError, TypeError):
        raise _unlike("EventBridge event; use no input transformer") from None
    return Identity(require_message_id(own_id), content)


def s3(record: Mapping[str, Any]) -> Identity:
    """Identify an S3 event notification. Its content names the event and the object, with the key decoded.

    The id is a digest of the event's name, bucket, key and `sequencer`, which differs between two events of one key.
    """
    notification = parse_body(record["body"])
    try:
        [event] = notification["Records"]
        subject = event["s3"]["object"]
        which = {
            "event": event["eventName"],
            "bucket": event["s3"]["bucket"]["name"],
            "key": unquote_plus(subject["key"]),
            "sequencer": subject["sequencer"],
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _unlike("S3 event of one object, with a sequencer") from None
    return Identity(
        payload_hash(which), {**which, **{name: subject.get(name) for name in ("versionId", "eTag", "size")}}
    )


def _unlike(expected: str) -> Unprocessable:
    return Unprocessable("unknown_envelope", f"the body is not an {expected}")
