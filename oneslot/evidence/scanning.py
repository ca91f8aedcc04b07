"""Reads a whole table, consistently and in parallel, as plain Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from oneslot.runtime.stores.expressions import from_attributes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

SEGMENTS = 4

# What is read of each table, for every purpose of the command line: all but the patient's number, which none needs.
LEDGER = (
    "message_id",
    "status",
    "consumption_count",
    "updated",
    "lease_until",
    "claimed_by",
    "payload_hash",
    "result",
    "expires_at",
)
SLOTS = (
    "practice",
    "slot_id",
    "start",
    "end",
    "status",
    "delivery_channel",
    "service_type",
    "appointment_id",
    "free_key",
)
APPOINTMENTS = (
    "appointment_id",
    "status",
    "practice",
    "delivery_channel",
    "service_type",
    "payload_hash",
    "not_before",
    "not_after",
    "slot_id",
    "start",
    "end",
    "created",
    "updated",
    "cancelled_by",
)


def scan(
    client: DynamoDBClient, table_name: str, attributes: Sequence[str], segments: int = SEGMENTS
) -> Iterator[dict[str, Any]]:
    """Yield every row that the table held when its page was read; only these attributes."""

    def segment(number: int) -> list[dict[str, Any]]:
        pages = client.get_paginator("scan").paginate(
            TableName=table_name,
            ConsistentRead=True,
            Segment=number,
            TotalSegments=segments,
            **projection(attributes),
        )
        return [from_attributes(item) for page in pages for item in page["Items"]]

    with ThreadPoolExecutor(segments, "scan") as executor:
        for rows in executor.map(segment, range(segments)):
            yield from rows


def projection(attributes: Sequence[str]) -> dict[str, Any]:
    """Return the two arguments that make DynamoDB answer with these attributes only; any of them may be a reserved word."""
    return {
        "ProjectionExpression": ", ".join(f"#{name}" for name in attributes),
        "ExpressionAttributeNames": {f"#{name}": name for name in attributes},
    }
