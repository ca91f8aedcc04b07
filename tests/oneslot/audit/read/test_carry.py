"""Carried rows and lines: which are valid, which window they count in, and which subjects they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from demo.declared import CONSUMER
from oneslot.audit.judged import REJECTED
from oneslot.audit.model import model_of
from oneslot.audit.read import carry, logs, sources, tables
from oneslot.laws import form
from oneslot.laws.form import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark
START, END = 1_000, 2_000
MODEL = model_of(CONSUMER)
KNOWN = logs.known_outcome(CONSUMER.schema)
DELIVERY_PLACE = 1 + MODEL.sources.index("deliveries")
ROW = {"message_id": {"S": "m"}, "status": {"S": "IN_PROGRESS"}, "consumption_count": {"N": "1"}, "updated": {"N": "5"}}


def read(spark: SparkSession, folder: Path, lines: list[dict[str, Any]], schema: StructType) -> DataFrame:
    """Read lines from a file."""
    (folder / "lines.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return sources.read_lines(spark, [str(folder / "lines.json")], schema)


def changed(micros: object, **pictures: dict[str, Any]) -> dict[str, Any]:
    """Return a line of an incremental export."""
    return {"Metadata": {"WriteTimestampMicros": {"N": micros}}, **pictures}


OLD, NEW = {"OldImage": ROW}, {"NewImage": {**ROW, "consumption_count": {"N": "2"}}}
WINDOW = {
    "at its begin": (changed("1000000", **NEW), [(1, 2)]),
    "before its begin": (changed("999999", **NEW), [(Problem.OUTSIDE_WINDOW, 1)]),
    "before its end": (changed("1999999", **OLD, **NEW), [(-1, 1), (1, 2)]),
    "at its end": (changed("2000000", **OLD, **NEW), [(Problem.OUTSIDE_WINDOW, 1)]),
    "deleted at its end": (changed("2000000", **OLD), [(Problem.OUTSIDE_WINDOW, 1)]),
    "deleted": (changed("1000001", **OLD), [(-1, 1)]),
    "rejected before": (changed("1000001", OldImage={}, **NEW), [(Problem.MISSING_ATTRIBUTE, -1), (1, 2)]),
    "at no time": (changed(None, **NEW), [(1, 2)]),
    "without a picture": (changed("1000001"), [(Problem.MISSING_ATTRIBUTE, 1)]),
}


def test_change_counts_only_inside_its_window(spark: SparkSession, tmp_path: Path) -> None:
    """The window includes its begin and excludes its end. A line outside is one malformed line, and takes nothing back."""
    for name, (line, _) in WINDOW.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(line).replace('"S": "m"', f'"S": "{name}"'))
    changes = tables.images(
        sources.read_lines(spark, [str(tmp_path)], sources.incremental_export_schema(MODEL.exports["ledger"].schema)),
        START,
        END,
    )

    found: dict[str, list[tuple[object, ...]]] = {name: [] for name in WINDOW}
    made = carry.carried_items(changes, 1, MODEL.exports["ledger"], None).collect()
    for row in sorted(made, key=lambda row: row.place):
        if abs(row.place) == REJECTED:
            # A rejected old image is taken back from no file.
            name = Path(unquote(row.key)).stem if row.place > 0 else "rejected before"
            found[name].append((Problem(int(row.row)), 1 if row.place > 0 else -1))
        else:
            found[row.key].append((row.place, json.loads(row.row)["consumption_count"]))

    assert found == {name: expected for name, (_, expected) in WINDOW.items()}


Strange = dict[str, tuple[dict[str, Any], Problem | None]]
MISSING, RANGE, UNKNOWN = Problem.MISSING_ATTRIBUTE, Problem.OUT_OF_RANGE, Problem.UNKNOWN_VALUE
LATEST = form.LATEST_EPOCH_MS
LEDGER = {"message_id": "m", "status": "IN_PROGRESS", "consumption_count": 1, "updated": 5, "lease_until": 6}
SLOT = {"practice": "A81001", "slot_id": "s", "status": "free", "start": "2026-11-23T08:00:00Z"}
APPOINTMENT = {**SLOT, "appointment_id": "m", "status": "booked", "created": 5, "updated": 6}
WAITS = {**APPOINTMENT, "status": "waitlist", "slot_id": None, "start": None}
TOMBSTONE = {"appointment_id": "m", "status": "cancelled", "cancelled_by": "c", "created": 5}
ROWS: dict[str, tuple[dict[str, Any], Strange]] = {
    "ledger": (
        LEDGER,
        {
            "without an id": ({"message_id": None}, MISSING),
            "without status": ({"status": None}, MISSING),
            "without count": ({"consumption_count": None}, MISSING),
            "without time": ({"updated": None}, MISSING),
            "without lease": ({"lease_until": None}, None),
            "with status in lower case": ({"status": "complete"}, UNKNOWN),
            "with a slot's key": ({"message_id": "#m"}, UNKNOWN),
            "with the largest count": ({"consumption_count": form.LARGEST_COUNT}, None),
            "with a larger count": ({"consumption_count": form.LARGEST_COUNT + 1}, RANGE),
            "with a negative count": ({"consumption_count": -1}, RANGE),
            "written at the last valid moment": ({"updated": LATEST, "lease_until": LATEST}, None),
            "written after it": ({"updated": LATEST + 1}, RANGE),
            "leased for longer": ({"lease_until": LATEST + 1}, RANGE),
            "with a lease in words": ({"lease_until": "long"}, RANGE),
        },
    ),
    "slots": (
        SLOT,
        {
            "without practice": ({"practice": None}, MISSING),
            "without id": ({"slot_id": None}, MISSING),
            "without status": ({"status": None}, MISSING),
            "without start": ({"start": None}, MISSING),
            "with a start in words": ({"start": "on Monday"}, MISSING),
            "with an unknown status": ({"status": "blocked"}, UNKNOWN),
            "held by a slot's key": ({"appointment_id": "#m"}, UNKNOWN),
            "busy": ({"status": "busy", "appointment_id": "m"}, None),
        },
    ),
    "appointments": (
        APPOINTMENT,
        {
            "without an id": ({"appointment_id": None}, MISSING),
            "without status": ({"status": None}, MISSING),
            "without created": ({"created": None}, MISSING),
            "booked without practice": ({"practice": None}, MISSING),
            "booked without slot": ({"slot_id": None}, MISSING),
            "booked without start": ({"start": None}, MISSING),
            "waiting": (WAITS, None),
            "waiting without practice": ({**WAITS, "practice": None}, MISSING),
            "a tombstone": ({**dict.fromkeys(APPOINTMENT), **TOMBSTONE}, None),
            "cancelled without cancelled_by": ({"status": "cancelled"}, MISSING),
            "with an unknown status": ({"status": "lapsed"}, UNKNOWN),
            "with a file's key": ({"appointment_id": "!m"}, UNKNOWN),
            "cancelled by a slot": ({"status": "cancelled", "cancelled_by": "#c"}, UNKNOWN),
            "made at the last moment": ({"created": LATEST, "updated": LATEST}, None),
            "made after it": ({"created": LATEST + 1}, RANGE),
            "changed after it": ({"updated": LATEST + 1}, RANGE),
        },
    ),
}


def write_item(path: Path, usual: dict[str, Any], changes: dict[str, Any]) -> None:
    """Write a line of a full export. A value is a number if it is one in the usual row."""
    given = {key: value for key, value in {**usual, **changes}.items() if value is not None}
    written = {key: {"N" if type(usual.get(key)) is int else "S": str(value)} for key, value in given.items()}
    path.write_text(json.dumps({"Item": written}))


def complete(outcome: str, of: str) -> dict[str, Any]:
    """Return the attributes of a COMPLETE row."""
    return {"status": "COMPLETE", "result": json.dumps({"outcome": outcome, "appointment_id": of})}


NAMES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "begun": ("ledger", {}, {"m"}),
    "booked": ("ledger", complete("booked", "m"), {"m"}),
    "booked, of another": ("ledger", complete("booked", "x"), {"m"}),
    "cancelled": ("ledger", complete("cancelled", "m"), {"m"}),
    "cancelling another": ("ledger", complete("cancelled", "x"), {"m", "x"}),
    "cancelled, and then begun again": ("ledger", {**complete("cancelled", "x"), "status": "IN_PROGRESS"}, {"m"}),
    "free": ("slots", {}, {"#A81001/s"}),
    "held": ("slots", {"status": "busy", "appointment_id": "m"}, {"#A81001/s", "m"}),
    "booked in a slot": ("appointments", {}, {"m", "#A81001/s"}),
    "waiting": ("appointments", WAITS, {"m"}),
    "cancelled later": ("appointments", {"status": "cancelled", "cancelled_by": "c"}, {"m", "c", "#A81001/s"}),
    "cancelled before it came": ("appointments", {**dict.fromkeys(APPOINTMENT), **TOMBSTONE}, {"m", "c"}),
}


def carried_of_table(table: str, items: DataFrame) -> list[Row]:
    """Return the rows of a full export, carried."""
    return carry.carried_items(tables.whole_items(items), 1, MODEL.exports[table], None).collect()


@pytest.mark.parametrize("kind", NAMES)
def test_row_travels_to_each_subject_that_it_names(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """With the attributes that are declared, and not the patient's number."""
    table, changes, subjects = NAMES[kind]
    write_item(tmp_path / "item.json", {**ROWS[table][0], "nhs_number": "9990000018"}, changes)
    items = sources.read_lines(spark, [str(tmp_path)], sources.full_export_schema(MODEL.exports[table].schema))
    made = carried_of_table(table, items)
    assert {row.key for row in made} == subjects
    assert len(made) == len(subjects)
    sent = {name: value for name, value in {**ROWS[table][0], **changes}.items() if value is not None}
    assert [json.loads(row.row) for row in made] == [sent] * len(made)


