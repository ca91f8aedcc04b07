"""Insert slots into the slots table. Seeding again changes no existing slot, so a busy one stays busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from oneslot.errors import OneslotError, TableThrottled
from oneslot.runtime.failures import TRANSIENT_ERRORS
from oneslot.runtime.surroundings import Backoff, Surroundings
from oneslot.runtime.values import to_attributes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

# BatchExecuteStatement takes 25 statements.
BATCH = 25
WORKERS = 4
WITHIN_SECONDS = 30
Items = list[Mapping[str, Any]]


def seed(
    items: Iterable[Mapping[str, Any]],
    client: DynamoDBClient,
    table: str,
    *,
    progress: Callable[[int], None] = lambda _: None,
    surroundings: Surroundings | None = None,
) -> int:
    """Insert slots in bounded memory, four batches at once, and return how many are new. `progress` gets each batch's size."""
    rows, created = iter(items), 0
    with ThreadPoolExecutor(WORKERS, "seed") as executor:
        while batches := [batch for _ in range(WORKERS) if (batch := list(islice(rows, BATCH)))]:
            for batch, new in zip(
                batches,
                executor.map(lambda batch: _insert(batch, client, table, surroundings or Surroundings()), batches),
                strict=True,
            ):
                created += new
                progress(len(batch))
    return created


def _insert(batch: Items, client: DynamoDBClient, table: str, surroundings: Surroundings) -> int:
    """Insert a batch with PartiQL's `INSERT`, whose puts each have the condition that the slot is new.

    BatchWriteItem has no conditions, so it would free a slot that was booked since. Raises `OneslotError` if the table refuses
    a slot, or throttles one for 30 seconds.
    """
    waiting, created = batch, 0
    backoff = Backoff(surroundings, surroundings.now_ms() + WITHIN_SECONDS * 1000)
    while True:
        answers = client.batch_execute_statement(Statements=[_statement(table, item) for item in waiting])["Responses"]
        codes = [str(answer.get("Error", {}).get("Code", "")) for answer in answers]
        created += codes.count("")
        refused = {code for code in codes if code} - {"DuplicateItem", "ConditionalCheckFailed"} - TRANSIENT_ERRORS
        if refused:
            raise OneslotError(
                f"The table {table} refused a slot: {min(refused)}. "
                "Remove the cause and seed again; existing slots stay as they are."
            )
        waiting = [item for item, code in zip(waiting, codes, strict=True) if code in TRANSIENT_ERRORS]
        if not waiting:
            return created
        if not backoff.pause():
            raise TableThrottled(
                f"The table {table} is throttled: {len(waiting)} slots were not written in {WITHIN_SECONDS} s. "
                "Seed again later; existing slots stay as they are."
            )


def _statement(table: str, item: Mapping[str, Any]) -> Any:
    attributes = to_attributes(item)
    names = ", ".join(f"'{name}': ?" for name in attributes)
    return {"Statement": f'INSERT INTO "{table}" VALUE {{{names}}}', "Parameters": list(attributes.values())}
