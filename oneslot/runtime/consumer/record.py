"""One record of an SQS event, parsed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable
from oneslot.runtime.identity import identify, parse_body, payload_hash
from oneslot.runtime.protocol import M
from oneslot.runtime.sqs.fifo import group_of

Receipt = tuple[str, str]
"""SQS's MessageId and the receipt handle. The handle alone would do, but for events that are written by hand."""

Parse = Callable[[str, str, Mapping[str, Any]], M]
"""`(message_id, payload_hash, body)` → the message; raises `Unprocessable`."""


@dataclass(frozen=True, slots=True)
class Record(Generic[M]):
    """A record and the message in it, or the problem that stands in its place.

    Attributes:
        raw: the record as Lambda passes it.
        message_id: the message's own id; None if it has none that may be logged.
        problem: what `Record.parse` met; the record's own attempt raises it.
    """

    raw: Mapping[str, Any] = field(repr=False)
    message_id: str | None
    message: M | None = field(repr=False)
    problem: BaseException | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any], parse: Parse[M], *, content_based: bool = False) -> Record[M]:
        """Parse the body, identify the message, and let `parse` read it. Never raises: see `problem`."""
        message_id = None
        try:
            text = str(raw["body"])
            body = parse_body(text)
            identity = identify(raw.get("messageAttributes", {}), body, text, content_based=content_based)
            digest = payload_hash(body)
            message_id = identity
            return cls(raw, message_id, parse(message_id, digest, body))
        except BaseException as problem:
            if isinstance(problem, Unprocessable) and problem.reason == INVALID_MESSAGE_ID:
                message_id = None
            return cls(raw, message_id, None, problem)

    @property
    def sqs_message_id(self) -> str:
        """SQS's MessageId."""
        return str(self.raw["messageId"])

    @property
    def receipt(self) -> Receipt:
        """Which receive of which SQS message this is."""
        return self.sqs_message_id, self.receipt_handle

    @property
    def receipt_handle(self) -> str:
        """The handle by which SQS knows this receive."""
        return str(self.raw["receiptHandle"])

    @property
    def body(self) -> str:
        """The body as it was sent."""
        return str(self.raw["body"])

    @property
    def receive_count(self) -> int:
        """How often SQS has delivered the message, this delivery included."""
        return int(self.raw["attributes"]["ApproximateReceiveCount"])

    @property
    def sent(self) -> int:
        """When the message was sent (epoch ms)."""
        return int(self.raw["attributes"]["SentTimestamp"])

    @property
    def group(self) -> str | None:
        """The message group, if the queue keeps order."""
        return group_of(self.raw)
