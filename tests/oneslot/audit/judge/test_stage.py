"""The Python stage without Spark: groups from carried rows, and their figures."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from demo.declared import CONSUMER
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.judge import stage
from oneslot.audit.judge.evidence import LINES_KEPT
from oneslot.audit.judge.laws import Chunk
from oneslot.audit.judge.stage import Judging
from oneslot.audit.model import model_of
from oneslot.audit.read.carry import PREVIOUS, REJECTED, REJECTS
from oneslot.audit.read.lines import Read, table_of
from oneslot.laws.evidence import Evidence

NOW = 10_000
MOMENT = Evidence(requests=(), waiting=(), now=NOW, patience_ms=100)
MODEL = model_of(CONSUMER)
Carried = tuple[str, str, dict[str, Any]]
"""A key, a source's name with a minus for an old image, and a row; `rejected` is a row out of form."""


def table(source: str, rows: Iterable[tuple[str, dict[str, Any]]]) -> pa.Table:
    """Return rows as they travel."""
    pairs = [*rows]
    read = [Read(1, 1, row, row) for _, row in pairs]
    return table_of(MODEL.source_named(source), read).add_column(0, "key", [[key for key, _ in pairs]])


def found_of(rows: Iterable[Carried]) -> dict[int, list[pa.Table]]:
    """Return carried rows by what they are."""
    found: dict[int, list[pa.Table]] = defaultdict(list)
    for key, name, row in rows:
        if name == "rejected":
            values = {"key": key, "file": "f", "line": 1, "problem": 2, "attribute": "a", "sign": 1} | row
            found[REJECTED].append(pa.Table.from_pylist([values], REJECTS))
        else:
            number = MODEL.source_named(name.removeprefix("-")).number
            found[-number if name.startswith("-") else number].append(table(name.removeprefix("-"), [(key, row)]))
    return found


def judged(*rows: Carried) -> dict[str, dict[str, Any]]:
    """Return the rows of verdicts by key, without what is null."""
    verdicts, _ = stage.judged(found_of(rows), Judging(AuditConsumer(CONSUMER), MOMENT, "", ""))
    return {
        row["key"]: {name: value for name, value in row.items() if value is not None} for row in verdicts.to_pylist()
    }


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


def test_million_deliveries_of_one_id_are_folded() -> None:
    """With those that an earlier audit folded: in two lines, and counted exactly, with the first and the last times."""
    chunk = Chunk(MODEL, MOMENT)
    one = delivery("booked", sent=7, finished=8, answer="a", claimed_by="1", consumption_count=1)
    several = [delivery(sent=10 + number, finished=20 + number, answer="a", claimed_by="1") for number in range(1_000)]
    earlier = [delivery(sent=12, finished=40, first_finished=21, copies=500, answer="a", claimed_by="1"), one]
    chunk.earlier = [{**line, "key": "m"} for line in earlier]
    chunk.absorb(
        MODEL.source_named("deliveries"),
        pa.concat_tables([table("deliveries", [("m", row) for row in several])] * 1_000),
    )
    assert len(chunk.groups["m"].lines) == 2
    verdicts, _ = chunk.judge(keeps=False, clean=None)
    (found,) = verdicts.to_pylist()
    names = (
        "deliveries",
        "deliveries_duplicate",
        "deliveries_done",
        "delivery_sent",
        "first_done",
        "last_finished",
        "consumptions_seen",
    )
    assert [found[name] for name in names] == [1_000_501, 1_000_500, 1_000_501, 7, 8, 1_019, 1]


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
        ("m", "dead-letters", {}),
        ("m", "dead-letters", {}),
        ("m", "waiting", {}),
        ("m", "dropped", {"at": 17}),
        ("m", "dropped", {"at": 19}),
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
    "!file": ([("!file", "rejected", {})], "file"),
    "m": ([("m", "waiting", {})], "request"),
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
    found = judged(*twice, ("m", "ledger", row("m")), ("m", "ledger", row("m")), ("m", "waiting", {}))
    assert "S1" in found["#A/s"]["violations"].split()
    assert "S1" not in found["a"]["violations"].split()
    assert (found["m"]["violations"], found["m"]["verdict"]) == ("S1", "duplicate_effect")


def test_subject_is_unreadable_when_a_row_of_it_is_rejected() -> None:
    """No law speaks of it, and the rest of the chunk is judged."""
    rows: list[Carried] = [("m", "accepted", {"sent": 1, "copies": 1}), ("m", "rejected", {"file": None, "line": None})]
    rows += [("n", "accepted", {"sent": 1, "copies": 1})]
    found = judged(*rows)
    assert (found["m"]["verdict"], found["m"]["violations"]) == ("unreadable", "")
    assert (found["n"]["verdict"], found["n"]["violations"]) == ("lost", "I2")


def test_changes_take_an_old_image_back_when_an_earlier_audit_kept_it() -> None:
    """Verdicts, figures and tables are those of a whole audit."""
    held = {**SLOT, "status": "busy", "appointment_id": "m"}
    asked: list[Carried] = [("m", "accepted", {"sent": 7, "copies": 1}), ("m", "waiting", {})]
    before: list[Carried] = [("#A/s", "slots", SLOT), ("m", "deliveries", delivery("failed")), *asked]
    today: list[Carried] = [
        ("#A/s", "-slots", SLOT),
        *((key, "slots", held) for key in ("#A/s", "m")),
        ("m", "waiting", {}),
    ]
    after = [*before[1:], *today[1:3]]
    judging = Judging(AuditConsumer(CONSUMER), MOMENT, "", "", keeps=True)
    earlier, added = stage.judged(found_of(before), judging)
    kept = earlier.append_column("layer", pa.array([0] * len(earlier)))

    changed, more = stage.judged({**found_of(today), PREVIOUS: [kept]}, judging)
    whole, blocks = stage.judged(found_of(after), judging)

    assert changed.to_pylist() == whole.to_pylist()
    sums = [
        stage.add_up([(what, block) for _, what, block in each], judging.wanted) for each in ([*added, *more], blocks)
    ]
    by_changes, at_once = (
        [stage.without_zeros(table, answer.tables[number]) for number, table in enumerate(judging.wanted)]
        for answer in sums
    )
    assert by_changes == at_once


def test_report_gets_the_first_attempts_when_a_message_has_very_many() -> None:
    lines: list[Carried] = [("m", "deliveries", delivery(finished=1_000 - number)) for number in range(300)]

    _, blocks = stage.judged(found_of([*lines, ("n", "waiting", {})]), Judging(AuditConsumer(CONSUMER), MOMENT, "", ""))

    shown = stage.add_up([(what, block) for _, what, block in blocks], ()).rows(stage.LINES_OF)
    assert [row["finished"] for row in shown] == list(range(701, 701 + stage.ATTEMPTS_SHOWN))
