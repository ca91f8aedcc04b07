"""What of a line counts: on which side of a boundary it is, and what is taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from oneslot.pipeline.read import facts, logs, sources, tables
from oneslot.pipeline.vocabulary import Kind, Outcome, Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark
START, END = 1_000, 2_000
ROW = {"message_id": {"S": "m"}, "status": {"S": "IN_PROGRESS"}, "consumption_count": {"N": "1"}, "updated": {"N": "5"}}


def read(spark: SparkSession, folder: Path, lines: list[dict[str, Any]], schema: StructType) -> DataFrame:
    """Lines as they are read from a file."""
    (folder / "lines.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return sources.read_lines(spark, [str(folder / "lines.json")], schema)


def changed(micros: object, **pictures: dict[str, Any]) -> dict[str, Any]:
    """A line of an incremental export."""
    return {"Metadata": {"WriteTimestampMicros": {"N": micros}}, **pictures}


OLD, NEW = {"OldImage": ROW}, {"NewImage": {**ROW, "consumption_count": {"N": "2"}}}
WINDOW = {
    "at its begin": (changed("1000000", **NEW), [(Kind.LEDGER, 1, 2)]),
    "before its begin": (changed("999999", **NEW), [(Problem.OUTSIDE_WINDOW, 1)]),
    "before its end": (changed("1999999", **OLD, **NEW), [(Kind.LEDGER, -1, 1), (Kind.LEDGER, 1, 2)]),
    "at its end": (changed("2000000", **OLD, **NEW), [(Problem.OUTSIDE_WINDOW, 1)]),
    "deleted at its end": (changed("2000000", **OLD), [(Problem.OUTSIDE_WINDOW, 1)]),
    "deleted": (changed("1000001", **OLD), [(Kind.LEDGER, -1, 1)]),
    "mended": (changed("1000001", OldImage={}, **NEW), [(Problem.MISSING_ATTRIBUTE, -1), (Kind.LEDGER, 1, 2)]),
    "at no time": (changed(None, **NEW), [(Kind.LEDGER, 1, 2)]),
    "without a picture": (changed("1000001"), [(Problem.MISSING_ATTRIBUTE, 1)]),
}


@pytest.mark.parametrize("kind", WINDOW)
def test_a_change_counts_within_its_window_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """From its begin to before its end. What is outside is one malformed line, and takes nothing back."""
    line, expected = WINDOW[kind]
    changes = tables.images(read(spark, tmp_path, [line], sources.incremental_export_schema("ledger")), START, END)
    found = sorted(tables.ledger_facts(changes).collect(), key=lambda row: row.sign)
    assert [
        (Problem(row.code), row.sign) if row.kind == Kind.REJECT else (Kind(row.kind), row.sign, row.number)
        for row in found
    ] == expected


Strange = dict[str, tuple[dict[str, Any], Problem | None]]
MISSING, RANGE, UNKNOWN = Problem.MISSING_ATTRIBUTE, Problem.OUT_OF_RANGE, Problem.UNKNOWN_VALUE
LATEST = facts.LATEST_EPOCH_MS
LEDGER = {"message_id": "m", "status": "IN_PROGRESS", "consumption_count": 1, "updated": 5, "lease_until": 6}
SLOT = {"practice": "A81001", "slot_id": "s", "status": "free", "start": "2026-11-23T08:00:00Z"}
APPOINTMENT = {**SLOT, "appointment_id": "m", "status": "booked", "created": 5, "updated": 6}
WAITS = {**APPOINTMENT, "status": "waitlist", "slot_id": None, "start": None}
TOMBSTONE = {"appointment_id": "m", "status": "cancelled", "cancelled_by": "c", "created": 5}
ROWS: dict[str, tuple[dict[str, Any], Strange]] = {
    "ledger": (
        LEDGER,
        {
            "of nobody": ({"message_id": None}, MISSING),
            "without status": ({"status": None}, MISSING),
            "without count": ({"consumption_count": None}, MISSING),
            "without time": ({"updated": None}, MISSING),
            "without lease": ({"lease_until": None}, None),
            "in another case": ({"status": "complete"}, UNKNOWN),
            "of a slot's key": ({"message_id": "#m"}, UNKNOWN),
            "with the largest count": ({"consumption_count": facts.LARGEST_COUNT}, None),
            "with a larger count": ({"consumption_count": facts.LARGEST_COUNT + 1}, RANGE),
            "claimed less than never": ({"consumption_count": -1}, RANGE),
            "written at the last moment": ({"updated": LATEST, "lease_until": LATEST}, None),
            "written after it": ({"updated": LATEST + 1}, RANGE),
            "leased for longer": ({"lease_until": LATEST + 1}, RANGE),
            "leased in words": ({"lease_until": "long"}, RANGE),
        },
    ),
    "slots": (
        SLOT,
        {
            "of no practice": ({"practice": None}, MISSING),
            "without id": ({"slot_id": None}, MISSING),
            "without status": ({"status": None}, MISSING),
            "at no time": ({"start": None}, MISSING),
            "at a time in words": ({"start": "on Monday"}, MISSING),
            "neither free nor busy": ({"status": "blocked"}, UNKNOWN),
            "for a slot": ({"appointment_id": "#m"}, UNKNOWN),
            "busy": ({"status": "busy", "appointment_id": "m"}, None),
        },
    ),
    "appointments": (
        APPOINTMENT,
        {
            "of nobody": ({"appointment_id": None}, MISSING),
            "without status": ({"status": None}, MISSING),
            "made at no time": ({"created": None}, MISSING),
            "booked with no practice": ({"practice": None}, MISSING),
            "booked on no slot": ({"slot_id": None}, MISSING),
            "booked at no time": ({"start": None}, MISSING),
            "waiting": (WAITS, None),
            "waiting nowhere": ({**WAITS, "practice": None}, MISSING),
            "a tombstone": ({**dict.fromkeys(APPOINTMENT), **TOMBSTONE}, None),
            "cancelled by nobody": ({"status": "cancelled"}, MISSING),
            "lapsed": ({"status": "lapsed"}, UNKNOWN),
            "of a file's key": ({"appointment_id": "!m"}, UNKNOWN),
            "cancelled by a slot": ({"status": "cancelled", "cancelled_by": "#c"}, UNKNOWN),
            "made at the last moment": ({"created": LATEST, "updated": LATEST}, None),
            "made after it": ({"created": LATEST + 1}, RANGE),
            "changed after it": ({"updated": LATEST + 1}, RANGE),
        },
    ),
}


def write_item(path: Path, usual: dict[str, Any], changes: dict[str, Any]) -> None:
    """A line of a full export; what is a number in the usual row is one."""
    given = {key: value for key, value in {**usual, **changes}.items() if value is not None}
    written = {key: {"N" if type(usual.get(key)) is int else "S": str(value)} for key, value in given.items()}
    path.write_text(json.dumps({"Item": written}))


def complete(outcome: str, of: str) -> dict[str, Any]:
    """What is written at the end of a request's life."""
    return {"status": "COMPLETE", "result": json.dumps({"outcome": outcome, "appointment_id": of})}


