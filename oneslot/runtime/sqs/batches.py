"""Send and delete messages in batches: fill each call, read the answer to every entry, retry what SQS did not confirm.

An entry that an answer leaves out counts as not accepted, and so does a call without an answer. The queue may get such a
message twice; the ledger makes that harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from oneslot.runtime.failures import HOPELESS, ONE_MESSAGE, THROTTLED, lacks_credentials
from oneslot.runtime.surroundings import Backoff, Surroundings

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

T = TypeVar("T")

BATCH = 10
"""Messages in one SendMessageBatch or DeleteMessageBatch, by their API references."""
BATCH_BYTES = 1_048_576
"""Bytes in one SendMessageBatch, attributes included, by its API reference."""


class SendsBatches(Protocol):
    """The one call of an SQS client that is needed. As a property, it fits boto3's client and its typed stubs."""

    @property
    def send_message_batch(self) -> Callable[..., Any]:
        """Send up to ten messages; the answer has the result of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Generic[T]):
    """A message and the parameters of its entry in a call, without `Id`. Equal only to itself: a message may come twice.

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
class SendAnswer(Generic[T]):
    """The result of one call: each message accepted, with its SQS id, or refused for good, with a code; or `failed`.

    `error` is that of a call without an answer. Its messages have failed, and each may be in the queue or not.
    """

    accepted: Sequence[tuple[Entry[T], str]] = ()
    refused: Sequence[tuple[Entry[T], str]] = ()
    failed: Sequence[Entry[T]] = ()
    error: Exception | None = None


def text_attributes(attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters for message attributes of type String; none for an empty mapping."""
    if not attributes:
        return {}
    return {
        "MessageAttributes": {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    }


def is_final(failed: Mapping[str, Any]) -> bool:
    """Return whether a retry cannot help this entry of a batch answer's `Failed` list.

    The flag `SenderFault` alone does not say so: SQS can also set it on an entry that it throttles.
    """
    return bool(failed.get("SenderFault")) and failed.get("Code") not in THROTTLED


def send_all(
    client: SendsBatches,
    queue_url: str,
    entries: Iterable[Entry[T]],
    within_seconds: float,
    surroundings: Surroundings,
) -> Iterator[SendAnswer[T]]:
    """Send until every entry is accepted or refused; yield the answer to each call.

    Where the time runs out, the answers hold a part of the entries only: the others were not confirmed.

    Raises:
        ClientError: the queue cannot be used, e.g. AccessDenied; nothing more is sent.
        ParamValidationError: botocore refused a message of a wrong type.
        BotoCoreError: there are no credentials, or the sign-in has expired.
    """
    waiting = list(entries)
    deadline = surroundings.now_ms() + round(within_seconds * 1000)
    backoff = Backoff(surroundings, deadline)
    while waiting:
        settled: set[Entry[T]] = set()
        failed = False
        for answer in _answers(client, queue_url, next_batch(waiting)):
            settled |= {entry for entry, _ in (*answer.accepted, *answer.refused)}
            failed = failed or bool(answer.failed)
            yield answer
        waiting = [entry for entry in waiting if entry not in settled]
        if not failed:
            backoff = Backoff(surroundings, deadline)
        elif not backoff.pause():
            return


def _answers(client: SendsBatches, queue_url: str, batch: Sequence[Entry[T]]) -> Iterator[SendAnswer[T]]:
    """Send one batch. If SQS refuses the call because of one message, send each alone, which finds it."""
    try:
        answer = _send(client, queue_url, batch)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in HOPELESS:
            raise
        if code not in ONE_MESSAGE:
            yield SendAnswer(failed=batch, error=error)
        elif len(batch) == 1:
            yield SendAnswer(refused=[(batch[0], code)])
        else:
            for entry in batch:
                yield from _answers(client, queue_url, [entry])
    except (BotoCoreError, OSError) as error:
        if isinstance(error, ParamValidationError) or lacks_credentials(error):
            raise  # nothing was sent, and no retry would change that
        yield SendAnswer(failed=batch, error=error)
    else:
        yield answer


def _send(client: SendsBatches, queue_url: str, batch: Sequence[Entry[T]]) -> SendAnswer[T]:
    """Make one call and read the answer to every entry."""
    answer = client.send_message_batch(
        QueueUrl=queue_url, Entries=[{"Id": str(at), **entry.parameters} for at, entry in enumerate(batch)]
    )
    accepted = {int(each["Id"]): str(each["MessageId"]) for each in answer.get("Successful", ())}
    refused = {int(each["Id"]): str(each["Code"]) for each in answer.get("Failed", ()) if is_final(each)}
    return SendAnswer(
        [(batch[at], sqs_message_id) for at, sqs_message_id in accepted.items()],
        [(batch[at], code) for at, code in refused.items()],
        [entry for at, entry in enumerate(batch) if at not in accepted and at not in refused],
    )


def next_batch(waiting: Sequence[Entry[T]], most: int = BATCH, most_bytes: int = BATCH_BYTES) -> list[Entry[T]]:
    """Return the entries of the next call: of an ordered group the first alone, and at least one whatever its size."""
    batch: list[Entry[T]] = []
    size = 0
    groups: set[str] = set()
    for entry in waiting:
        if entry.ordered is not None and entry.ordered in groups:
            continue
        size += entry.size
        if batch and (len(batch) == most or size > most_bytes):
            break
        batch.append(entry)
        if entry.ordered is not None:
            groups.add(entry.ordered)
    return batch


@dataclass(slots=True)
class Deletion:
    """What SQS said of each receipt, by its place.

    Attributes:
        deleted: deleted.
        refused: refused for good, with the code.
        unconfirmed: neither, in the time that there was. SQS may redeliver them.
        retried: how many entries were sent again.
    """

    deleted: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    unconfirmed: list[int] = field(default_factory=list)
    retried: int = 0


def delete_messages(
    client: SQSClient,
    queue_url: str,
    receipts: Sequence[str],
    surroundings: Surroundings,
    *,
    within_ms: int,
    on_error: Callable[[Exception], object] | None = None,
) -> Deletion:
    """Delete these receipts, and retry for `within_ms` in each batch what SQS throttled or left out of its answer.

    `on_error` gets the error of a call, which is then retried; without it the error is raised.
    """
    deletion = Deletion()
    for start in range(0, len(receipts), BATCH):
        waiting = list(range(start, min(start + BATCH, len(receipts))))
        backoff = Backoff(surroundings, surroundings.now_ms() + within_ms)
        while True:
            try:
                waiting = _delete_once(client, queue_url, receipts, waiting, deletion)
            except (BotoCoreError, ClientError, OSError) as error:
                if on_error is None:
                    raise
                on_error(error)
            if not waiting or not backoff.pause():
                break
            deletion.retried += len(waiting)
        deletion.unconfirmed += waiting
    return deletion


def _delete_once(
    client: SQSClient, queue_url: str, receipts: Sequence[str], waiting: Sequence[int], deletion: Deletion
) -> list[int]:
    """Delete up to `BATCH` messages; return the places to retry. An entry that the answer does not mention is one."""
    answer = client.delete_message_batch(
        QueueUrl=queue_url,
        Entries=[{"Id": str(at), "ReceiptHandle": receipts[at]} for at in waiting],
    )
    deleted = {int(entry["Id"]) for entry in answer.get("Successful", ())}
    refused = {int(entry["Id"]): entry["Code"] for entry in answer.get("Failed", ()) if is_final(entry)}
    deletion.deleted += sorted(deleted)
    deletion.refused |= refused
    return [at for at in waiting if at not in deleted and at not in refused]