def rejected(made: list[Row]) -> dict[str, Problem]:
    """Return the problem of each rejected line by the name of its file."""
    return {Path(unquote(row.key)).stem: Problem(int(row.row)) for row in made if row.place == REJECTED}


@pytest.mark.parametrize("table", ROWS)
def test_row_is_valid_or_has_one_problem(spark: SparkSession, tmp_path: Path, table: str) -> None:
    """A malformed row leaves nothing but its rejection."""
    usual, cases = ROWS[table]
    for name, (changes, _) in {"usual": ({}, None), **cases}.items():
        write_item(tmp_path / f"{name}.json", usual, changes)
    items = sources.read_lines(spark, [str(tmp_path)], sources.full_export_schema(MODEL.exports[table].schema))
    made = carried_of_table(table, items)
    found = rejected(made)
    assert found == {name: problem for name, (_, problem) in cases.items() if problem is not None}


DELIVERY = {"message": "delivery", "message_id": "m", "outcome": "busy", "sent": 0, "finished": START}
LINES: dict[str, tuple[str, dict[str, Any], Problem | None]] = {
    "sent at the last moment": ("deliveries", {**DELIVERY, "sent": LATEST}, None),
    "sent after it": ("deliveries", {**DELIVERY, "sent": LATEST + 1}, Problem.OUT_OF_RANGE),
    "sent at a negative time": ("deliveries", {**DELIVERY, "sent": -1}, Problem.OUT_OF_RANGE),
    "never sent": ("deliveries", {**DELIVERY, "sent": None}, Problem.MISSING_ATTRIBUTE),
    "never finished": ("deliveries", {**DELIVERY, "finished": None}, Problem.MISSING_ATTRIBUTE),
    "finished at a negative time": ("deliveries", {**DELIVERY, "finished": -1}, Problem.OUT_OF_RANGE),
    "finished after the last moment": ("deliveries", {**DELIVERY, "finished": LATEST + 1}, Problem.OUT_OF_RANGE),
    "with a negative count": ("deliveries", {**DELIVERY, "consumption_count": -1}, Problem.OUT_OF_RANGE),
    "with a count of 0": ("deliveries", {**DELIVERY, "consumption_count": 0}, None),
    "without any id": ("deliveries", {**DELIVERY, "message_id": None}, Problem.MISSING_ATTRIBUTE),
    "with SQS's id only": ("deliveries", {**DELIVERY, "message_id": None, "sqs_message_id": "s"}, None),
    "without outcome": ("deliveries", {**DELIVERY, "outcome": None}, Problem.MISSING_ATTRIBUTE),
    "with another outcome": ("deliveries", {**DELIVERY, "outcome": "Busy"}, Problem.UNKNOWN_VALUE),
    "with a slot's key": ("deliveries", {**DELIVERY, "message_id": "#a"}, Problem.UNKNOWN_VALUE),
    "accepted at the last moment": ("accepted", {"message_id": "m", "sent": LATEST, "copies": 0}, None),
    "accepted after it": ("accepted", {"message_id": "m", "sent": LATEST + 1}, Problem.OUT_OF_RANGE),
    "accepted with negative copies": ("accepted", {"message_id": "m", "sent": 0, "copies": -1}, Problem.OUT_OF_RANGE),
    "accepted at a negative time": ("accepted", {"message_id": "m", "sent": -1}, Problem.OUT_OF_RANGE),
    "accepted with too many copies": (
        "accepted",
        {"message_id": "m", "sent": 0, "copies": form.LARGEST_COUNT + 1},
        Problem.OUT_OF_RANGE,
    ),
    "accepted at no time": ("accepted", {"message_id": "m"}, Problem.MISSING_ATTRIBUTE),
    "accepted under a file's key": ("accepted", {"message_id": "!a", "sent": 0}, Problem.UNKNOWN_VALUE),
    "dropped at no time": ("dropped", {"message_id": "m"}, Problem.MISSING_ATTRIBUTE),
    "dropped in the year 2100": ("dropped", {"message_id": "m", "at": LATEST + 1}, Problem.OUT_OF_RANGE),
    "dropped at a negative time": ("dropped", {"message_id": "m", "at": -1}, Problem.OUT_OF_RANGE),
    "dropped under a slot's key": ("dropped", {"message_id": "#a", "at": 0}, Problem.UNKNOWN_VALUE),
    "dropped without any id": ("dropped", {"at": 0}, Problem.MISSING_ATTRIBUTE),
    "dropped": ("dropped", {"source_message_id": "s", "at": 0}, None),
    "waiting without any id": ("waiting", {"message_id": None}, Problem.MISSING_ATTRIBUTE),
    "a dead letter without any id": ("dead-letters", {"message_id": None}, Problem.MISSING_ATTRIBUTE),
}


