"""From single receives to one batch: Lambda's batch size, batching window and payload limit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

RECEIVE_MAXIMUM = 10  # messages, SQS's limit for one ReceiveMessage
# Seconds of one long poll. AWS takes 20: here a stop has to wait for the poll, and an idle loopback poll costs nothing.
LONG_POLL_SECONDS = 1
PAYLOAD_LIMIT = 6 * 1024 * 1024  # bytes, Lambda's quota for a synchronous invocation
_SHORT_PAUSE = 0.1  # seconds, inside a window that is too near its end for a long poll (those take whole seconds)

Receive = Callable[[int, int], "list[MessageTypeDef]"]


@dataclass(frozen=True)
class Batch:
    """What goes into the next invocation, and what no longer fitted into it and goes into the one after."""

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
    """Gather a batch; empty if one long poll brought nothing.

    receive(how_many, wait_seconds) returns messages. The window opens with the first message in hand. pause(seconds)
    waits and returns True as soon as the poller is to stop: then what is in hand goes at once.
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
    """Cut at the batch size or at Lambda's payload limit, whichever comes first. One message always goes."""
    size = 0
    for position, message in enumerate(messages):
        size += _payload([message])
        if position and (position >= batch_size or size > PAYLOAD_LIMIT):
            return Batch(tuple(messages[:position]), tuple(messages[position:]))
    return Batch(tuple(messages), ())


def not_behind(failed: Sequence[MessageTypeDef], carried: Sequence[MessageTypeDef]) -> tuple[MessageTypeDef, ...]:
    """Return those of the carried messages of a FIFO queue that may go next: those of no group in which one failed.

    The others were received together with the failed one, so they come again together with it.
    """
    stopped = {message["Attributes"]["MessageGroupId"] for message in failed}
    return tuple(message for message in carried if message["Attributes"]["MessageGroupId"] not in stopped)


def _payload(messages: Sequence[MessageTypeDef]) -> int:
    # Close to the size of the records made of them: bodies and attributes dominate, keys are counted roughly.
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
