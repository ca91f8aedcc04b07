"""Batches from single receives, by Lambda's batch size, batching window and payload limit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oneslot.runtime.surroundings import Event, Surroundings

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

RECEIVE_MAXIMUM = 10  # messages, SQS's limit for one ReceiveMessage
# Seconds of one long poll. AWS takes 20; here a stop waits for the poll, and an idle poll on loopback costs nothing.
LONG_POLL_SECONDS = 1
PAYLOAD_LIMIT = 6 * 1024 * 1024  # bytes, Lambda's quota for a synchronous invocation
_SHORT_PAUSE = 0.1  # seconds, when the window ends too soon for a long poll, which takes whole seconds

Receive = Callable[[int, int], "list[MessageTypeDef]"]


@dataclass(frozen=True)
class Batch:
    """Messages in hand, and the time before the call that received the oldest: seconds on the steady clock."""

    messages: tuple[MessageTypeDef, ...] = ()
    since: float = 0.0


def collect(
    receive: Receive,
    *,
    batch_size: int,
    window_seconds: float,
    oldest_seconds: float,
    carried: Batch,
    surroundings: Surroundings,
    stopping: Event,
) -> tuple[Batch, Batch]:
    """Collect a batch, empty if one long poll brought nothing; return it, and what did not fit and goes into the next.

    receive(how_many, wait_seconds) returns messages. The window opens with the first message in hand. It closes early when
    the oldest message is `oldest_seconds` old, and when the poller stops.
    """
    messages, oldest, newest = list(carried.messages), carried.since, carried.since
    if not messages:
        oldest = newest = surroundings.steady()
        messages += receive(min(batch_size, RECEIVE_MAXIMUM), LONG_POLL_SECONDS)
    closes = min(surroundings.steady() + window_seconds, oldest + oldest_seconds)
    while messages and len(messages) < batch_size and _payload(messages) < PAYLOAD_LIMIT:
        now = surroundings.steady()
        left = closes - now
        if left <= 0 or stopping.is_set():
            break
        newest = now
        more = receive(min(batch_size - len(messages), RECEIVE_MAXIMUM), int(min(left, LONG_POLL_SECONDS)))
        messages += more
        if not more and left < LONG_POLL_SECONDS:
            stopping.wait(min(left, _SHORT_PAUSE))
    end = fitting(messages, batch_size=batch_size)
    # All that does not fit came with the last receive: there is none once a batch is full.
    return Batch(tuple(messages[:end]), oldest), Batch(tuple(messages[end:]), newest)


def fitting(messages: Sequence[MessageTypeDef], *, batch_size: int) -> int:
    """Return how many fit into one invocation, by the batch size and Lambda's payload limit; the first always does."""
    size = 0
    for position, message in enumerate(messages):
        size += _payload([message])
        if position and (position >= batch_size or size > PAYLOAD_LIMIT):
            return position
    return len(messages)


def not_behind(failed: Sequence[MessageTypeDef], carried: Batch) -> Batch:
    """Return the carried messages of a FIFO queue whose group had no failure.

    SQS redelivers the others together with the failed message.
    """
    stopped = {message["Attributes"]["MessageGroupId"] for message in failed}
    kept = tuple(each for each in carried.messages if each["Attributes"]["MessageGroupId"] not in stopped)
    return replace(carried, messages=kept)


def _payload(messages: Sequence[MessageTypeDef]) -> int:
    """Return about the size of the records: bodies and attributes dominate, and the keys are estimated."""
    total = 0
    for message in messages:
        total += 1000 + len(json.dumps(message["Body"]))
        for name, value in message.get("MessageAttributes", {}).items():
            total += 150 + len(name) + len(value.get("StringValue", "")) + len(value.get("BinaryValue", b"")) * 4 // 3
    return total