def carried_lines(source: str, lines: DataFrame, start: int | None = None, end: int = END) -> DataFrame:
    """Return the lines of a log, carried."""
    place = 1 + MODEL.sources.index(source)
    if source == "deliveries":
        return logs.carried_deliveries(lines, place, start, end, KNOWN)
    return logs.CARRIED_LINES[source](lines, place)


@pytest.mark.parametrize("source", sources.LINES)
def test_line_is_valid_or_has_one_problem(spark: SparkSession, tmp_path: Path, source: str) -> None:
    cases = {name: (line, problem) for name, (of, line, problem) in LINES.items() if of == source}
    for name, (line, _) in cases.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(line))

    made = carried_lines(source, sources.read_lines(spark, [str(tmp_path)], sources.LINES[source]), START).collect()

    found = rejected(made)
    assert found == {name: problem for name, (_, problem) in cases.items() if problem is not None}
    assert len(made) == len(cases)


def test_delivery_counts_only_inside_the_exports_window(spark: SparkSession, tmp_path: Path) -> None:
    """The window includes its begin and excludes its end; without a begin every earlier line counts."""
    lines = [{**DELIVERY, "message_id": f"{at}", "finished": at} for at in (START - 1, START, END - 1, END)]
    read_lines = read(spark, tmp_path, lines, sources.DELIVERIES)

    inside, before_end = (
        {int(row.key) for row in carried_lines("deliveries", read_lines, start).collect()} for start in (START, None)
    )

    assert inside == {START, END - 1}
    assert before_end == {START - 1, START, END - 1}


