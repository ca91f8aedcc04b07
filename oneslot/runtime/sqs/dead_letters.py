"""Looks into the dead-letter queue without taking anything out of it, unless told to delete.

The nightly audit on AWS does so, too, from a zip that has this file and little else of the command line: what needs to know
the stack is in `stack_dead_letters.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appointments import nhs_number
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.identity import identify, parse_body
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.sqs.quarantine import DETAIL_ATTRIBUTE, REASON_ATTRIBUTE, SOURCE_ATTRIBUTE
from oneslot.runtime.sqs.queue_depth import queue_depth

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

# Long enough to read every message once before the first comes back; it ends early, when the look is over.
HIDDEN_SECONDS = 300
WAIT_SECONDS = 1
# SQS asks some of its servers at a time: one empty answer proves nothing.
EMPTY_ANSWERS = 2
BATCH = 10
# How often and how far apart the count of a queue is asked again that says more than a look has seen.
SETTLING_LOOKS = 5
SETTLING_SECONDS = 2.0
# What the queue's redrive policy moved carries no reason of the consumer's.
RECEIVES_EXHAUSTED = "receives_exhausted"
MISSING_MESSAGE_ID = "missing_message_id"
# SQS's name for the queue that its redrive policy moved a message from; what the consumer sends here has none.
MOVED_FROM = "DeadLetterQueueSourceArn"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message in the dead-letter queue; its body, which may name a patient, is not kept.

    `message_id` is its identity, None if it has none that is fit to be shown. `source_sqs_message_id` is the id it had in
    the queue it came from, None if the redrive policy moved it: SQS then keeps the id, which is `sqs_message_id`.
    """

    sqs_message_id: str
    message_id: str | None
    reason: str
    detail: str
    source_sqs_message_id: str | None
    sent: int

    @property
    def original_sqs_message_id(self) -> str:
        """The SQS id under which the producer sent it."""
        return self.source_sqs_message_id or self.sqs_message_id

    @property
    def line(self) -> dict[str, Any]:
        """What a history's `dead-letters/` says of it."""
        return {
            "message_id": self.message_id,
            "source_message_id": self.original_sqs_message_id,
            "reason": self.reason,
        }

    def answers_to(self, name: str) -> bool:
        """Whether a person may mean this message by `name`: its identity, or an SQS id that it has or had."""
        return name in (self.message_id, self.sqs_message_id, self.source_sqs_message_id)


@dataclass(frozen=True, slots=True)
class HeldLetter:
    """A dead letter in our hands, for as long as its `receipt` hides it from others. Its body is for programs only."""

    letter: DeadLetter
    receipt: str
    body: str = field(repr=False)
    attributes: Mapping[str, Any] = field(repr=False)
    group: str | None = None


class Reading:
    """One pass over the queue, in batches as they are received; everything that is not deleted is put back at the end.

    `content_based` tells whether the consumer identifies a message without an id by its content. It is asked only if there
    is such a message.
    """

    def __init__(self, client: SQSClient, queue_url: str, content_based: Callable[[], bool] = lambda: False) -> None:
        self._client = client
        self._queue_url = queue_url
        self._content_based = content_based
        self._receipts: dict[str, str] = {}

    def __iter__(self) -> Iterator[list[HeldLetter]]:
        empty = 0
        while empty < EMPTY_ANSWERS:
            # The first wait for an empty queue is a long poll, which asks all servers.
            answer = self._client.receive_message(
                QueueUrl=self._queue_url,
                MaxNumberOfMessages=BATCH,
                WaitTimeSeconds=0 if empty else WAIT_SECONDS,
                VisibilityTimeout=HIDDEN_SECONDS,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            )
            fresh = [message for message in answer.get("Messages", []) if message["MessageId"] not in self._receipts]
            empty = 0 if fresh else empty + 1
            for message in answer.get("Messages", []):
                self._receipts[message["MessageId"]] = message["ReceiptHandle"]
            if fresh:
                yield [_held(message, self._content_based) for message in fresh]

    def delete(self, letters: Iterable[HeldLetter]) -> list[HeldLetter]:
        """Delete these, ten at most, from the queue; returns those that are gone."""
        entries = list(letters)
        answer = self._client.delete_message_batch(
            QueueUrl=self._queue_url,
            Entries=[{"Id": str(at), "ReceiptHandle": entry.receipt} for at, entry in enumerate(entries)],
        )
        gone = [entries[int(success["Id"])] for success in answer.get("Successful", [])]
        for entry in gone:
            self._receipts[entry.letter.sqs_message_id] = ""
        return gone

    def put_back(self) -> None:
        """Put what is left in sight at once. What cannot be put back comes back by itself when its hiding ends."""
        receipts = [receipt for receipt in self._receipts.values() if receipt]
        for at in range(0, len(receipts), BATCH):
            self._client.change_message_visibility_batch(
                QueueUrl=self._queue_url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                    for number, receipt in enumerate(receipts[at : at + BATCH])
                ],
            )


