"""A handler's scenario: its messages as SQS delivers them, what exists before, and when its invocations may run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import permutations
from typing import Any

from oneslot.explorer.aftermath import TRAVEL_MS
from oneslot.explorer.execution.process import Program
from oneslot.explorer.handlers.aws import AccountServices
from oneslot.explorer.handlers.modules import RECEIVES, Code
from oneslot.explorer.handlers.program import HandlerProgram
from oneslot.explorer.renaming import OWN_NAME
from oneslot.explorer.scenario import SQS, ExploredSubject, Scenario
from oneslot.explorer.services.objects import before as objects_before
from oneslot.explorer.services.sqs import DELETED
from oneslot.explorer.state import GONE, NOT_STARTED, ExploredState
from oneslot.explorer.world import STATE, SqsMessage, World, from_text, to_text

EVENTS = {"Records", "detail-type", "httpMethod", "requestContext"}
"""Names that only whole events have: of queues, topics, buckets and streams, EventBridge, API Gateway, function URLs."""

RECORD = {
    *("messageId", "receiptHandle", "body", "attributes", "messageAttributes", "md5OfBody", "md5OfMessageAttributes"),
    *("eventSource", "eventSourceARN", "awsRegion"),
}
"""The names of a record of SQS."""

MOST_ORDERS = 4
"""The most messages whose orders are all tried for "as if once"."""

LISTS: Mapping[str, Any] = {"stringListValues": [], "binaryListValues": []}
"""What Lambda adds to each message attribute."""


@dataclass(frozen=True)
class HandlerScenario(Scenario):
    """A scenario in which Lambda ends an invocation at its timeout, so no invocation outlives it."""

    services: AccountServices
    expiries: int = 2
    ends_with: tuple[str, ...] | None = ()
    once_more: bool = False
    plain: bool = True
    unfinished: str = "at-least-once: after"
    apart: bool = False
    fifo: bool = False
    queue: str = ""
    timed: bool = True
    timeout_ms: int = 30_000
    reports_failures: bool = True
    objects: Mapping[str, Mapping[str, bytes | str]] = field(default_factory=dict)

    @property
    def world(self) -> World:
        """The world at the start, with its objects."""
        since = datetime.fromtimestamp(self.start / 1000, UTC)
        lines = [[STATE, bucket, key, to_text(held)] for bucket, key, held in objects_before(self.objects, since)]
        return World("\n".join(sorted([*super().world.text.splitlines(), *map(to_text, lines)])))

    def deleted(self, world: World) -> int:
        """Return the messages that the handler has deleted, as bits."""
        deleted = {sqs_id for container, sqs_id, _ in world.lines(STATE) if container == DELETED}
        return sum(1 << position for position, message in enumerate(self.messages) if message.sqs_id in deleted)

    @cached_property
    def groups(self) -> tuple[str | None, ...]:
        """What gives each message an order: its group in a FIFO queue, the key of a stream's record, else None.

        SQS returns no more of a group while one is in flight, and Lambda one batch of a shard at a time; equal keys share a
        shard. See https://docs.aws.amazon.com/lambda/latest/dg/with-kinesis.html, and
        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html.
        """
        return tuple(map(group_of, self.messages))

    def earlier(self, position: int) -> int:
        """See `Scenario.earlier`."""
        group = self.groups[position]
        return sum(1 << one for one in range(position) if group is not None and self.groups[one] == group)

    def may_start(self, delivery: int, state: ExploredState) -> bool:
        """Start equal deliveries in their order, those of a group one at a time, and all of them if they are `apart`.

        A group's later message starts once the earlier ones are acknowledged. Then none of them is delivered again. What
        is on its way has landed by then, because the visibility timeout is longer than a request travels.
        """
        kinds, batch, codes = self.kinds, self.deliveries[delivery], state.codes
        if delivery and kinds[delivery - 1] == kinds[delivery] and codes[delivery - 1] == NOT_STARTED:
            return False
        groups = {self.groups[position] for position in batch} - {None}
        for others, code in zip(self.deliveries, codes, strict=True):
            is_ordered = not groups.isdisjoint(self.groups[position] for position in others)
            if (self.apart and code >= 0) or (is_ordered and code not in (NOT_STARTED, GONE)):
                return False
        if groups and state.network:
            return False
        return all(
            bool(state.acknowledged >> position & 1) == (position < batch[0])
            for position, group in enumerate(self.groups)
            if group in groups and position not in batch
        )

    def unacknowledged_by(self, delivery: int) -> int:
        """See `Scenario.unacknowledged_by`: Lambda passes a shard's batch, also a repeated one, only once it succeeds."""
        return sum(1 << position for position in self.deliveries[delivery] if self.groups[position] is not None)

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """The orders in which single deliveries may come; that of the messages alone if there are many."""
        every = range(len(self.messages))
        if len(self.messages) > MOST_ORDERS:
            return [tuple(every)]
        return [
            order
            for order in permutations(every)
            if not any(self.earlier(one) & sum(1 << later for later in order[at:]) for at, one in enumerate(order))
        ]

    def may_end(self, codes: Sequence[int], travelling: bool) -> bool:
        """End whenever nothing runs: SQS promises no second delivery of what was acknowledged."""
        return not travelling and all(code in (NOT_STARTED, GONE) for code in codes)

    def times_after(self, expiries: int, running: bool) -> Sequence[int]:
        """Let a running invocation use its time up, and the visibility timeout pass when none runs."""
        if not self.timed:
            return ()
        if running:
            return () if self.apart or expiries else (1,)
        return (2,) if expiries < self.expiries else ()

    def taken(self, world: World) -> tuple[World, SqsMessage] | None:
        """See `Scenario.taken`: what is sent to the explored queue is work that is yet to come, and leaves no account.

        It invokes the function again: https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html.
        """
        for line in world.text.splitlines():
            if line.startswith('["message"'):
                _, url, _, sent = from_text(line)
                if url.rpartition("/")[2] == self.queue:
                    lines = world.text.splitlines()
                    lines.remove(line)
                    number = len(self.messages)
                    place = number if self.fifo else None
                    return World("\n".join(lines)), Numbered(str(number), sent["MessageBody"], 1, place, number)
        return None

    def redelivered_at(self, expiries: int) -> int:
        """Return when SQS delivers again: on FIFO, which delivers nothing twice, only when the visibility has ended."""
        return self.clock(expiries) + (self.visibility_ms + TRAVEL_MS if self.fifo else 0)

    def clock(self, expiries: int) -> int:
        """Return the time (epoch ms)."""
        return self.start + (0, self.timeout_ms - 1_000, self.timeout_ms + self.visibility_ms + 1_000)[expiries]


