"""The Python stage without Spark: groups from carried rows, their figures, and what the next audit keeps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from demo.declared import CONSUMER
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.judge import clean, stage
from oneslot.audit.judge.group import LINES_KEPT
from oneslot.audit.judge.stage import Chunk, Moment, judge_chunk
from oneslot.audit.judged import PREVIOUS, REJECTED
from oneslot.audit.model import model_of

NOW = 10_000
MOMENT = Moment(NOW, True, True, True, 100, None, 0)
MODEL = model_of(CONSUMER)
Carried = tuple[str, str | int, Any]


def batch(rows: Iterable[Carried]) -> pa.RecordBatch:
    """Return carried rows. A source's name stands for its place, with a minus for an old image."""
    numbers = {name: number for number, name in enumerate(MODEL.sources, 1)}
    numbers |= {f"-{name}": -number for name, number in numbers.items()}
    found = [(key, numbers.get(str(source), source), json.dumps(row)) for key, source, row in rows]
    keys, places, texts = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys), pa.array(places), pa.array(texts)], names=["key", "place", "row"]
    )


def judged(*rows: Carried, keeps: bool = False) -> dict[str, dict[str, Any]]:
    """Return the rows of verdicts by key, without what is null."""
    (made,) = judge_chunk([batch(rows)], AuditConsumer(CONSUMER), MOMENT, tables=True, keeps=keeps)
    return {row["key"]: {name: value for name, value in row.items() if value is not None} for row in made.to_pylist()}


