"""Send messages to a queue in batches: fill each call, read the answer to every entry, retry what was not accepted.

An entry that an answer leaves out counts as not accepted, so the queue may get it twice. The ledger makes that harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from oneslot.runtime.backoff import Backoff
from oneslot.runtime.surroundings import Surroundings

T = TypeVar("T")

BATCH = 10
"""Messages in one SendMessageBatch, by its API reference."""
BATCH_BYTES = 1_048_576
"""Bytes in one SendMessageBatch, attributes included, by its API reference."""
THROTTLED = frozenset({"RequestThrottled", "ThrottlingException", "Throttling", "KmsThrottled"})
"""The codes of an entry that SQS reports as the sender's fault, and accepts later all the same."""


class SendsBatches(Protocol):
    """The one call of an SQS client that is needed."""

    def send_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """Send up to ten messages; the answer has the result of each."""


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A message and the parameters of its entry in a call, without `Id`.

    A call holds one entry of each `ordered` group at most. SQS may accept the second of a call and not the first, and a retry
    of the first would then reverse their order.
    """

    message: T
    parameters: Mapping[str, Any]
    ordered: str | None = None

    @property
    def size(self) -> int:
        """The bytes that SQS counts: body, and names, types and values of the attributes."""
        size = len(self.parameters["MessageBody"].encode())
        for name, value in self.parameters.get("MessageAttributes", {}).items():
            content = value["StringValue"].encode() if "StringValue" in value else value.get("BinaryValue", b"")
            size += len(name.encode()) + len(value["DataType"].encode()) + len(content)
        return size


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The result of one call: each message accepted, with its SQS id, or refused for good, with a code; or `failed`."""

    accepted: Sequence[tuple[Entry[T], str]] = ()
    refused: Sequence[tuple[Entry[T], str]] = ()
    failed: Sequence[Entry[T]] = ()


def text_attributes(attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters for message attributes of type String; none for an empty mapping."""
    if not attributes:
        return {}
    return {
        "MessageAttributes": {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    }


def fits(messages: int, size: int, another: int) -> bool:
    """Return whether a call with this many messages of `size` bytes takes one more of `another` bytes."""
    return messages == 0 or (messages < BATCH and size + another <= BATCH_BYTES)


def is_final(failed: Mapping[str, Any]) -> bool:
    """Return whether a retry cannot help this entry of a batch answer's `Failed` list.

    The flag `SenderFault` alone does not say so: SQS can also set it on an entry that it throttles.
    """
    return bool(failed.get("SenderFault")) and failed.get("Code") not in THROTTLED


def send_batch(client: SendsBatches, queue_url: str, batch: Sequence[Entry[T]]) -> Answer[T]:
    """Make one call and read the answer to every entry."""
    answer = client.send_message_batch(
        QueueUrl=queue_url, Entries=[{"Id": str(at), **entry.parameters} for at, entry in enumerate(batch)]
    )
    accepted = {int(each["Id"]): str(each["MessageId"]) for each in answer.get("Successful", ())}
    refused = {int(each["Id"]): str(each["Code"]) for each in answer.get("Failed", ()) if is_final(each)}
    return Answer(
        [(batch[at], sqs_message_id) for at, sqs_message_id in accepted.items()],
        [(batch[at], code) for at, code in refused.items()],
        [entry for at, entry in enumerate(batch) if at not in accepted and at not in refused],
    )


def send_all(
    entries: Iterable[Entry[T]],
    call: Callable[[Sequence[Entry[T]]], Answer[T]],
    within_seconds: float,
    surroundings: Surroundings,
) -> Iterator[Answer[T]]:
    """Send until every entry is accepted or refused; yield the answer to each call.

    The last answer has `failed` entries only if the time ran out: then they, and what waited behind them, were not accepted.
    `call` is `send_batch` for one queue.
    """
    waiting = list(entries)
    deadline = surroundings.now_ms() + round(within_seconds * 1000)
    backoff = Backoff(surroundings, deadline)
    while waiting:
        answer = call(_next_batch(waiting))
        settled = {id(entry) for entry, _ in (*answer.accepted, *answer.refused)}
        waiting = [entry for entry in waiting if id(entry) not in settled]
        yield answer
        if not answer.failed:
            backoff = Backoff(surroundings, deadline)
        elif not backoff.pause():
            return


def _next_batch(waiting: Sequence[Entry[T]]) -> list[Entry[T]]:
    batch: list[Entry[T]] = []
    size = 0
    groups: set[str] = set()
    for entry in waiting:
        if entry.ordered is not None and entry.ordered in groups:
            continue
        if not fits(len(batch), size, entry.size):
            break
        batch.append(entry)
        size += entry.size
        if entry.ordered is not None:
            groups.add(entry.ordered)
        if len(batch) == BATCH:
            break
    return batch
