"""The envelopes of AWS's services around a message: pass one of these functions as `Consumer(identity=...)`.

The id that the message inside carries comes first: a publisher that retries gets a new id from the service. The content is
what the ledger compares and what the parser gets, without the envelope, which differs between two copies.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.record import (
    IDENTITY_ATTRIBUTE,
    Identify,
    Identity,
    identified,
    parse_body,
    payload_hash,
    plain,
    require_message_id,
)
from oneslot.runtime.values import to_json

__all__ = ["eventbridge", "plain", "s3", "sns"]

SEND_SOURCE = "oneslot"
"""The `source` of an event that a decision sent. Its `detail-type` is the target's logical name, its first resource the id."""


def sns(record: Mapping[str, Any] | None = None, *, then: Identify | None = None) -> Any:
    """Identify an SNS notification (without raw message delivery). Its content is the message, which must be a JSON object.

    The id is the message attribute `MessageDeduplicationId`, else the message's `message_id`, else SNS's `MessageId`. `then`
    identifies the message in place of this rule: `sns(then=s3)`.
    """
    if record is None:
        return partial(sns, then=then)
    envelope = parse_body(record["body"])
    try:
        text, own_id = envelope["Message"], envelope["MessageId"]
        attribute = _first(envelope.get("MessageAttributes"), {}).get(IDENTITY_ATTRIBUTE)
        named = attribute["Value"] if attribute and attribute["Type"] != "Binary" else None
    except (AttributeError, KeyError, TypeError):
        raise _unlike("SNS notification; with raw message delivery leave `identity` out") from None
    if envelope.get("Type", "Notification") != "Notification" or not isinstance(text, str):
        raise _unlike("SNS notification; confirm the subscription first, and send its message as text")
    if then is not None:
        return identified(then, {**record, "body": text, "messageAttributes": {}})
    try:
        content = parse_body(text)
    except Unprocessable:
        raise Unprocessable("not_json", "the notification's Message must be one JSON object; publish JSON") from None
    return Identity(require_message_id(named or _first(content.get("message_id"), own_id)), content)


def eventbridge(record: Mapping[str, Any] | None = None, *, then: Identify | None = None) -> Any:
    """Identify an EventBridge event. Its content is `source`, `detail-type` and `detail`.

    The id is that of a decision's `Send`, else the detail's `message_id`, else the event's `id`. Two sends of one decision may
    name the same `message_id` in their details. `then` identifies the detail in place of this rule.
    """
    if record is None:
        return partial(eventbridge, then=then)
    event = parse_body(record["body"])
    try:
        content = {name: event[name] for name in ("source", "detail-type", "detail")}
        ours = event["source"] == SEND_SOURCE
        own_id = event["resources"][0] if ours else _first(event["detail"].get("message_id"), event["id"])
    except (AttributeError, IndexError, KeyError, TypeError):
        raise _unlike("EventBridge event; use no input transformer") from None
    if then is not None:
        return identified(then, {**record, "body": to_json(event["detail"]), "messageAttributes": {}})
    return Identity(require_message_id(own_id), content)


def s3(record: Mapping[str, Any]) -> Identity:
    """Identify an S3 event notification. Its content names the event and the object, with the key decoded.

    The id is a digest of the event's name, bucket, key and `sequencer`, which differs between two events of one key. Where S3
    gives no sequencer, the id of the request that changed the object takes its place.
    """
    notification = parse_body(record["body"])
    if notification.get("Event") == "s3:TestEvent":
        raise Unprocessable("unknown_envelope", "S3's test of a new notification is about no object; drop this message")
    try:
        [event] = notification["Records"]
        subject = event["s3"]["object"]
        bucket, key = event["s3"]["bucket"]["name"], unquote_plus(subject["key"])
        which = {"event": event["eventName"], "bucket": bucket, "key": key}
        if subject.get("sequencer"):
            which["sequencer"] = subject["sequencer"]
        else:
            which["request"] = event["responseElements"]["x-amz-request-id"]
        valid = all(isinstance(each, str) and each for each in which.values())
    except (AttributeError, KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        raise _unlike("S3 event of one object, with a sequencer or a request's id")
    about = {name: subject.get(name) for name in ("versionId", "eTag", "size")}
    return Identity(payload_hash(which), {**which, **about})


def _first(found: object, otherwise: Any) -> Any:
    return otherwise if found is None else found


def _unlike(expected: str) -> Unprocessable:
    return Unprocessable("unknown_envelope", f"the body is not an {expected}")
