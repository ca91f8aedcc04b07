"""The same consumer on Oneslot, which reads and writes the rows of the version before it."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from boto3.dynamodb.conditions import Attr

from oneslot import Effects, JsonMessage, Once, Put, Update, consumer_from_environment

EXPIRES_AFTER_SECONDS = 3600  # as the old version has it


class StillAtWork(Exception):
    """The old version is at work on this order. SQS delivers it again."""


def row_id(message_id: str) -> str:
    """Return the key of Powertools' row: the function, the decorated function, and the digest of its idempotency key."""
    digest = hashlib.md5(json.dumps(message_id).encode(), usedforsecurity=False).hexdigest()
    return f"{os.environ['AWS_LAMBDA_FUNCTION_NAME']}.before.charge#{digest}"


def answer_of(row: Mapping[str, Any]) -> Effects:
    """Return the answer that the old version stored."""
    if row["status"] == "INPROGRESS":
        raise StillAtWork
    return Effects(json.loads(row["data"]))


def take(order: JsonMessage) -> Effects:
    """Return the charge, the old version's row, and the answer. All of it commits in one transaction."""
    answer, now = {"charged": order.body["pence"]}, time.time()
    row = {
        "id": row_id(order.message_id),
        "status": "COMPLETED",
        "expiration": int(now) + EXPIRES_AFTER_SECONDS,
        "data": json.dumps(answer),
    }
    ended = Attr("status").eq("INPROGRESS") & Attr("in_progress_expiration").lt(int(now * 1000))
    free = Attr("id").not_exists() | Attr("expiration").lt(int(now)) | ended
    charge = {"id": order.message_id, "pence": order.body["pence"]}
    return Effects(
        answer,
        [
            Put("idempotency", row, key="id", replace=True, expect=free, otherwise=answer_of),
            Update("accounts", {"customer": order.body["customer"]}, add={"pence": order.body["pence"]}),
        ],
        once=Once(Put("charges", charge, key="id"), answer=lambda found: {"charged": int(found["pence"])}),
    )


handler = consumer_from_environment(take)
