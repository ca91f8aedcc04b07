"""A queue: its kind, its depth, and how long it hides a message before the next receive.

Every receive counts towards the dead-letter queue.

| the message            | its wait                                                                    |
|------------------------|-----------------------------------------------------------------------------|
| busy, early receives   | 1 s, doubled with each receive, and at most the lease that is left          |
| busy, from half of them | the lease that is left, at most the longest that a consumer can rightly have |
| failed                 | 1 s, doubled with each receive, up to the retry delay; 0: the visibility timeout |

A busy message mostly waits for a twin that commits in milliseconds, so its first waits are short. They spend fewer than half
of its receives. After that one wait outlasts any right lease, so a healthy message does not reach the dead-letter queue.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

GROUP_ATTRIBUTE = "MessageGroupId"
# The consumer sets these attributes on a message that it quarantines: the reason, and the SQS id with which it was sent first.
REASON_ATTRIBUTE = "QuarantineReason"
DETAIL_ATTRIBUTE = "QuarantineDetail"
SOURCE_ATTRIBUTE = "SourceMessageId"
QUARANTINE_ATTRIBUTES = (REASON_ATTRIBUTE, DETAIL_ATTRIBUTE, SOURCE_ATTRIBUTE)
_SQS_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RETRIES_SPEND_RECEIVES = (
    "short retries on a FIFO queue spend a message's receives within seconds, and its group then goes on without it"
)
"""Why a retry delay is refused there; see `docs/do/keep-order.md`."""


class HeldBack(Exception):
    """An earlier record of the message group failed in this batch; this one must wait behind it."""


def source_of(attributes: Mapping[str, Any], is_private: Callable[[str], bool] | None) -> str | None:
    """Return the SQS id with which a quarantined or redriven message was sent first; None without one that may be logged.

    A producer may have an attribute of its name. Only beside the reason is it the quarantine's.
    """
    said = attributes.get(SOURCE_ATTRIBUTE) or {}
    found = said.get("stringValue") or said.get("StringValue") or ""  # as Lambda and as SQS name it
    if REASON_ATTRIBUTE not in attributes or not _SQS_ID.fullmatch(found) or (is_private and is_private(found)):
        return None
    return str(found)


def is_fifo(name: str) -> bool:
    """Return whether a queue's URL or ARN names a FIFO queue: SQS reserves the ending for them."""
    return name.endswith(".fifo")


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Numbers of messages that wait to be received, are in flight (received and hidden), or are delayed.

    SQS's numbers are approximate, and settle about a minute after the last message moved.
    """

    waiting: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        """The number of messages in any state."""
        return self.waiting + self.in_flight + self.delayed

    @property
    def empty(self) -> bool:
        """Return whether the queue holds no message."""
        return self.total == 0


def queue_depth(client: SQSClient, queue_url: str) -> QueueDepth:
    """Return the depth that SQS reports."""
    attributes = client.get_queue_attributes(
        QueueUrl=queue_url,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ],
    )["Attributes"]
    return QueueDepth(
        waiting=int(attributes["ApproximateNumberOfMessages"]),
        in_flight=int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        delayed=int(attributes["ApproximateNumberOfMessagesDelayed"]),
    )


SHORT_WAITS_SHARE = 2
"""Short waits spend fewer than 1/SHORT_WAITS_SHARE of a message's receives."""
FIRST_DELAY_MS = 1_000
LEASE_JITTER_MS = 2_000
"""Spreads the return of messages whose leases end together."""
MOST_DOUBLINGS = 16
"""The delay is then above SQS's longest visibility timeout of 12 hours."""
LONGEST_LAMBDA_SECONDS = 900
QUEUE_VISIBILITY_SECONDS = 30
"""SQS's default."""
FEWEST_RECEIVES = 5
"""SQS allows one, and AWS's guide for Lambda says 5 or more: throttles alone use some of them up."""
USUAL_RECEIVES = 10
"""The receives of a queue whose redrive policy is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """The numbers of a queue's deferrals.

    Attributes:
        max_receive_count: the receives after which SQS moves the message to the dead-letter queue.
        longest_lease_seconds: the longest lease of any consumer of the queue. A longer one comes from a wrong clock.
        longest_retry_delay_seconds: the longest wait after a failure. 0 leaves a failed message to its visibility timeout.
    """

    max_receive_count: int = USUAL_RECEIVES
    longest_lease_seconds: float = LONGEST_LAMBDA_SECONDS
    longest_retry_delay_seconds: float = 0

    def after_busy(self, receive_count: int, lease_ms: float, jitter: float) -> int:
        """Return the seconds to hide a message whose lease has `lease_ms` left. `jitter` is from 0 to 1."""
        whole = self.whole(lease_ms, jitter)
        if receive_count < self.max_receive_count // SHORT_WAITS_SHARE:
            return min(whole, math.ceil(_grown_ms(receive_count, jitter) / 1000))
        return whole

    def whole(self, milliseconds: float, jitter: float) -> int:
        """Return the seconds to hide a message for all of `milliseconds`, up to the longest lease."""
        return math.ceil((min(milliseconds, self.longest_lease_seconds * 1000) + jitter * LEASE_JITTER_MS) / 1000)

    def after_failure(self, receive_count: int, jitter: float) -> int | None:
        """Return the seconds to hide a message after a failure; None leaves it to its visibility timeout."""
        if not self.longest_retry_delay_seconds:
            return None
        return math.ceil(min(_grown_ms(receive_count, jitter) / 1000, self.longest_retry_delay_seconds))


def deferral_of(environment: Mapping[str, str]) -> Deferral:
    """Return the numbers that the environment sets, in `ONESLOT_` and the field's name in capitals.

    Raises:
        ValueError: naming the variable that is malformed.
    """
    given = {each.name: environment.get(f"ONESLOT_{each.name.upper()}") for each in fields(Deferral)}
    for name, text in given.items():
        if text is not None and not text.isdecimal():
            raise ValueError(f"environment variable ONESLOT_{name.upper()} must be a whole number of 0 or more")
    return Deferral(**{name: int(text) for name, text in given.items() if text is not None})


def _grown_ms(receive_count: int, jitter: float) -> float:
    doublings: int = 2 ** min(receive_count - 1, MOST_DOUBLINGS)
    return FIRST_DELAY_MS * doublings * (1 + jitter)
