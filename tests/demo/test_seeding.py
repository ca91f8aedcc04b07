"""Seeding: throttled slots are retried, and existing slots stay unchanged."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest

from demo.practices import Demand
from demo.seeding import BATCH, Seeded, SlotWriter, seed
from demo.slots import Opening, slot_items, working_days
from oneslot.errors import OneslotError
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import from_attributes

ITEMS = list(slot_items(Opening(Demand("Z00001", 1), 60), working_days(date(2026, 11, 23), 5), 1))


class InsertOnlyTable:
    """PartiQL's `INSERT` as DynamoDB documents it: each statement has its own answer, an error for an existing key."""

    def __init__(self, trouble: Callable[[int], str | None] = lambda _: None) -> None:
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.batches: list[int] = []
        self._trouble = trouble
        self._statements = 0

    def batch_execute_statement(self, *, Statements: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.batches.append(len(Statements))
        return {"Responses": [self._insert(statement) for statement in Statements]}

    def _insert(self, statement: dict[str, Any]) -> dict[str, Any]:
        table, names = re.fullmatch(r'INSERT INTO "(.*)" VALUE \{(.*)\}', statement["Statement"]).groups()  # type: ignore[union-attr]
        assert table == "slots"
        attributes = re.findall(r"'(\w+)': \?", names)
        item = from_attributes(dict(zip(attributes, statement["Parameters"], strict=True)))
        self._statements += 1
        if code := self._trouble(self._statements):
            return {"Error": {"Code": code, "Message": "for the test"}}
        key = (item["practice"], item["slot_id"])
        if key in self.rows:
            return {"Error": {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}}
        self.rows[key] = item
        return {"TableName": table}


def waiting(sleeps: list[float]) -> Surroundings:
    return Surroundings(now_ms=lambda: round(sum(sleeps) * 1000), sleep=sleeps.append, jitter=lambda: 1.0)


def seeded(table: InsertOnlyTable, sleeps: list[float] | None = None) -> Seeded:
    """Seed all items into the table."""
    pauses: list[float] = [] if sleeps is None else sleeps
    writer = SlotWriter(table, "slots", waiting(pauses))  # type: ignore[arg-type]
    return seed(ITEMS, writer, workers=1, progress=lambda _: None)


def test_seeding_inserts_slots_in_batches() -> None:
    table = InsertOnlyTable()
    assert seeded(table) == Seeded(created=60)
    assert list(table.rows.values()) == ITEMS
    assert table.batches == [BATCH, BATCH, 10]


def test_seeding_again_frees_no_busy_slot() -> None:
    table = InsertOnlyTable()
    seeded(table)
    booked = next(iter(table.rows.values()))
    booked |= {"status": "busy", "appointment_id": "m-1"}
    del booked["free_key"]
    before = {key: dict(row) for key, row in table.rows.items()}
    reported: list[int] = []
    writer = SlotWriter(table, "slots")  # type: ignore[arg-type]
    assert seed(ITEMS, writer, workers=1, progress=reported.append) == Seeded(kept=60)
    assert table.rows == before
    assert sorted(reported) == [10, BATCH, BATCH], "an existing slot counts as progress"
    assert writer.insert(ITEMS[:2]) + writer.insert(ITEMS[2:5]) == Seeded(kept=5)


def test_seeding_retries_throttled_slots_with_growing_pauses() -> None:
    table, sleeps = InsertOnlyTable(lambda number: "ThrottlingError" if number % 3 == 0 else None), list[float]()
    assert seeded(table, sleeps) == Seeded(created=60)
    assert len(table.rows) == 60
    assert sleeps[:3] == [0.025, 0.05, 0.1]


def test_seeding_gives_up_when_the_table_stays_throttled() -> None:
    table, sleeps = InsertOnlyTable(lambda _: "ProvisionedThroughputExceeded"), list[float]()
    writer = SlotWriter(table, "slots", waiting(sleeps))  # type: ignore[arg-type]
    with pytest.raises(OneslotError, match="25 slots were not written in 30 s"):
        writer.insert(ITEMS[:BATCH])
    assert 25 < sum(sleeps) < 30


def test_seeding_ends_at_once_when_a_slot_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that wait for a worker are cancelled, and no more slots are read."""
    given_up = threading.Event()
    shutdown = ThreadPoolExecutor.shutdown

    def noted(self: ThreadPoolExecutor, **how: bool) -> None:
        given_up.set()
        shutdown(self, **how)

    class OthersAreSlow(InsertOnlyTable):
        def batch_execute_statement(self, *, Statements: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
            first = not self.batches
            answer = super().batch_execute_statement(Statements=Statements)
            assert first or given_up.wait(60)
            return answer

    read = list[dict[str, Any]]()

    def items() -> Iterator[dict[str, Any]]:
        for item in ITEMS * 20:
            read.append(item)
            yield item

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", noted)
    table = OthersAreSlow(lambda number: "AccessDenied" if number == 1 else None)
    with pytest.raises(OneslotError, match="refused a slot: AccessDenied"):
        seed(items(), SlotWriter(table, "slots"), workers=2, progress=lambda _: None)  # type: ignore[arg-type]
    assert len(table.batches) <= 3, "the refused one, and one for each worker"
    assert len(read) == 4 * BATCH, "two batches for each worker, however many slots there are"
