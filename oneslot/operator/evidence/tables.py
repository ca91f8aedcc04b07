"""The tables of a stack: which attributes are read, a consistent scan of all rows, one row, and a table that is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from oneslot.errors import TableThrottled
from oneslot.operator.explanations import how_to_restore
from oneslot.runtime.failures import error_code
from oneslot.runtime.surroundings import Backoff, Surroundings
from oneslot.runtime.values import from_attributes, to_attributes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

T = TypeVar("T")

NOT_FOUND = "ResourceNotFoundException"
SEGMENTS = 4
# BatchGetItem takes 100 keys.
KEYS_AT_ONCE = 100
READ_WITHIN_MS = 30_000


def scan(
    client: DynamoDBClient, table_name: str, attributes: Sequence[str], segments: int = SEGMENTS
) -> Iterator[dict[str, Any]]:
    """Yield these attributes of every row, consistently read; `segments` are scanned in parallel."""

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


def read_row(
    client: DynamoDBClient, table_name: str, key: Mapping[str, Any], attributes: Sequence[str]
) -> dict[str, Any] | None:
    """Return these attributes of one row, consistently read; None if the row does not exist, or its key is of other types."""
    try:
        answer = client.get_item(
            TableName=table_name, Key=to_attributes(key), ConsistentRead=True, **projection(attributes)
        )
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        return None
    return from_attributes(answer["Item"]) if "Item" in answer else None


def read_rows(
    client: DynamoDBClient,
    table: str,
    key: str,
    ids: Sequence[str],
    attributes: Sequence[str],
    *,
    surroundings: Surroundings | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the rows of these ids, consistently read; an id without a row is left out. Raises `OneslotError` if throttled."""
    rows: dict[str, dict[str, Any]] = {}
    surroundings = surroundings or Surroundings()
    for at in range(0, len(ids), KEYS_AT_ONCE):
        waiting: Any = {
            table: {
                "Keys": [{key: {"S": each}} for each in ids[at : at + KEYS_AT_ONCE]],
                "ConsistentRead": True,
                **projection(attributes),
            }
        }
        backoff = Backoff(surroundings, surroundings.now_ms() + READ_WITHIN_MS)
        while waiting:
            answer = client.batch_get_item(RequestItems=waiting)
            for item in answer["Responses"].get(table, []):
                row = from_attributes(item)
                rows[row[key]] = row
            waiting = answer.get("UnprocessedKeys")
            if waiting and not backoff.pause():
                raise TableThrottled(
                    f"The table {table} is throttled, and nothing was changed. Run the command again later."
                )
    return rows


def projection(attributes: Sequence[str]) -> dict[str, Any]:
    """Return the arguments by which DynamoDB answers with these attributes only, reserved words among them; all if none."""
    if not attributes:
        return {}
    return {
        "ProjectionExpression": ", ".join(f"#{name}" for name in attributes),
        "ExpressionAttributeNames": {f"#{name}": name for name in attributes},
    }


@dataclass(frozen=True, slots=True)
class Missing:
    """A table that DynamoDB does not know, because it was deleted or is being restored; `name` is its name there."""

    table: str
    name: str

    def __str__(self) -> str:
        return f"the table {self.name} ({self.table}) is missing"


def unless_missing(read: Callable[[], T], table: str, name: str) -> T | Missing:
    """Return what `read` returns, or the missing table. Any other error of `read` is raised."""
    try:
        return read()
    except ClientError as error:
        if error_code(error) != NOT_FOUND:
            raise
        return Missing(table, name)


def format_missing(missing: Sequence[Missing], command: Callable[[str], str]) -> Iterator[str]:
    """Yield a sentence for each missing table, and one that says how to restore it; `command` is `Target.command`."""
    for one in missing:
        yield f"{str(one)[0].upper()}{str(one)[1:]}: its rows are unknown."
    if missing:
        yield how_to_restore(command)
