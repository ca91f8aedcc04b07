"""A reader of the dead-letter queue, which deletes nothing unless it is asked to.

The nightly audit on AWS reads the queue with it as well; `oneslot.operator.evidence.dead_letters` applies it to a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable
from oneslot.runtime.record import Identify, Identity, identified, identify, parse_body
from oneslot.runtime.sqs.batches import BATCH, delete_messages, is_final
from oneslot.runtime.sqs.lambda_event import received, record
from oneslot.runtime.sqs.queue import (
    DETAIL_ATTRIBUTE,
    GROUP_ATTRIBUTE,
    REASON_ATTRIBUTE,
    is_fifo,
    queue_depth,
    source_of,
)
from oneslot.runtime.surroundings import Backoff, Surroundings

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

# Long enough to read every message once before the first is visible again; `put_back` ends it earlier.
HIDDEN_SECONDS = 300
WAIT_SECONDS = 1
# SQS asks a sample of its servers at a time, so one empty answer does not show that the queue is empty.
EMPTY_ANSWERS = 2
# How long to repeat the deletion or the return of letters that SQS throttles, or leaves out of its answer.
RETRIED_MS = 10_000
# The looks at a queue's depth, and the seconds between them, until a depth above what a reader saw is believed.
SETTLING_LOOKS = 5
SETTLING_SECONDS = 2.0
# The reason of messages that the redrive policy moved; they carry none of the consumer's.
RECEIVES_EXHAUSTED = "receives_exhausted"
MISSING_MESSAGE_ID = "missing_message_id"
_WITHOUT_ID = ("not_json", "unknown_envelope", MISSING_MESSAGE_ID, INVALID_MESSAGE_ID)
# SQS sets this system attribute on what its redrive policy moved. What the consumer sends has none.
MOVED_FROM = "DeadLetterQueueSourceArn"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message in the dead-letter queue, without its body, which may name a patient.

    `message_id` is None if the message has no valid id, or one that is withheld. `source_sqs_message_id` is the SQS id under
    which the producer sent it; None if that is its id still, because only the redrive policy moved it.
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
        """The line for it in a history's `dead-letters/`."""
        return {
            "message_id": self.message_id,
            "source_message_id": self.original_sqs_message_id,
            "reason": self.reason,
        }

    def answers_to(self, name: str) -> bool:
        """Return whether `name` is its message id, or an SQS id that it has or had."""
        return name in (self.message_id, self.sqs_message_id, self.source_sqs_message_id)


@dataclass(frozen=True, slots=True)
class HeldLetter:
    """A dead letter that `receipt` hides from other readers, with its body, which must not be shown.

    `system` has SQS's own attributes of it. `own_rule`: whether the consumer has its own rule for ids.
    """

    letter: DeadLetter
    receipt: str
    body: str = field(repr=False)
    attributes: Mapping[str, Any] = field(repr=False)
    system: Mapping[str, Any] = field(default_factory=dict, repr=False)
    own_rule: bool = False

    @property
    def may_have_had_no_id(self) -> bool:
        """Whether the consumer may have found no id in it: its own rule may have failed, or refused it for any reason."""
        return self.own_rule or self.letter.message_id is None or self.letter.reason in _WITHOUT_ID

    @property
    def group(self) -> str | None:
        """Its message group, which a standard queue may have as well."""
        return self.system.get(GROUP_ATTRIBUTE)


