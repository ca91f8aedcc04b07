"""Seeding: throttled slots are retried, and existing slots stay unchanged."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any

import pytest

from demo.plan import make_plan
from demo.seeding import BATCH, WORKERS, seed
from oneslot.errors import OneslotError
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import from_attributes

ITEMS = list(make_plan(1, 60, 1, date(2026, 11, 23)).items())


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


def seeded(table: InsertOnlyTable, sleeps: list[float] | None = None, items: Iterable[dict[str, Any]] = ITEMS) -> int:
    """Seed items into the table."""
    return seed(items, table, "slots", surroundings=waiting([] if sleeps is None else sleeps))  # type: ignore[arg-type]


def test_seeding_inserts_slots_in_batches() -> None:
    table = InsertOnlyTable()
    assert seeded(table) == 60
    assert sorted(table.rows) == sorted((item["practice"], item["slot_id"]) for item in ITEMS)
    assert sorted(table.batches) == [10, BATCH, BATCH]


def test_seeding_again_frees_no_busy_slot() -> None:
    table = InsertOnlyTable()
    seeded(table)
    booked = next(iter(table.rows.values()))
    booked |= {"status": "busy", "appointment_id": "m-1"}
    del booked["free_key"]
    before = {key: dict(row) for key, row in table.rows.items()}
    reported: list[int] = []
    assert seed(ITEMS, table, "slots", progress=reported.append) == 0  # type: ignore[arg-type]
    assert table.rows == before
    assert sorted(reported) == [10, BATCH, BATCH], "an existing slot counts as progress"


def test_seeding_retries_throttled_slots_with_growing_pauses() -> None:
    throttled = iter((1, 1, 0))
    table, sleeps = InsertOnlyTable(lambda _: "ThrottlingError" if next(throttled, 0) else None), list[float]()
    assert seeded(table, sleeps, ITEMS[:1]) == 1
    assert sleeps == [0.025, 0.05]


def test_seeding_fails_when_the_table_stays_throttled() -> None:
    table, sleeps = InsertOnlyTable(lambda _: "ProvisionedThroughputExceeded"), list[float]()
    with pytest.raises(OneslotError, match="25 slots were not written in 30 s"):
        seeded(table, sleeps, ITEMS[:BATCH])
    assert 25 < sum(sleeps) < 30


def test_seeding_stops_when_a_slot_is_refused() -> None:
    read = list[dict[str, Any]]()

    def items() -> Iterator[dict[str, Any]]:
        for item in ITEMS * 20:
            read.append(item)
            yield item

    table = InsertOnlyTable(lambda number: "AccessDenied" if number == 1 else None)
    with pytest.raises(OneslotError, match="refused a slot: AccessDenied"):
        seeded(table, items=items())
    assert len(read) == WORKERS * BATCH, "a batch for each worker, however many slots there are"
