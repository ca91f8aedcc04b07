"""Insert slots into the slots table. Seeding again changes no existing slot, so a busy one stays busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from oneslot.errors import OneslotError, TableThrottled
from oneslot.runtime.backoff import Backoff
from oneslot.runtime.stores.expressions import TRANSIENT_ERRORS
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import to_attributes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

# BatchExecuteStatement takes 25 statements.
BATCH = 25
WITHIN_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Seeded:
    """The number of slots `created`, and of existing ones `kept` as they were."""

    created: int = 0
    kept: int = 0

    def __add__(self, other: Seeded) -> Seeded:
        return Seeded(self.created + other.created, self.kept + other.kept)


class SlotWriter:
    """Inserts slots with PartiQL's `INSERT`, a batch in which each put has its own condition that the slot is new.

    BatchWriteItem has no conditions, so it would free a slot that was booked since.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table_name: str,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._client = client
        self._table_name = table_name
        self._surroundings = surroundings or Surroundings()

    def insert(self, items: Sequence[Mapping[str, Any]]) -> Seeded:
        """Insert up to 25 slots, and retry throttled ones. Raises `OneslotError` after 30 seconds, or if one is refused."""
        waiting = list(items)
        seeded = Seeded()
        backoff = Backoff(self._surroundings, self._surroundings.now_ms() + WITHIN_SECONDS * 1000)
        while True:
            answers = self._client.batch_execute_statement(Statements=[self._statement(item) for item in waiting])
            throttled: list[Mapping[str, Any]] = []
            for item, answer in zip(waiting, answers["Responses"], strict=True):
                code = answer.get("Error", {}).get("Code", "")
                if not code:
                    seeded += Seeded(created=1)
                elif code in {"DuplicateItem", "ConditionalCheckFailed"}:
                    seeded += Seeded(kept=1)
                elif code in TRANSIENT_ERRORS:
                    throttled.append(item)
                else:
                    raise OneslotError(
                        f"The table {self._table_name} refused a slot: {code}. "
                        "Remove the cause and seed again; existing slots stay as they are."
                    )
            if not throttled:
                return seeded
            waiting = throttled
            if not backoff.pause():
                raise TableThrottled(
                    f"The table {self._table_name} is throttled: {len(waiting)} slots were not written in {WITHIN_SECONDS} s. "
                    "Seed again later; existing slots stay as they are."
                )

    def _statement(self, item: Mapping[str, Any]) -> Any:
        attributes = to_attributes(item)
        names = ", ".join(f"'{name}': ?" for name in attributes)
        return {
            "Statement": f'INSERT INTO "{self._table_name}" VALUE {{{names}}}',
            "Parameters": list(attributes.values()),
        }


def seed(
    items: Iterable[Mapping[str, Any]], writer: SlotWriter, *, workers: int = 4, progress: Callable[[int], None]
) -> Seeded:
    """Insert all slots in bounded memory, `workers` batches at once; `progress` gets the size of each batch."""
    total = Seeded()
    running: set[Future[Seeded]] = set()
    with ThreadPoolExecutor(workers, "seed") as executor:
        try:
            for batch in _batches(items):
                running.add(executor.submit(writer.insert, batch))
                if len(running) >= 2 * workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    total = _collect(done, total, progress)
            return _collect(running, total, progress)
        finally:
            for future in running:
                future.cancel()


def _collect(done: Iterable[Future[Seeded]], total: Seeded, progress: Callable[[int], None]) -> Seeded:
    for future in done:
        seeded = future.result()
        progress(seeded.created + seeded.kept)
        total += seeded
    return total


def _batches(items: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH)):
        yield batch