def _events(*lines: str) -> str:
    return json.dumps({"logGroup": "g", "logEvents": [{"id": "1", "message": line} for line in lines]})


PLAIN = json.dumps(DELIVERY)
ENVELOPES: dict[str, tuple[str, list[int]]] = {
    "a delivery": (PLAIN, [DELIVERY_PLACE]),
    "a list of deliveries": (f"[{PLAIN}, {PLAIN}]", [DELIVERY_PLACE] * 2),
    "a delivery, and more": (json.dumps({**DELIVERY, "more": {"message": "delivery"}}), [DELIVERY_PLACE]),
    "another line": (json.dumps({"message": "cold start", "of": {"message": "deliveries"}}), []),
    "CloudWatch's events": (_events(PLAIN, PLAIN), [REJECTED]),
    "a list of events": (f"[{_events(PLAIN)}]", [REJECTED]),
    "as text": (json.dumps({"timestamp": 1, "message": PLAIN}), [REJECTED]),
    "as text in text": (json.dumps({"message": json.dumps({"message": PLAIN})}), [REJECTED]),
    "as an object, without spaces": (f'{{"message":{PLAIN.replace(" ", "")}}}', [REJECTED]),
}


def test_delivery_in_an_envelope_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    """CloudWatch passes lines on in envelopes. Unnoticed they would count as other lines of the consumer: not at all."""
    for name, (line, _) in ENVELOPES.items():
        (tmp_path / f"{name}.json").write_text(line.replace('"message_id": "m"', f'"message_id": "{name}"') + "\n")

    def found(source: str) -> dict[str, list[int]]:
        made = carried_lines(source, sources.read_log(spark, [str(tmp_path)], source)).collect()
        return {name: [row.place for row in made if Path(unquote(row.key)).stem == name] for name in ENVELOPES}

    assert found("deliveries") == {name: expected for name, (_, expected) in ENVELOPES.items()}
    assert REJECTED not in {place for places in found("accepted").values() for place in places}