@dataclass(frozen=True, kw_only=True)
class HandlerSubject(ExploredSubject):
    """A handler as the explorer's subject."""

    code: Code
    scenario: HandlerScenario
    keeps_answer: bool = False

    def program(self, messages: Sequence[SqsMessage], side_by_side: bool, delivery: int = 0) -> Program:
        """Return one invocation with these messages."""
        event: Any = {"Records": [message.record(position) for position, message in enumerate(messages)]}
        batch = {message.sqs_id: message.sqs_id for message in messages}
        is_direct = isinstance(messages[0], Direct)
        if is_direct:
            events = [json.loads(message.body) for message in messages]
            event = events[0] if len(events) == 1 else {"Records": [one for each in events for one in each["Records"]]}
            pairs = zip(messages, events, strict=True)
            batch = {number: message.sqs_id for message, each in pairs for number in _sequence_numbers(each)}
        return HandlerProgram(
            self.code,
            json.dumps(event),
            delivery,
            self.scenario.timeout_ms,
            batch=batch if self.scenario.reports_failures and batch else None,
            is_stream=is_direct and bool(batch),
            keeps_answer=self.keeps_answer,
            reads_status=is_direct and is_http(event),
        )


def _sequence_numbers(event: Any) -> list[str]:
    """Return the identifiers of a batch from a stream. No other source than streams and SQS has its answer read."""
    records = event.get("Records", []) if isinstance(event, dict) else []
    places = (("dynamodb", "SequenceNumber"), ("kinesis", "sequenceNumber"))
    numbers = (record.get(source, {}).get(name) for record in records for source, name in places)
    return [number for number in numbers if number is not None]


