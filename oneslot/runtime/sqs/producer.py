"""A producer that loses nothing and makes no duplicate: it sends a message under one id until SQS confirms it.

A call without an answer may have been accepted. A new id would then make a second request, and giving up might lose the
only one. Under the same id both copies are one request for as long as the consumer's ledger keeps its rows; SQS FIFO itself
does so for five minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oneslot.runtime.record import IDENTITY_ATTRIBUTE, MESSAGE_ID_FORM, is_message_id
from oneslot.runtime.sqs.batches import Entry, SendsBatches, send_all, text_attributes
from oneslot.runtime.sqs.queue import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send.

    Attributes:
        message_id: its id, in the form of `MESSAGE_ID_FORM`. Choose it once, before the first attempt, and store
            it with the event that causes the message.
        group: its message group. A FIFO queue requires one and keeps the order within it; a standard queue shares itself
            fairly among groups.
        attributes: further message attributes, as text.

    Raises `ValueError` for an invalid id, and for text that cannot be encoded as UTF-8.
    """

    message_id: str
    body: str = field(repr=False)
    group: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_message_id(self.message_id):
            raise ValueError(f"message_id must be {MESSAGE_ID_FORM}")
        try:
            "".join([self.body, *self.attributes, *self.attributes.values()]).encode()
        except UnicodeEncodeError:  # which quotes the text
            raise ValueError("body and attributes must be valid UTF-8, without half a surrogate pair") from None


@dataclass(frozen=True, slots=True)
class Accepted:
    """SQS accepted the message, under a MessageId of its own."""

    message: Outgoing
    sqs_message_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """SQS will never accept this message as it is; `code` is the reason, e.g. `InvalidMessageContents`."""

    message: Outgoing
    code: str


class NotAccepted(Exception):
    """SQS did not confirm these messages in time; each may be in the queue or not. `settled` has the results of the others.

    Send them again later, unchanged: the ledger suppresses a second copy under the same id.
    """

    def __init__(self, messages: Sequence[Outgoing], settled: Sequence[Accepted | Refused]) -> None:
        super().__init__(f"Not confirmed in time, messages: {len(messages)}; send them again with the same ids")
        self.messages = tuple(messages)
        self.settled = tuple(settled)


@dataclass(frozen=True, slots=True)
class Producer:
    """A sender to one queue, in batches. On a FIFO queue it keeps the order within a group, whatever SQS refuses."""

    client: SendsBatches
    queue_url: str
    surroundings: Surroundings = field(default_factory=Surroundings)

    def send(self, messages: Iterable[Outgoing], *, within_seconds: float = 60.0) -> list[Accepted | Refused]:
        """Send until each message is accepted or refused for good; return the results in the order of the answers.

        Every retry has the same id, after an entry that was not accepted and after a call that failed.

        Raises:
            NotAccepted: the time ran out; its cause is the error of the last call, if that had no answer.
            ClientError: the queue cannot be used, e.g. AccessDenied; nothing more is sent.
            ParamValidationError: botocore refused a message of a wrong type.
            BotoCoreError: there are no credentials, or the sign-in has expired.
            ValueError: a message for a FIFO queue has no group; nothing was sent.
        """
        entries = [self._entry(message) for message in messages]
        waiting = dict.fromkeys(entries)  # by position: the same message may be in the call twice
        settled: list[Accepted | Refused] = []
        error: Exception | None = None
        for answer in send_all(self.client, self.queue_url, entries, within_seconds, self.surroundings):
            settled += [Accepted(entry.message, sqs_message_id) for entry, sqs_message_id in answer.accepted]
            settled += [Refused(entry.message, code) for entry, code in answer.refused]
            for entry, _ in (*answer.accepted, *answer.refused):
                del waiting[entry]
            error = answer.error
        if waiting:
            raise NotAccepted([entry.message for entry in waiting], settled) from error
        return settled

    def _entry(self, message: Outgoing) -> Entry[Outgoing]:
        fifo = is_fifo(self.queue_url)
        if fifo and message.group is None:
            raise ValueError("a message for a FIFO queue needs a group, within which order is kept")
        parameters = {
            "MessageBody": message.body,
            **text_attributes({**message.attributes, IDENTITY_ATTRIBUTE: message.message_id}),
            **({GROUP_ATTRIBUTE: message.group} if message.group is not None else {}),
            **({"MessageDeduplicationId": message.message_id} if fifo else {}),
        }
        return Entry(message, parameters, message.group if fifo else None)
