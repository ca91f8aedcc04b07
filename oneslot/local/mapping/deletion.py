"""Deletion of messages that succeeded, with a retry of every entry that SQS did not confirm."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.runtime.backoff import Backoff
from oneslot.runtime.sqs.deletion import BATCH, delete_batch
from oneslot.runtime.surroundings import Surroundings

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

LOG = logging.getLogger(__name__)
PATIENCE_MS = 4_000  # for one batch


def delete_messages(sqs: SQSClient, queue_url: str, receipts: Sequence[str], surroundings: Surroundings) -> int:
    """Delete by receipt handle; return how many SQS confirmed. It may redeliver the others. Its errors are not raised."""
    confirmed = 0
    for start in range(0, len(receipts), BATCH):
        waiting = list(receipts[start : start + BATCH])
        backoff = Backoff(surroundings, surroundings.now_ms() + PATIENCE_MS)
        while True:
            try:
                deleted, refused = delete_batch(sqs, queue_url, waiting)
                confirmed += len(deleted)
                waiting = [each for at, each in enumerate(waiting) if at not in deleted and at not in refused]
            except (BotoCoreError, ClientError) as error:
                LOG.warning("deleting a batch failed: %s", type(error).__name__)
            if not waiting or not backoff.pause():
                break
    return confirmed
