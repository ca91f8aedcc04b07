"""Deletion of messages in batches, with a retry of every entry that SQS did not confirm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.backoff import Backoff
from oneslot.runtime.sqs.sending import is_final
from oneslot.runtime.surroundings import Surroundings

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

BATCH = 10
"""Messages in one DeleteMessageBatch, by its API reference."""


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