SAYS: dict[str, tuple[str, dict[str, Any], Kind, str, int]] = {
    "held since its lease": ("ledger", {"lease_until": 7}, Kind.LEDGER, "until", 7),
    "given back": ("ledger", {"lease_until": 0}, Kind.LEDGER, "until", 5),
    "refused": ("ledger", complete("refused", "m"), Kind.LEDGER, "code", Outcome.REFUSED),
    "refused, of another": ("ledger", complete("refused", "x"), Kind.LEDGER, "code", Outcome.UNKNOWN),
    "waiting, of another": ("ledger", complete("waitlist", "x"), Kind.LEDGER, "code", Outcome.UNKNOWN),
    "booked, of another": ("ledger", complete("booked", "x"), Kind.LEDGER, "code", Outcome.UNKNOWN),
    "cancelled": ("ledger", complete("cancelled", "m"), Kind.LEDGER, "code", Outcome.CANCELLED),
    "cancelling another": ("ledger", complete("cancelled", "x"), Kind.LEDGER, "code", Outcome.CANCELLED_OTHER),
    "freed, and names its holder": ("slots", {"appointment_id": "m"}, Kind.HELD, "link", 0),
    "cancelled later": ("appointments", {"status": "cancelled", "cancelled_by": "c"}, Kind.CANCELLED, "at", 6),
    "cancelled before it came": ("appointments", {**TOMBSTONE, "updated": None}, Kind.CANCELLED, "at", 5),
}


