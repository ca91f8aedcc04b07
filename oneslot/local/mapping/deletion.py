"""Deletion of messages that succeeded: with DeleteMessageBatch, and a retry of every entry that SQS did not confirm."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.sqs.sending import is_final

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

LOG = logging.getLogger(__name__)
ENTRIES_MAXIMUM = 10  # SQS's limit for one DeleteMessageBatch
ATTEMPTS = 3


@dataclass(frozen=True)
class Deletion:
    """MessageIds by result. `unconfirmed`: SQS refused the receipt or never confirmed, so it may redeliver them."""

    deleted: tuple[str, ...]
    unconfirmed: tuple[str, ...]


def delete_messages(sqs: SQSClient, queue_url: str, receipts: Mapping[str, str]) -> Deletion:
    """Delete by receipt handle. receipts: MessageId -> ReceiptHandle. Errors of SQS are in the result, not raised."""
    waiting = list(receipts)
    deleted: list[str] = []
    refused: list[str] = []
    for _ in range(ATTEMPTS):
        for start in range(0, len(waiting), ENTRIES_MAXIMUM):
            chunk = waiting[start : start + ENTRIES_MAXIMUM]
            entries = {str(number): message_id for number, message_id in enumerate(chunk)}
            try:
                answer = sqs.delete_message_batch(
                    QueueUrl=queue_url,
                    Entries=[
                        {"Id": entry, "ReceiptHandle": receipts[message_id]} for entry, message_id in entries.items()
                    ],
                )
            except (BotoCoreError, ClientError) as error:
                LOG.warning("deleting a batch failed: %s", type(error).__name__)
                continue
            # An entry in neither list is as unconfirmed as one in `Failed`.
            deleted += [entries[entry["Id"]] for entry in answer.get("Successful", []) if entry["Id"] in entries]
            refused += [
                entries[entry["Id"]] for entry in answer.get("Failed", []) if entry["Id"] in entries and is_final(entry)
            ]
        # A retry cannot help the entries that are the sender's fault.
        waiting = [message_id for message_id in waiting if message_id not in {*deleted, *refused}]
        if not waiting:
            break
    return Deletion(tuple(deleted), (*refused, *waiting))
