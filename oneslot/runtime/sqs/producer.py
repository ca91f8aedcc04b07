"""Sending so that nothing is lost and nothing counts twice: the same id with every attempt, until SQS accepts it.

A send whose answer was lost may have been accepted. Whoever then sends with a new id makes a second request; whoever does not
send again may have made none. With the same id both copies are one request, for as long as the consumer's ledger keeps its
rows. SQS FIFO does that for five minutes.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError

from oneslot.runtime.identity import IDENTITY_ATTRIBUTE

BATCH = 10
"""Messages in one SendMessageBatch, by its API reference."""
BATCH_BYTES = 1_048_576
"""Bytes in one SendMessageBatch, attributes included, by its API reference."""

FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.05, 5.0
_MESSAGE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

# The service's codes for a request that no repetition mends; of all other errors the next attempt may be free.
HOPELESS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "ExpiredToken",
        "InvalidAddress",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "KmsAccessDenied",
        "KmsDisabled",
        "KmsNotFound",
        "QueueDoesNotExist",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
        "UnsupportedOperation",
    }
)

# Its codes for a whole call that one of its messages may have spoiled; a message alone with one is refused.
SPOILED = frozenset(
    {
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "InvalidMessageContents",
        "InvalidParameterValue",
        "MissingParameter",
    }
)


class SendsBatches(Protocol):
    """The one call of an SQS client that is needed."""

    def send_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """Send up to ten messages; the answer tells the result of each."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send.

    Attributes:
        message_id: its identity, 1 to 128 letters, digits or any of `. _ : -`. Make it once, before the first attempt,
            and keep it with whatever makes you send.
        group: its message group. On a FIFO queue it is required, and order is kept within it; on a standard queue it is
            the tenant of fair queues.
        attributes: further message attributes, as text.
    """

    message_id: str
    body: str = field(repr=False)
    group: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _MESSAGE_ID.fullmatch(self.message_id):
            raise ValueError("message_id must be 1 to 128 letters, digits or any of . _ : -")
        try:
            self.size  # noqa: B018  to see that SQS can be sent all of it
        except UnicodeEncodeError:
            raise ValueError(
                "body and attributes must be text that UTF-8 can say, without half a surrogate pair"
            ) from None

    @property
    def size(self) -> int:
        """Bytes that SQS counts: body, and names, types and values of the attributes."""
        attributes = {IDENTITY_ATTRIBUTE: self.message_id, **self.attributes}
        return len(self.body.encode()) + sum(
            len(name.encode()) + len("String") + len(value.encode()) for name, value in attributes.items()
        )


@dataclass(frozen=True, slots=True)
class Accepted:
    """SQS has the message, under this MessageId of its own."""

    message: Outgoing
    sqs_message_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Refused:
    """SQS will never take this message as it is; `code` is its reason, e.g. `InvalidMessageContents`."""

    message: Outgoing
    code: str


class NotAccepted(Exception):
    """The time was over before SQS had confirmed these messages. Each may be in the queue or not.

    Send them again later, unchanged: with the same ids nothing counts twice.
    """

    def __init__(self, messages: Sequence[Outgoing], settled: Sequence[Accepted | Refused]) -> None:
        super().__init__(f"{len(messages)} message(s) not confirmed in time; send them again with the same ids")
        self.messages = tuple(messages)
        self.settled = tuple(settled)


@dataclass(frozen=True, slots=True)
class Producer:
    """Sends to one queue, in batches; a queue whose URL ends with `.fifo` is a FIFO queue.

    On a FIFO queue a batch holds one message of each group at most: SQS may take the second of a batch and not the first,
    and sending that again would turn their order round.
    """

    client: SendsBatches
    queue_url: str
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    @property
    def fifo(self) -> bool:
        """Whether the queue is a FIFO queue."""
        return self.queue_url.endswith(".fifo")

    def send(self, messages: Iterable[Outgoing], *, within_seconds: float = 60.0) -> list[Accepted | Refused]:
        """Send until each is accepted or refused for good; returns what came of each, in the order of the answers.

        An entry that the answer leaves out counts as not accepted, and so does every entry of a call that failed: they
        are sent again with the same id.

        Raises:
            NotAccepted: some were not confirmed within the time; what came of the others is in it, and its cause is the
                error of the last call, if that had no answer.
            ClientError: the queue cannot be used at all, e.g. AccessDenied; nothing more is sent.
            ParamValidationError, NoCredentialsError: of botocore, as it is, for a message that has a wrong type in it, or
                without credentials; nothing more is sent.
            ValueError: a message for a FIFO queue has no group; nothing was sent.
        """
        waiting = list(messages)
        if self.fifo and any(message.group is None for message in waiting):
            raise ValueError("a message for a FIFO queue needs a group; order is kept within it")
        deadline = self.now() + within_seconds
        settled: list[Accepted | Refused] = []
        attempts: dict[int, int] = {}
        ceiling = FIRST_BACKOFF_SECONDS
        while waiting:
            batch = self._next_batch(waiting)
            for message in batch:
                attempts[id(message)] = attempts.get(id(message), 0) + 1
            faults: list[Exception] = []
            answered = self._attempt(batch, attempts, faults)
            settled += answered
            done = {id(outcome.message) for outcome in answered}
            waiting = [message for message in waiting if id(message) not in done]
            if len(done) == len(batch):
                ceiling = FIRST_BACKOFF_SECONDS
                continue
            pause = self.jitter() * ceiling
            if self.now() + pause >= deadline:
                raise NotAccepted(waiting, settled) from (faults[-1] if faults else None)
            self.sleep(pause)
            ceiling = min(LONGEST_BACKOFF_SECONDS, ceiling * 2)
        return settled

    def _next_batch(self, waiting: Sequence[Outgoing]) -> list[Outgoing]:
        batch: list[Outgoing] = []
        size = 0
        groups: set[str | None] = set()
        for message in waiting:
            if self.fifo and message.group in groups:
                continue
            if batch and size + message.size > BATCH_BYTES:
                break
            batch.append(message)
            size += message.size
            groups.add(message.group)
            if len(batch) == BATCH:
                break
        return batch

    def _attempt(
        self, batch: Sequence[Outgoing], attempts: Mapping[int, int], faults: list[Exception]
    ) -> list[Accepted | Refused]:
        """What came of these, where that is known; a call that failed, and may be free the next time, is put to `faults`."""
        try:
            answer = self.client.send_message_batch(
                QueueUrl=self.queue_url, Entries=[self._entry(str(at), message) for at, message in enumerate(batch)]
            )
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in HOPELESS:
                raise
            if code not in SPOILED:
                faults.append(error)
                return []
            if len(batch) == 1:
                return [Refused(batch[0], code)]
            return [outcome for message in batch for outcome in self._attempt([message], attempts, faults)]
        except (ParamValidationError, NoCredentialsError):
            raise  # nothing was sent, and nothing would be by trying again
        except (BotoCoreError, OSError) as error:
            faults.append(error)
            return []  # no answer: accepted or not, nobody knows; the same id makes another attempt harmless
        by_id = {str(at): message for at, message in enumerate(batch)}
        accepted: list[Accepted | Refused] = [
            Accepted(by_id[entry["Id"]], entry["MessageId"], attempts[id(by_id[entry["Id"]])])
            for entry in answer.get("Successful", ())
        ]
        refused = [
            Refused(by_id[entry["Id"]], str(entry["Code"])) for entry in answer.get("Failed", ()) if is_hopeless(entry)
        ]
        return accepted + refused

    def _entry(self, entry_id: str, message: Outgoing) -> dict[str, Any]:
        attributes = {**message.attributes, IDENTITY_ATTRIBUTE: message.message_id}
        entry: dict[str, Any] = {
            "Id": entry_id,
            "MessageBody": message.body,
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        }
        if message.group is not None:
            entry["MessageGroupId"] = message.group
        if self.fifo:
            entry["MessageDeduplicationId"] = message.message_id
        return entry


THROTTLED = frozenset({"RequestThrottled", "ThrottlingException", "Throttling", "KmsThrottled"})
"""Reported as the sender's fault, and passing all the same."""


def is_hopeless(failed: Mapping[str, Any]) -> bool:
    """Whether the queue will never take this entry of `Failed`, in the answer to a batch: its sender's fault, and lasting."""
    return bool(failed.get("SenderFault")) and failed["Code"] not in THROTTLED