@pytest.mark.parametrize("kind", SAYS)
def test_what_a_row_says(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """One value of one of its facts."""
    table, changes, of, column, value = SAYS[kind]
    write_item(tmp_path / "item.json", ROWS[table][0], changes)
    items = sources.read_lines(spark, [str(tmp_path)], sources.full_export_schema(table))
    made = tables.TABLE_FACTS[table](tables.whole_items(items)).collect()
    assert [row[column] for row in made if row.kind == of] == [value]


@pytest.mark.parametrize("table", ROWS)
def test_a_row_is_sound_or_malformed(spark: SparkSession, tmp_path: Path, table: str) -> None:
    """What every row has is there, and says what the system writes; of a malformed row nothing counts but that it is one."""
    usual, cases = ROWS[table]
    for name, (changes, _) in {"usual": ({}, None), **cases}.items():
        write_item(tmp_path / f"{name}.json", usual, changes)
    items = sources.read_lines(spark, [str(tmp_path)], sources.full_export_schema(table))
    made = tables.TABLE_FACTS[table](tables.whole_items(items)).collect()
    found = {Path(unquote(row.key)).stem: Problem(row.code) for row in made if row.kind == Kind.REJECT}
    assert found == {name: problem for name, (_, problem) in cases.items() if problem is not None}


DELIVERY = {"message": "delivery", "message_id": "m", "outcome": "busy", "sent": 0, "finished": START}
LINES: dict[str, tuple[str, dict[str, Any], Problem | None]] = {
    "sent at the last moment": ("deliveries", {**DELIVERY, "sent": LATEST}, None),
    "sent after it": ("deliveries", {**DELIVERY, "sent": LATEST + 1}, Problem.OUT_OF_RANGE),
    "sent before all": ("deliveries", {**DELIVERY, "sent": -1}, Problem.OUT_OF_RANGE),
    "never sent": ("deliveries", {**DELIVERY, "sent": None}, Problem.MISSING_ATTRIBUTE),
    "never finished": ("deliveries", {**DELIVERY, "finished": None}, Problem.MISSING_ATTRIBUTE),
    "finished before all": ("deliveries", {**DELIVERY, "finished": -1}, Problem.OUT_OF_RANGE),
    "finished after all": ("deliveries", {**DELIVERY, "finished": LATEST + 1}, Problem.OUT_OF_RANGE),
    "claimed less than never": ("deliveries", {**DELIVERY, "consumption_count": -1}, Problem.OUT_OF_RANGE),
    "claimed never": ("deliveries", {**DELIVERY, "consumption_count": 0}, None),
    "of nobody": ("deliveries", {**DELIVERY, "message_id": None}, Problem.MISSING_ATTRIBUTE),
    "of SQS's id": ("deliveries", {**DELIVERY, "message_id": None, "sqs_message_id": "s"}, None),
    "without outcome": ("deliveries", {**DELIVERY, "outcome": None}, Problem.MISSING_ATTRIBUTE),
    "with another outcome": ("deliveries", {**DELIVERY, "outcome": "Busy"}, Problem.UNKNOWN_VALUE),
    "of a slot's key": ("deliveries", {**DELIVERY, "message_id": "#a"}, Problem.UNKNOWN_VALUE),
    "accepted at the last moment": ("accepted", {"message_id": "m", "sent": LATEST, "copies": 0}, None),
    "accepted after it": ("accepted", {"message_id": "m", "sent": LATEST + 1}, Problem.OUT_OF_RANGE),
    "accepted less than never": ("accepted", {"message_id": "m", "sent": 0, "copies": -1}, Problem.OUT_OF_RANGE),
    "accepted before all": ("accepted", {"message_id": "m", "sent": -1}, Problem.OUT_OF_RANGE),
    "accepted too often": (
        "accepted",
        {"message_id": "m", "sent": 0, "copies": facts.LARGEST_COUNT + 1},
        Problem.OUT_OF_RANGE,
    ),
    "accepted at no time": ("accepted", {"message_id": "m"}, Problem.MISSING_ATTRIBUTE),
    "accepted under a file's key": ("accepted", {"message_id": "!a", "sent": 0}, Problem.UNKNOWN_VALUE),
    "dropped at no time": ("dropped", {"message_id": "m"}, Problem.MISSING_ATTRIBUTE),
    "dropped in the year 2100": ("dropped", {"message_id": "m", "at": LATEST + 1}, Problem.OUT_OF_RANGE),
    "dropped before all": ("dropped", {"message_id": "m", "at": -1}, Problem.OUT_OF_RANGE),
    "dropped under a slot's key": ("dropped", {"message_id": "#a", "at": 0}, Problem.UNKNOWN_VALUE),
    "dropped, of nobody": ("dropped", {"at": 0}, Problem.MISSING_ATTRIBUTE),
    "dropped": ("dropped", {"source_message_id": "s", "at": 0}, None),
    "waiting, of nobody": ("waiting", {"message_id": None}, Problem.MISSING_ATTRIBUTE),
    "a dead letter of nobody": ("dead-letters", {"message_id": None}, Problem.MISSING_ATTRIBUTE),
}


@pytest.mark.parametrize("kind", LINES)
def test_a_line_is_sound_or_malformed(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Each with one fact: what it says, or why it says nothing."""
    source, line, problem = LINES[kind]
    lines = read(spark, tmp_path, [line], sources.LINES[source])
    (found,) = (
        logs.delivery_facts(lines, START, END) if source == "deliveries" else logs.LINE_FACTS[source](lines)
    ).collect()
    assert (Problem(found.code) if found.kind == Kind.REJECT else None) == problem


@pytest.mark.parametrize(("finished", "counted"), [(START - 1, 0), (START, 1), (END - 1, 1), (END, 0)])
def test_a_delivery_counts_where_it_finished(spark: SparkSession, tmp_path: Path, finished: int, counted: int) -> None:
    """From the exports' begin to before their end; without a begin from ever."""
    lines = read(spark, tmp_path, [{**DELIVERY, "finished": finished}], sources.DELIVERIES)
    assert logs.delivery_facts(lines, START, END).count() == counted
    assert logs.delivery_facts(lines, None, END).count() == (finished < END)


def _events(*lines: str) -> str:
    return json.dumps({"logGroup": "g", "logEvents": [{"id": "1", "message": line} for line in lines]})


PLAIN = json.dumps(DELIVERY)
ENVELOPES: dict[str, tuple[str, list[Kind]]] = {
    "a delivery": (PLAIN, [Kind.DELIVERY]),
    "a list of deliveries": (f"[{PLAIN}, {PLAIN}]", [Kind.DELIVERY] * 2),
    "a delivery, and more": (json.dumps({**DELIVERY, "more": {"message": "delivery"}}), [Kind.DELIVERY]),
    "another line": (json.dumps({"message": "cold start", "of": {"message": "deliveries"}}), []),
    "CloudWatch's events": (_events(PLAIN, PLAIN), [Kind.REJECT]),
    "a list of events": (f"[{_events(PLAIN)}]", [Kind.REJECT]),
    "as text": (json.dumps({"timestamp": 1, "message": PLAIN}), [Kind.REJECT]),
    "as text in text": (json.dumps({"message": json.dumps({"message": PLAIN})}), [Kind.REJECT]),
    "as an object, without spaces": (f'{{"message":{PLAIN.replace(" ", "")}}}', [Kind.REJECT]),
}


@pytest.mark.parametrize("kind", ENVELOPES)
def test_a_delivery_in_an_envelope_is_not_passed_over(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """As CloudWatch hands lines on. Among plain ones it would count as one of the consumer's other lines: as nothing."""
    line, expected = ENVELOPES[kind]
    (tmp_path / "lines.json").write_text(line + "\n")
    for source, told in (("deliveries", expected), ("accepted", [])):
        facts_of = sources.read_log(spark, [str(tmp_path / "lines.json")], source)
        made = logs.delivery_facts(facts_of, None, END) if source == "deliveries" else logs.accepted_facts(facts_of)
        assert [row.kind for row in made.collect() if source == "deliveries" or row.kind == Kind.REJECT] == told


@pytest.mark.parametrize("source", sources.LINES)
def test_a_line_that_is_cut_off_is_malformed(spark: SparkSession, tmp_path: Path, source: str) -> None:
    """Whichever of its members were read before it ends; without copies one is accepted, without an id none."""
    (tmp_path / "lines.json").write_text(
        '{"message_id": "m", "sent": 5}\n{"sent": 5}\n{"message": "delivery", "message_i'
    )
    lines = sources.read_log(spark, [str(tmp_path / "lines.json")], source)
    made = (logs.delivery_facts(lines, None, 9) if source == "deliveries" else logs.LINE_FACTS[source](lines)).collect()
    assert [row.code for row in made if row.kind == Kind.REJECT][-1] == Problem.NOT_JSON
    if source == "accepted":
        assert [(row.key, row.number) for row in made if row.kind == Kind.ACCEPTED] == [("m", 1)]
        assert len(made) == 2