@contextmanager
def reading(client: SQSClient, queue_url: str, content_based: Callable[[], bool] = lambda: False) -> Iterator[Reading]:
    """Read the queue; each look adds 1 to the receive count of what is in it, and nothing else."""
    look = Reading(client, queue_url, content_based)
    try:
        yield look
    finally:
        look.put_back()


def peek(client: SQSClient, queue_url: str, content_based: Callable[[], bool] = lambda: False) -> list[DeadLetter]:
    """Read the whole queue and put every message back in sight at once."""
    with reading(client, queue_url, content_based) as look:
        return [held.letter for batch in look for held in batch]


def waiting_behind(client: SQSClient, queue_url: str, seen: int) -> int:
    """How many messages a look that has just seen `seen` could not see, about.

    Another reader hides them: one that was killed, until `HIDDEN_SECONDS` are over. And of a FIFO queue SQS hands out ten of
    a group at most as long as these are not deleted.
    """
    unseen = queue_depth(client, queue_url).total - seen
    if not is_fifo(queue_url):
        # There it is seldom more than a count that lags behind: what a look puts back may count twice for a moment.
        for _ in range(SETTLING_LOOKS):
            if unseen <= 0:
                break
            time.sleep(SETTLING_SECONDS)
            unseen = min(unseen, queue_depth(client, queue_url).total - seen)  # what arrives meanwhile is not hidden
    return max(0, unseen)


def unseen_told(unseen: int) -> list[str]:
    """What to tell a person of dead letters that a look could not see: nothing if there are none."""
    if not unseen:
        return []
    return [
        f"About {unseen:,} dead letter(s) are not shown: another reader hides them (one that was killed for five minutes), or "
        "they wait behind others of their groups on a FIFO queue. Look again in a while; on a FIFO queue redrive or drop "
        "those before them first."
    ]


def _held(message: MessageTypeDef, content_based: Callable[[], bool]) -> HeldLetter:
    attributes: Mapping[str, Any] = message.get("MessageAttributes", {})
    system: Mapping[Any, str] = message.get("Attributes", {})
    # SQS's move task leaves the attributes on a message. One that the redrive policy moved here since has them of before.
    by_consumer = MOVED_FROM not in system
    said = {name: value.get("StringValue", "") for name, value in attributes.items()} if by_consumer else {}
    letter = DeadLetter(
        sqs_message_id=message["MessageId"],
        message_id=_shown_identity(message["Body"], attributes, content_based),
        reason=said.get(REASON_ATTRIBUTE, RECEIVES_EXHAUSTED),
        detail=said.get(DETAIL_ATTRIBUTE, "received as often as the queue's redrive policy allows, without success"),
        source_sqs_message_id=said.get(SOURCE_ATTRIBUTE),
        sent=int(system.get("SentTimestamp", "0")),
    )
    return HeldLetter(letter, message["ReceiptHandle"], message["Body"], attributes, system.get(GROUP_ATTRIBUTE))


def identity_of(body: str, attributes: Mapping[str, Any], *, content_based: bool = False) -> str:
    """The identity that the consumer would find. Raises `Unprocessable` if it would find none."""
    spelt_as_lambda_does = {name: {"stringValue": value.get("StringValue")} for name, value in attributes.items()}
    return identify(spelt_as_lambda_does, parse_body(body), body, content_based=content_based)


def _shown_identity(body: str, attributes: Mapping[str, Any], content_based: Callable[[], bool]) -> str | None:
    try:
        identity = identity_of(body, attributes)
    except Unprocessable as problem:
        if problem.reason != MISSING_MESSAGE_ID or not content_based():
            return None
        return identity_of(body, attributes, content_based=True)
    return None if nhs_number.contains_one(identity) else identity
