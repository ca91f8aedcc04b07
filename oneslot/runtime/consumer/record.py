"""One record of an SQS event, parsed once, and the delivery log: one line for each attempt at it, with nothing personal."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, NamedTuple

from oneslot.runtime.effects import INVALID_MESSAGE_ID, Result, Unprocessable
from oneslot.runtime.identity import (
    Content,
    Identify,
    identified,
    message_attributes,
    payload_hash,
    plain,
)
from oneslot.runtime.protocol import Answer, M
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.values import shown_name, shown_path, to_json


class Receipt(NamedTuple):
    """One receive of one message, as SQS names it. The handle alone would do, but for events that are written by hand."""

    sqs_message_id: str
    handle: str


Parse = Callable[[str, str, Any], M]
"""`(message_id, payload_hash, body)` → the message; raises `Unprocessable`, or the `ValidationError` of a model.

`body` is a JSON object. Where the consumer has its own `identity`, a body that is none is its text.
"""

FIELDS = frozenset({"messageId", "receiptHandle", "body", "attributes"})
"""The fields of a record that SQS always sends, and that are needed. An SNS record has none of them."""

INVALID_MESSAGE = "invalid_message"
"""The reason for a message that its model refuses."""
SHOWN_FIELDS = 5


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
        """Identify the message, and let `parse` read it. For a failure see `problem`.

        `identity` replaces the usual rules for the id, for which the body must be a JSON object.

        Raises:
            KeyError: for a record without the fields that SQS always sends.
        """
        attributes, _ = raw["attributes"], raw["body"]
        group = attributes.get(GROUP_ATTRIBUTE)
        # A standard queue has groups for fairness; only a FIFO queue keeps their order.
        in_order = group is not None and is_fifo(str(raw.get("eventSourceARN", "")))
        trace = _trace(raw)
        message_id, message, problem = None, None, None
        try:
            found, content = identified(identity, raw) if identity else plain(raw, content_based=content_based)
            digest = payload_hash(content)
            message_id = found
            message = parsed(parse, found, digest, content)
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


def parsed(parse: Parse[M], message_id: str, digest: str, content: Content) -> M:
    """Return the parsed message.

    A `ValidationError`, of Pydantic for example, says that the message does not fit its model. Any other error but
    `Unprocessable` may come from a fault of the parser, and is raised as it is.

    Raises:
        Unprocessable: by the parser, or `invalid_message`, which names the fields and no value.
    """
    try:
        return parse(message_id, digest, content)
    except Exception as error:
        if isinstance(error, Unprocessable) or all(kind.__name__ != "ValidationError" for kind in type(error).__mro__):
            raise
        fields = "; ".join(_invalid_fields(error)) or "see the model"
        # Its text quotes the message.
        raise Unprocessable(INVALID_MESSAGE, f"the message does not fit its model: {fields}") from None


def _invalid_fields(error: Any) -> Iterator[str]:
    """Yield the fields that a validation error names, as Pydantic does in `errors()` and jsonschema in `absolute_path`.

    One of another library names none: what it has under these names may be of any form.
    """
    try:
        if hasattr(error, "absolute_path"):
            found = [((*error.absolute_path,), error.validator)]
        else:
            found = [((*each["loc"],), each["type"]) for each in error.errors()]
    except Exception:
        found = []
    for path, rule in found[:SHOWN_FIELDS]:
        yield f"{shown_path(path) or 'the whole message'} ({shown_name(rule)})"
    if len(found) > SHOWN_FIELDS:
        yield f"and {len(found) - SHOWN_FIELDS} more"


def _trace(raw: Mapping[str, Any]) -> str | None:
    """Return the message attribute `traceparent`, else SQS's `AWSTraceHeader`; None if neither has a known form."""
    attribute = (message_attributes(raw).get("traceparent") or {}).get("stringValue")
    for text in (attribute, raw["attributes"].get("AWSTraceHeader")):
        found = _TRACE.match(text or "")
        if found:
            return found.group()
    return None


LONGEST_OUTCOME = 128
"""Characters of an outcome that a line shows: CloudWatch drops a line that is too long."""


@dataclass(slots=True)
class Delivery:
    """One attempt at one record. Times are epoch ms, `attempt_ms` is a duration in ms, `trace` is the producer's.

    Of a failure, `where` is file and line, and `detail` the text of an error of Oneslot's own.
    """

    sqs_message_id: str
    receive_count: int
    sent: int
    function_request_id: str
    message_id: str | None = None
    outcome: str = "failed"
    reason: str | None = None
    consumption_count: int | None = None
    claimed_by: str | None = None
    answer: str | None = None
    finished: int = 0
    attempt_ms: int = 0
    trace: str | None = None
    where: str | None = None
    detail: str | None = None

    def answered(self, answer: Answer) -> None:
        """Note a request that has taken effect; `answer` is a digest, by which duplicates' answers can be compared."""
        self.outcome = (
            "duplicate" if answer.duplicate else str(answer.result.get("outcome", "complete"))[:LONGEST_OUTCOME]
        )
        self.consumption_count = answer.consumption_count
        self.claimed_by = answer.claimed_by
        self.answer = _digest(answer.result)


def print_line(delivery: Delivery) -> None:
    """Print one JSON line for an attempt: Lambda logs what is printed, and the audit reads this form."""
    line = {"message": "delivery", **asdict(delivery), **function_version(os.environ)}
    # One write with its line end: the threads of a batch print side by side.
    print(json.dumps(line) + "\n", end="", flush=True)  # noqa: T201


def function_version(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the version of the function as a line has it, by which a gradual deployment counts failures; none elsewhere."""
    version = environment.get("AWS_LAMBDA_FUNCTION_VERSION")
    return {"function_version": version} if version else {}


def _digest(result: Result) -> str:
    return hashlib.sha256(to_json(result, sort_keys=True).encode()).hexdigest()[:16]
