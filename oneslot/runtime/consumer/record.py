"""One record of an SQS event, parsed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable
from oneslot.runtime.identity import (
    Identify,
    Identity,
    identify,
    parse_body,
    payload_hash,
    require_message_id,
)
from oneslot.runtime.protocol import M
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo


class Receipt(NamedTuple):
    """One receive of one message, as SQS names it. The handle alone would do, but for events that are written by hand."""

    sqs_message_id: str
    handle: str


Parse = Callable[[str, str, Mapping[str, Any]], M]
"""`(message_id, payload_hash, body)` → the message; raises `Unprocessable`."""


_TRACE = re.compile(
    r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
    r"|Root=1-[0-9a-f]{8}-[0-9a-f]{24}(;Parent=[0-9a-f]{16})?(;Sampled=[01?])?"
)
"""The forms of W3C's `traceparent` and of X-Ray's header. The producer chooses the text, so nothing else is logged."""


@dataclass(frozen=True, slots=True)
class Record(Generic[M]):
    """A record and the message in it, or the problem that stands in its place.

    Attributes:
        raw: the record as Lambda passes it.
        receipt: the identity of this receive.
        receive_count: how often SQS has delivered the message, this delivery included.
        sent: when the message was sent (epoch ms).
        group: the message group, if the queue keeps order.
        message_id: the message's own id; None if it has none that may be logged.
        trace: the producer's trace, in the form of W3C's `traceparent` or of X-Ray's header; None without one.
        problem: what `Record.parse` met; the record's own attempt raises it.
    """

    raw: Mapping[str, Any] = field(repr=False)
    receipt: Receipt
    receive_count: int
    sent: int
    group: str | None
    message_id: str | None
    message: M | None = field(repr=False)
    problem: BaseException | None = None
    trace: str | None = None

    @classmethod
    def parse(
        cls,
        raw: Mapping[str, Any],
        parse: Parse[M],
        *,
        content_based: bool = False,
        identity: Identify | None = None,
    ) -> Record[M]:
        """Parse the body, identify the message, and let `parse` read it. For a failure see `problem`.

        `identity` replaces the usual rules for the id.

        Raises:
            KeyError: for a record without the fields that SQS always sends.
        """
        attributes, text = raw["attributes"], str(raw["body"])
        group = attributes.get(GROUP_ATTRIBUTE)
        # A standard queue has groups for fairness; only a FIFO queue keeps their order.
        in_order = group is not None and is_fifo(str(raw.get("eventSourceARN", "")))
        trace = _trace(raw)
        message_id, message, problem = None, None, None
        try:
            body = parse_body(text)
            if identity is None:
                found = identify(raw.get("messageAttributes", {}), body, text, content_based=content_based)
            else:
                chosen = identity(raw)
                found, body = chosen if isinstance(chosen, Identity) else (chosen, body)
                require_message_id(found)
            digest = payload_hash(body)
            message_id = found
            message = parse(found, digest, body)
        except BaseException as error:
            problem = error
            if isinstance(error, Unprocessable) and error.reason == INVALID_MESSAGE_ID:
                message_id = None
        return cls(
            raw=raw,
            receipt=Receipt(str(raw["messageId"]), str(raw["receiptHandle"])),
            receive_count=int(attributes["ApproximateReceiveCount"]),
            sent=int(attributes["SentTimestamp"]),
            group=str(group) if in_order else None,
            message_id=message_id,
            message=message,
            problem=problem,
            trace=trace,
        )

    @property
    def body(self) -> str:
        """The body as it was sent."""
        return str(self.raw["body"])


def _trace(raw: Mapping[str, Any]) -> str | None:
    """Return the message attribute `traceparent`, else SQS's `AWSTraceHeader`; None if neither has a known form."""
    attribute = raw.get("messageAttributes", {}).get("traceparent", {}).get("stringValue")
    for text in (attribute, raw["attributes"].get("AWSTraceHeader")):
        found = _TRACE.match(text or "")
        if found:
            return found.group()
    return None
