"""Insert slots into the slots table. Safe to repeat: a slot that exists stays as it is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from oneslot.errors import OneslotError
from oneslot.runtime.stores.expressions import TRANSIENT_ERRORS, to_attributes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

# BatchExecuteStatement takes 25 statements.
BATCH = 25
ATTEMPTS = 10
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.05, 5.0


@dataclass(frozen=True, slots=True)
class Seeded:
    """Counts of slots: `created` are new, `kept` existed and are unchanged."""

    created: int = 0
    kept: int = 0

    def __add__(self, other: Seeded) -> Seeded:
        return Seeded(self.created + other.created, self.kept + other.kept)


class SlotWriter:
    """Inserts slots by PartiQL's `INSERT`, which fails for a slot that exists.

    PartiQL rather than BatchWriteItem, because that has no conditions and would free a booked slot.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table_name: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._table_name = table_name
        self._sleep = sleep
        self._jitter = jitter

    def insert(self, items: Sequence[Mapping[str, Any]]) -> Seeded:
        """Insert up to 25 slots, and retry throttled ones with full jitter. Raises `OneslotError` if some are left."""
        waiting = list(items)
        seeded = Seeded()
        ceiling = FIRST_BACKOFF_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            answers = self._client.batch_execute_statement(Statements=[self._statement(item) for item in waiting])
            refused: list[Mapping[str, Any]] = []
            for item, answer in zip(waiting, answers["Responses"], strict=True):
                code = answer.get("Error", {}).get("Code", "")
                if not code:
                    seeded += Seeded(created=1)
                elif code in {"DuplicateItem", "ConditionalCheckFailed"}:
                    seeded += Seeded(kept=1)
                elif code in TRANSIENT_ERRORS:
                    refused.append(item)
                else:
                    raise OneslotError(
                        f"The table {self._table_name} refused a slot: {code}. "
                        "Correct that and seed again, which is safe."
                    )
            if not refused:
                return seeded
            waiting = refused
            if attempt < ATTEMPTS:
                self._sleep(self._jitter() * ceiling)
                ceiling = min(LONGEST_BACKOFF_SECONDS, ceiling * 2)
        raise OneslotError(
            f"The table {self._table_name} is throttled: it refused {len(waiting)} slots {ATTEMPTS} times. "
            "Seed again later, which is safe."
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
    """Insert all slots, `workers` batches at a time, in bounded memory. `progress` receives each batch's size."""
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