@dataclass(slots=True)
class Reading:
    """One pass over the queue, in batches as SQS returns them. It adds 1 to the receive count of every message.

    As a context, it ends by making every letter visible that was not deleted. After a failure its visibility timeout does so.

    Attributes:
        withheld: whether an id must not be shown.
        content_based: whether the consumer identifies a message without an id by its content; asked only for such a message.
        identity: the consumer's own rule for the id.
    """

    client: SQSClient
    queue_url: str
    withheld: Callable[[str], bool] = lambda _: False
    content_based: Callable[[], bool] = lambda: False
    identity: Identify | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    _receipts: dict[str, str] = field(default_factory=dict, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.put_back()

    def __iter__(self) -> Iterator[list[HeldLetter]]:
        empty = 0
        while empty < EMPTY_ANSWERS:
            # The first receive of an empty queue is a long poll, because that asks all servers.
            answer = self.client.receive_message(
                QueueUrl=self.queue_url,
                MaxNumberOfMessages=BATCH,
                WaitTimeSeconds=0 if empty else WAIT_SECONDS,
                VisibilityTimeout=HIDDEN_SECONDS,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
            fresh = [message for message in messages if message["MessageId"] not in self._receipts]
            empty = 0 if fresh else empty + 1
            for message in messages:
                self._receipts[message["MessageId"]] = message["ReceiptHandle"]
            if fresh:
                yield [self._held(message) for message in fresh]
            if len(messages) == BATCH and is_fifo(self.queue_url):
                self._reopen_last_group(messages)

    def delete(self, letters: Iterable[HeldLetter]) -> list[HeldLetter]:
        """Delete letters from the queue; return those that SQS deleted within `RETRIED_MS`."""
        waiting = list(letters)
        receipts = [held.receipt for held in waiting]
        deletion = delete_messages(self.client, self.queue_url, receipts, self.surroundings, within_ms=RETRIED_MS)
        gone = [waiting[at] for at in deletion.deleted]
        for held in gone:
            self._receipts[held.letter.sqs_message_id] = ""
        return gone

    def put_back(self) -> None:
        """Make every letter that was not deleted visible at once."""
        self._show([receipt for receipt in self._receipts.values() if receipt])

    def _reopen_last_group(self, messages: Sequence[MessageTypeDef]) -> None:
        """Make the letters of the last group visible if the limit of a batch can have cut the group.

        SQS shows nothing more of a group while it hides one of its messages, so the others would never be seen.
        """
        groups = [message["Attributes"]["MessageGroupId"] for message in messages]
        if groups.count(groups[-1]) < BATCH:
            last = [each["MessageId"] for each, group in zip(messages, groups, strict=True) if group == groups[-1]]
            self._show([self._receipts[each] for each in last if self._receipts[each]])

    def _show(self, waiting: list[str]) -> None:
        backoff = Backoff(self.surroundings, self.surroundings.now_ms() + RETRIED_MS)
        while waiting:
            batch, waiting = waiting[:BATCH], waiting[BATCH:]
            answer = self.client.change_message_visibility_batch(
                QueueUrl=self.queue_url,
                Entries=[
                    {"Id": str(at), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                    for at, receipt in enumerate(batch)
                ],
            )
            settled = {each["Id"] for each in answer.get("Successful", ())}
            settled |= {each["Id"] for each in answer.get("Failed", ()) if is_final(each)}
            again = [receipt for at, receipt in enumerate(batch) if str(at) not in settled]
            waiting += again
            if again and not backoff.pause():
                break

    def _held(self, message: MessageTypeDef) -> HeldLetter:
        attributes: Mapping[str, Any] = message.get("MessageAttributes", {})
        system: Mapping[Any, str] = message.get("Attributes", {})
        # SQS's move task keeps the attributes, so a message that the redrive policy moved later has the old reason.
        texts = {} if MOVED_FROM in system else {name: each.get("StringValue", "") for name, each in attributes.items()}
        letter = DeadLetter(
            sqs_message_id=message["MessageId"],
            message_id=self._shown_identity(message),
            reason=texts.get(REASON_ATTRIBUTE, RECEIVES_EXHAUSTED),
            detail=texts.get(
                DETAIL_ATTRIBUTE, "received as often as the queue's redrive policy allows, without success"
            ),
            source_sqs_message_id=source_of(attributes, self.withheld),
            sent=int(system.get("SentTimestamp", "0")),
        )
        own_rule = self.identity is not None
        return HeldLetter(letter, message["ReceiptHandle"], message["Body"], attributes, system, own_rule)

    def _shown_identity(self, message: MessageTypeDef) -> str | None:
        body, attributes = message["Body"], message.get("MessageAttributes", {})
        try:
            if self.identity is not None:
                identity = identity_and_content(self.identity, message).message_id
            else:
                identity = identity_of(body, attributes)
        except Unprocessable as problem:
            if problem.reason != MISSING_MESSAGE_ID or self.identity or not self.content_based():
                return None
            return identity_of(body, attributes, content_based=True)
        return None if self.withheld(identity) else identity


def peek(client: SQSClient, queue_url: str, **options: Any) -> list[DeadLetter]:
    """Return every dead letter that the queue shows, and make all of them visible again. `options`: as of `Reading`."""
    with Reading(client, queue_url, **options) as look:
        return [held.letter for batch in look for held in batch]


def waiting_behind(client: SQSClient, queue_url: str, seen: int, surroundings: Surroundings | None = None) -> int:
    """Return about how many messages are hidden from a reader that has just seen `seen`.

    Another reader hides them; one that was killed does so for `HIDDEN_SECONDS`. A FIFO queue also shows at most ten messages
    of a group until those are deleted.
    """
    # A FIFO queue's messages do not stop to wait behind others while the depth settles.
    surroundings = surroundings or Surroundings()
    return _settled(lambda: queue_depth(client, queue_url).total - seen, surroundings, at_once=is_fifo(queue_url))


def in_flight(client: SQSClient, queue_url: str, surroundings: Surroundings | None = None) -> int:
    """Return about how many messages readers hide now."""
    return _settled(lambda: queue_depth(client, queue_url).in_flight, surroundings or Surroundings())


def _settled(count: Callable[[], int], surroundings: Surroundings, *, at_once: bool = False) -> int:
    """Return the lowest of some counts: a depth lags behind, and counts what a reader has put back twice for a moment."""
    lowest = count()
    for _ in range(0 if at_once else SETTLING_LOOKS):
        if lowest <= 0:
            break
        surroundings.sleep(SETTLING_SECONDS)
        lowest = min(lowest, count())  # a message that arrives is not hidden
    return max(0, lowest)


def identity_of(body: str, attributes: Mapping[str, Any], *, content_based: bool = False) -> str:
    """Return the id that the consumer would find. Raises `Unprocessable` if it would find none."""
    as_in_lambda = {name: {"stringValue": value.get("StringValue")} for name, value in attributes.items()}
    return identify(as_in_lambda, parse_body(body), body, content_based=content_based)


def identity_and_content(identity: Identify, message: Mapping[str, Any]) -> Identity:
    """Return what a consumer's own rule finds in a message, as SQS returns it. Raises `Unprocessable` if it finds nothing.

    An error of the rule counts as a message without an id, because a delivery of it fails, too.
    """
    known: Any = {**received(str(message["Body"]), "", ""), **message}
    try:
        return identified(identity, record(known, queue_arn="", region=""))
    except Unprocessable:
        raise
    except Exception as error:
        raise Unprocessable(MISSING_MESSAGE_ID, f"the consumer's identity raised {type(error).__name__}") from error