def group_of(message: SqsMessage) -> str | None:
    """Return what gives a message its order among others: see `HandlerScenario.groups`."""
    if message.fifo_number is not None:
        return str(message.record(0)["attributes"]["MessageGroupId"])
    event: Any = json.loads(message.body) if isinstance(message, Direct) else None
    if not _sequence_numbers(event):
        return None
    first = event["Records"][0]
    record = first.get("kinesis") or first["dynamodb"]
    return to_text([first.get("eventSourceARN"), record.get("partitionKey"), record.get("Keys")])


class Direct(SqsMessage):
    """A whole event: it is delivered as it is, and again after a failure."""


class StreamRecord(Direct):
    """An event of a stream with one record. Several are delivered as one event, and again one by one."""


@dataclass(frozen=True)
class Numbered(SqsMessage):
    """A message with the SQS id of its position: two messages may have one body."""

    position: int = 0
    more: str = "{}"
    is_guess: bool = False
    """Whether it may as well be an event of another source: JSON, without a sign that it is a body."""

    @property
    def sqs_id(self) -> str:
        """SQS's own id."""
        return f"sqs-{self.position}-{hashlib.sha256(self.body.encode()).hexdigest()[:8]}"

    def record(self, position: int) -> dict[str, Any]:
        """Return the record, with what the user gave of it."""
        usual, given = super().record(position), json.loads(self.more)
        attributes, more = given.get("attributes") or {}, given.get("messageAttributes") or {}
        first = int(attributes.get(RECEIVES, 1))
        own = {
            "messageId": self.sqs_id,
            "receiptHandle": f"receipt-{self.sqs_id}-of-{OWN_NAME}",
            "attributes": {**usual["attributes"], **attributes, RECEIVES: str(first + self.receives - 1)},
            "messageAttributes": {name: {**LISTS, **value} for name, value in more.items()},
        }
        return {**usual, **given, **own}


def deliverer_of(messages: Sequence[SqsMessage]) -> str:
    """Return who delivers, in words: an event of another source than SQS shows which one that is."""
    if not isinstance(messages[0], Direct):
        return SQS
    event = json.loads(messages[0].body)
    if is_http(event):
        return "the client"
    return "Lambda" if isinstance(event, dict) and EVENTS & event.keys() else "the caller"


def is_http(event: Any) -> bool:
    """Return whether an event is of an HTTP API or a function URL: its client reads the answer's status."""
    return isinstance(event, dict) and not {"httpMethod", "requestContext"}.isdisjoint(event)


def batches_of(messages: Sequence[SqsMessage], most: int) -> list[tuple[int, ...]]:
    """Return the positions of the messages of each delivery. Of other events than SQS's, streams have batches."""
    if any(isinstance(message, Direct) and not isinstance(message, StreamRecord) for message in messages):
        most = 1
    positions = tuple(range(len(messages)))
    return [positions[first : first + most] for first in range(0, len(positions), most)]


def messages_of(given: Sequence[Any], event: Any, *, fifo: bool, splits: bool = False) -> tuple[SqsMessage, ...]:
    """Return the messages: bodies or records of SQS, or those of one whole event of any shape.

    The records of an event of SQS are messages of their own, because SQS redelivers each apart; those of a stream are if
    Lambda `splits` its batches. Raises `ValueError`.
    """
    if (event is None) == (not given):
        raise ValueError("messages: give one or more, or a whole event of any shape with event=, and not both")
    if splits and _sequence_numbers(event):
        return tuple(
            StreamRecord(str(position), json.dumps({"Records": [one]})) for position, one in enumerate(event["Records"])
        )
    every: Any = given
    if event is not None:
        every = event.get("Records") or () if isinstance(event, dict) else ()
        if not every or not all("body" in record for record in every):
            return (Direct("0", json.dumps(event)),)
    return tuple(one if isinstance(one, Direct) else message_of(at, one, fifo=fifo) for at, one in enumerate(every))


def message_of(position: int, message: Any, *, fifo: bool = False) -> SqsMessage:
    """Return a message from a body (text, or JSON: whatever names it has), or from a record of SQS."""
    is_record = isinstance(message, dict) and isinstance(message.get("body"), str) and message.keys() <= RECORD
    more = message if is_record else {}
    body = more.get("body", message)
    text = body if isinstance(body, str) else json.dumps(body)
    number = position if fifo else None
    is_guess = not is_record and not isinstance(message, str)
    return Numbered(str(position), text, 1, number, position, json.dumps(more), is_guess)