@pytest.mark.parametrize("source", sources.LINES)
def test_line_is_malformed_when_it_is_cut_off(spark: SparkSession, tmp_path: Path, source: str) -> None:
    """Whichever members come before the end. An archive's line without copies counts once, one without an id not at all."""
    (tmp_path / "lines.json").write_text(
        '{"message_id": "m", "sent": 5}\n{"sent": 5}\n{"message": "delivery", "message_i'
    )
    lines = sources.read_log(spark, [str(tmp_path / "lines.json")], source)
    made = carried_lines(source, lines, end=9).collect()
    assert [int(row.row) for row in made if row.place == REJECTED][-1] == Problem.NOT_JSON
    if source == "accepted":
        assert [json.loads(row.row) for row in made if row.key == "m"] == [{"sent": 5, "copies": 1}]
        assert len(made) == 2


def test_line_is_malformed_when_it_is_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    """A parser that replaces the invalid bytes could turn two ids into one. White space counts as nothing."""
    (tmp_path / "lines.json").write_bytes(b'{"message_id": "m\xff", "sent": 5}\n \t \n')

    made = carried_lines("accepted", sources.read_log(spark, [str(tmp_path / "lines.json")], "accepted")).collect()

    assert [(row.place, int(row.row)) for row in made] == [(REJECTED, Problem.NOT_JSON)]
