"""A message's identity, one record of an SQS event, and the delivery log: one line for each attempt, with nothing personal.

The id is the one that the message itself carries. SQS's own MessageId is not an identity: it changes when a producer retries
and when a dead-letter queue is redriven.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, NamedTuple, NoReturn, TypeGuard

from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable
from oneslot.runtime.protocol import Answer, M
from oneslot.runtime.sqs.queue import GROUP_ATTRIBUTE, QUARANTINE_ATTRIBUTES, REASON_ATTRIBUTE, is_fifo, source_of
from oneslot.runtime.values import MOST_LEVELS, fraction, require_levels, shown_name, shown_path, to_json

IDENTITY_ATTRIBUTE = "MessageDeduplicationId"
"""The SQS message attribute that identifies the message where present; named as in SQS FIFO."""

MAXIMUM_ATTRIBUTES = 10  # that SQS takes with a message

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

    The rule never sees the attributes that a quarantine left, so that a redriven message is the same request with the same
    content. Without a content of its own, the content is the body: as a JSON object if it is one, else as its text.

    Raises:
        Unprocessable: by the rule itself, or `invalid_message_id` for an id that must not become a key.
        InvalidIdentity: if the rule returns anything but text or an `Identity` of text.
    """
    own = message_attributes(record)
    if REASON_ATTRIBUTE in own:
        sent = {name: value for name, value in own.items() if name not in QUARANTINE_ATTRIBUTES}
        record = {**record, "messageAttributes": sent}
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
        sent_as: the SQS id with which the message was sent first; see `source_of`.
        receive_count: how often SQS has delivered the message, this delivery included.
        sent: when the message was sent (epoch ms).
        group: the message group, if the queue keeps order.
        message_id: the message's own id; None if it has none that may be logged.
        trace: the producer's trace, in the form of W3C's `traceparent` or of X-Ray's header; None without one.
        problem: what `Record.parse` met; the record's own attempt raises it.
    """

    raw: Mapping[str, Any] = field(repr=False)
    receipt: Receipt
    sent_as: str
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
        content_based: bool = False,
        identity: Identify | None = None,
        is_private: Callable[[str], bool] | None = None,
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
        own = message_attributes(raw)
        trace = _trace(own, attributes)
        receipt = Receipt(str(raw["messageId"]), str(raw["receiptHandle"]))
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
            receipt=receipt,
            sent_as=(source_of(own, is_private) if own else None) or receipt.sqs_message_id,
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


def _trace(own: Mapping[str, Any], system: Mapping[str, Any]) -> str | None:
    """Return the message attribute `traceparent`, else SQS's `AWSTraceHeader`; None if neither has a known form."""
    attribute = (own.get("traceparent") or {}).get("stringValue")
    for text in (attribute, system.get("AWSTraceHeader")):
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
        self.answer = hashlib.sha256(to_json(answer.result, sort_keys=True).encode()).hexdigest()[:16]


def print_line(delivery: Delivery) -> None:
    """Print one JSON line for an attempt: Lambda logs what is printed, and the audit reads this form."""
    line = {"message": "delivery", **asdict(delivery), **function_version(os.environ)}
    # One write with its line end: the threads of a batch print side by side.
    print(json.dumps(line) + "\n", end="", flush=True)  # noqa: T201


def function_version(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the version of the function as a line has it, by which a gradual deployment counts failures; none elsewhere."""
    version = environment.get("AWS_LAMBDA_FUNCTION_VERSION")
    return {"function_version": version} if version else {}
