"""Batches from single receives, by Lambda's batch size, batching window and payload limit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """The messages of the next invocation, and the carried ones that did not fit and go into the one after."""

    messages: tuple[MessageTypeDef, ...]
    carried: tuple[MessageTypeDef, ...]


def collect(
    receive: Receive,
    *,
    batch_size: int,
    window_seconds: float,
    carried: Sequence[MessageTypeDef],
    clock: Callable[[], float],
    pause: Callable[[float], bool],
) -> Batch:
    """Collect a batch; empty if one long poll brought nothing.

    receive(how_many, wait_seconds) returns messages. The window opens with the first message in hand. pause(seconds)
    waits, and returns True once the poller stops: then the messages in hand go at once.
    """
    messages = list(carried)
    if not messages:
        messages += receive(min(batch_size, RECEIVE_MAXIMUM), LONG_POLL_SECONDS)
    closes = clock() + window_seconds
    while messages and len(messages) < batch_size and _payload(messages) < PAYLOAD_LIMIT:
        left = closes - clock()
        if left <= 0 or pause(0):
            break
        more = receive(min(batch_size - len(messages), RECEIVE_MAXIMUM), int(min(left, LONG_POLL_SECONDS)))
        messages += more
        if not more and left < LONG_POLL_SECONDS and pause(min(left, _SHORT_PAUSE)):
            break
    return cut(messages, batch_size=batch_size)


def cut(messages: Sequence[MessageTypeDef], *, batch_size: int) -> Batch:
    """Cut at the batch size or at Lambda's payload limit, whichever comes first. A batch has at least one message."""
    size = 0
    for position, message in enumerate(messages):
        size += _payload([message])
        if position and (position >= batch_size or size > PAYLOAD_LIMIT):
            return Batch(tuple(messages[:position]), tuple(messages[position:]))
    return Batch(tuple(messages), ())


def not_behind(failed: Sequence[MessageTypeDef], carried: Sequence[MessageTypeDef]) -> tuple[MessageTypeDef, ...]:
    """Return the carried messages of a FIFO queue whose group had no failure.

    SQS redelivers the others together with the failed message.
    """
    stopped = {message["Attributes"]["MessageGroupId"] for message in failed}
    return tuple(message for message in carried if message["Attributes"]["MessageGroupId"] not in stopped)


def _payload(messages: Sequence[MessageTypeDef]) -> int:
    # Approximately the size of the records: bodies and attributes dominate, and the keys are estimated.
    return sum(
        len(json.dumps(message["Body"]))
        + sum(len(name) + len(value.get("StringValue", "")) + 150 for name, value in _attributes(message))
        + 1000
        for message in messages
    )


def _attributes(message: MessageTypeDef) -> list[tuple[str, dict[str, str]]]:
    return [
        (
            name,
            {"StringValue": value.get("StringValue", "") + "x" * (len(value.get("BinaryValue", b"")) * 4 // 3)},
        )
        for name, value in message.get("MessageAttributes", {}).items()
    ]
