"""One DeleteMessageBatch, and the reading of its answer: what is deleted, and what a retry cannot delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oneslot.runtime.sqs.sending import is_final

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

BATCH = 10
"""Messages in one DeleteMessageBatch, by its API reference."""


def delete_batch(client: SQSClient, queue_url: str, receipts: Sequence[str]) -> tuple[list[int], dict[int, str]]:
    """Delete up to `BATCH` messages; return the places of those deleted, and the codes of those refused for good.

    A place in neither was not deleted, and may be retried: SQS refused it for a moment, or left it out of its answer.
    """
    answer = client.delete_message_batch(
        QueueUrl=queue_url,
        Entries=[{"Id": str(at), "ReceiptHandle": receipt} for at, receipt in enumerate(receipts)],
    )
    deleted = [int(entry["Id"]) for entry in answer.get("Successful", ())]
    return deleted, {int(entry["Id"]): entry["Code"] for entry in answer.get("Failed", ()) if is_final(entry)}