@pytest.mark.parametrize("keeps", [True, False])
def test_verdicts_leave_in_batches(keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in the same order, and one of them has the sums of all. `keeps`: without the quick look."""
    rows = [(f"m{number}", "waiting", 1) for number in range(4)]
    (whole,) = judge_chunk([batch(rows)], AuditConsumer(CONSUMER), MOMENT, tables=True, keeps=keeps)
    for module in (stage, clean):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 2)
    parts = [*judge_chunk([batch(rows)], AuditConsumer(CONSUMER), MOMENT, tables=True, keeps=keeps)]
    assert [part.num_rows for part in parts] == [2, 2]
    assert [each for part in parts for each in part.to_pylist()] == whole.to_pylist()
    assert [bool(each["cells"]) for each in whole.to_pylist()] == [False, False, False, True]


def row(message_id: str, **more: Any) -> dict[str, Any]:
    usual = {
        "message_id": message_id,
        "status": "IN_PROGRESS",
        "consumption_count": 1,
        "updated": NOW,
        "lease_until": 0,
    }
    return {**usual, **more}


def delivery(outcome: str = "duplicate", **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "sent": 5, "finished": 9, **more}


SLOT = {"practice": "A", "slot_id": "s", "status": "free", "start": "2026-11-23T08:00:00Z"}


def cells(rows: Mapping[str, Mapping[str, Any]]) -> dict[tuple[Any, ...], list[int]]:
    """Return the sums of a chunk, by the name of the table and the dimensions."""
    (text,) = [each["cells"] for each in rows.values() if "cells" in each]
    return {(MODEL.tables[cell["t"]].name, *cell["d"]): cell["f"] for cell in json.loads(text)}


def test_million_deliveries_of_one_id_are_folded() -> None:
    """In the memory of a few hundred, and counted exactly, with the first and the last times."""
    chunk = Chunk(MODEL, MOMENT)
    answered = delivery("booked", sent=7, finished=8, answer="a", claimed_by="1", consumption_count=1)
    several = batch(
        ("m", "deliveries", delivery(sent=10 + number, finished=20 + number, answer="a", claimed_by="1"))
        for number in range(1_000)
    )
    chunk.absorb(batch([("m", "deliveries", answered)]))
    for _ in range(1_000):
        chunk.absorb(several)
        assert len(chunk.groups["m"].lines) <= LINES_KEPT
    (found,) = chunk.judge()
    names = ("deliveries", "deliveries_duplicate", "deliveries_done", "delivery_sent", "first_done", "last_finished")
    assert [found.figures[name] for name in names] == [1_000_001, 1_000_000, 1_000_001, 7, 8, 1_019]


def test_folded_lines_break_the_laws_that_all_lines_break() -> None:
    """Two answers among many, and a claim that is not counted."""
    lines: list[Carried] = [("m", "deliveries", delivery(answer="a", claimed_by="1")) for _ in range(3 * LINES_KEPT)]
    lines += [("m", "deliveries", delivery("fenced", claimed_by="2")), ("m", "deliveries", delivery(answer="b"))]
    lines += [("m", "deliveries", delivery(answer="a", claimed_by="1")) for _ in range(3 * LINES_KEPT)]
    found = judged(("m", "ledger", row("m", status="COMPLETE", result="{}")), *lines)
    assert {"I7", "I10"} <= set(found["m"]["violations"].split())


def test_figures_of_a_request_come_from_all_sources() -> None:
    found = judged(
        ("m", "ledger", row("m", consumption_count=3)),
        ("m", "accepted", {"sent": 10, "copies": 2}),
        ("m", "accepted", {"sent": 7, "copies": 1}),
        ("m", "deliveries", delivery("fenced", sent=14, finished=50, consumption_count=3, claimed_by="x")),
        ("m", "deliveries", delivery("quarantined", sent=12, finished=13)),
        ("m", "deliveries", delivery("quarantined", sent=13, finished=16)),
        ("m", "deliveries", delivery("refused", sent=15, finished=30)),
        ("m", "deliveries", delivery("booked", sent=11, finished=40)),
        ("m", "dead-letters", 1),
        ("m", "dead-letters", 1),
        ("m", "waiting", 1),
        ("m", "dropped", 17),
        ("m", "dropped", 19),
    )["m"]
    counted = {name: found[name] for name in found.keys() & set(MODEL.figures)}
    assert counted == {
        "ledger_rows": 1,
        "ledger_consumptions": 3,
        "ledger_resting_since": NOW,
        "accepted_copies": 3,
        "accepted_sent": 7,
        "deliveries": 5,
        "deliveries_done": 2,
        "delivered_outcome": 4,
        "quarantined_at": 16,
        "delivery_sent": 11,
        "first_done": 30,
        "last_finished": 50,
        "consumptions_seen": 3,
        "dead_letters": 2,
        "waiting": 1,
        "dropped_at": 19,
    }
    assert found["subject"] == "request"


SUBJECTS: dict[str, tuple[list[Carried], str]] = {
    "#A/s": ([("#A/s", "slots", SLOT)], "slot"),
    "?sqs": ([("?sqs", "deliveries", delivery("quarantined"))], "unidentified"),
    "!file": ([("!file", REJECTED, 2)], "file"),
    "m": ([("m", "waiting", 1)], "request"),
    "a": ([("a", "slots", {**SLOT, "status": "busy", "appointment_id": "a"})], "appointment"),
    "gone": ([("gone", "ledger", row("gone")), ("gone", "-ledger", row("gone"))], "gone"),
    "named": ([("named", "ledger", row("other", status="COMPLETE", result="{}"))], "appointment"),
}


@pytest.mark.parametrize("key", SUBJECTS)
def test_subject_follows_from_what_names_it(key: str) -> None:
    rows, subject = SUBJECTS[key]
    assert judged(*rows)[key]["subject"] == subject


def test_export_that_holds_a_row_twice_is_found() -> None:
    """Under the row's own key alone, although the row travels to another subject."""
    slot = {**SLOT, "status": "busy", "appointment_id": "a"}
    twice: list[Carried] = [(key, "slots", slot) for key in ("#A/s", "a") for _ in range(2)]
    found = judged(*twice, ("m", "ledger", row("m")), ("m", "ledger", row("m")), ("m", "waiting", 1))
    assert "S1" in found["#A/s"]["violations"].split()
    assert "S1" not in found["a"]["violations"].split()
    assert (found["m"]["violations"], found["m"]["verdict"]) == ("S1", "duplicate_effect")


def test_audit_of_changes_adds_to_what_was_kept() -> None:
    """An old image takes back the equal row. Queues are today's, and sums are those of the change."""
    yesterday: list[Carried] = [
        ("m", "ledger", row("m")),
        ("m", "waiting", 1),
        ("m", "deliveries", delivery("failed")),
        ("m", "accepted", {"sent": 4, "copies": 1}),
        ("#A/s", "slots", SLOT),
    ]
    before = judged(*yesterday, keeps=True)
    slot = {**SLOT, "status": "busy", "appointment_id": "m"}
    complete = row("m", status="COMPLETE", result=json.dumps({"outcome": "refused", "appointment_id": "m"}))
    today: list[Carried] = [
        ("m", "-ledger", row("m")),
        ("m", "ledger", complete),
        ("m", "deliveries", delivery("refused", answer="a")),
        ("#A/s", "-slots", SLOT),
        ("#A/s", "slots", slot),
        ("m", "slots", slot),
    ]
    kept: list[Carried] = [(key, PREVIOUS, json.loads(each["evidence"])) for key, each in before.items()]
    after = judged(*kept, *today, keeps=True)
    whole = judged(
        *(each for each in yesterday if each[1] not in ("waiting", "slots", "ledger")),
        *(each for each in today if not str(each[1]).startswith("-")),
        keeps=True,
    )
    same = ("cells", "evidence")
    assert [{name: value for name, value in each.items() if name not in same} for each in after.values()] == [
        {name: value for name, value in each.items() if name not in same} for each in whole.values()
    ]
    assert [json.loads(each["evidence"]) for each in after.values()] == [
        json.loads(each["evidence"]) for each in whole.values()
    ]
    assert (before["m"]["verdict"], after["m"]["verdict"]) == ("in_flight", "refused")
    added = cells(before)
    for name, figures in cells(after).items():
        added[name] = [one + other for one, other in zip(added.get(name, [0] * len(figures)), figures, strict=True)]
    assert {name: figures for name, figures in added.items() if any(figures)} == cells(whole)
