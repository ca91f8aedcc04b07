"""Input that is damaged, foreign or odd: a sentence or a finding, and never half an answer."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline import facts, sources
from pipeline.conclusion import Conclusion
from pipeline.errors import AuditRefused
from pipeline.layout import Full, Part, item_line, write_export
from pipeline.manifests import newest
from tests.pipeline.answers import audit_found
from tests.pipeline.histories import System, World, arn, write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Audited = Callable[..., Conclusion]


@pytest.fixture(scope="module")
def world() -> World:
    """A small correct world; tests that change it copy it."""
    return System(51, practices=2, slots_per_practice=8).run(25)


@pytest.fixture
def history(world: World, tmp_path: Path) -> Path:
    """Its history, to be damaged."""
    return write_history(world, tmp_path / "history", parts=1)


def manifest(history: Path, table: str, name: str) -> Path:
    """A manifest of a table's export."""
    (path,) = (history / table / "AWSDynamoDB").glob(f"*/{name}")
    return path


def data_file(history: Path, table: str) -> Path:
    """The one data file of a table's export, full or incremental."""
    (path,) = (history / table / "AWSDynamoDB").rglob("data/*.json.gz")
    return path


@pytest.mark.parametrize("name", sources.LINES)
def test_no_column_of_a_log_is_read_for_nothing(name: str, spark: SparkSession) -> None:
    """Without any one of the columns that are read the facts cannot be made."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructField, StructType

    def made(columns: list[StructField]) -> object:
        more = [StructField(column, sources.TEXT) for column in (sources.CORRUPT, sources.PATH)]
        lines = spark.createDataFrame([], StructType([*columns, *more]))
        return facts.delivery_facts(lines, None, 1) if name == "deliveries" else facts.LINE_FACTS[name](lines)

    every = list(sources.LINES[name])
    assert made(every)
    for column in every:
        with pytest.raises(AnalysisException, match=f"`{column.name}` cannot be resolved"):
            made([other for other in every if other is not column])


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Change a manifest and make its checksum right again: only the content is wrong."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(content)
    path.with_suffix(".md5").write_bytes(base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()))


def rewrite(history: Path, table: str, change: Callable[[str], str]) -> None:
    """Change a data file, and its checksum in the manifest: the change is part of what was exported."""
    path = data_file(history, table)
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()).decode()).encode(), mtime=0))
    checksum = base64.b64encode(hashlib.md5(path.read_bytes(), usedforsecurity=False).digest()).decode()
    edit(manifest(history, table, "manifest-files.json"), lambda line: line.update(md5Checksum=checksum))


def _remove(name: str) -> Callable[[Path], None]:
    return lambda history: manifest(history, "ledger", name).unlink()


def _truncate_manifest(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-summary.json")
    path.write_text(path.read_text()[:50])


def _not_json(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-summary.json")
    path.write_text("{")
    path.with_suffix(".md5").unlink()


def _other_time(history: Path) -> None:
    edit(
        manifest(history, "slots", "manifest-summary.json"),
        lambda summary: summary.update(exportTime="2026-11-01T00:00:00.000Z"),
    )


def _summary(**values: object) -> Callable[[Path], None]:
    def change(history: Path) -> None:
        edit(manifest(history, "ledger", "manifest-summary.json"), lambda summary: summary.update(values))

    return change


def _same_table(history: Path) -> None:
    edit(manifest(history, "slots", "manifest-summary.json"), lambda summary: summary.update(tableArn=arn("ledger")))


def _escape(history: Path) -> None:
    key = "AWSDynamoDB/../../../etc/passwd"
    edit(manifest(history, "ledger", "manifest-files.json"), lambda line: line.update(dataFileS3Key=key))


def _missing_data(history: Path) -> None:
    data_file(history, "ledger").unlink()


def _tampered_data(history: Path) -> None:
    path = data_file(history, "ledger")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"booked", b"loaned"), mtime=0))


def _truncated_data(history: Path) -> None:
    path = data_file(history, "ledger")
    path.write_bytes(path.read_bytes()[:-40])


def _fewer_lines(history: Path) -> None:
    rewrite(history, "slots", lambda text: text.partition("\n")[2])


def _wrong_table(history: Path) -> None:
    for folder in ("slots", "appointments"):
        shutil.move(history / folder, history / f"{folder}-moved")
    shutil.move(history / "slots-moved", history / "appointments")
    shutil.move(history / "appointments-moved", history / "slots")


def _no_history(history: Path) -> None:
    shutil.rmtree(history)


def _no_export(history: Path) -> None:
    shutil.rmtree(history / "slots" / "AWSDynamoDB")


def _context(**document: object) -> Callable[[Path], None]:
    def spoil(history: Path) -> None:
        (history / "context.json").write_text(json.dumps(document))

    return spoil


def _forgotten(before: object) -> Callable[[Path], None]:
    return _context(ledger_forgotten_before=before)


def _truncated_log(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-40])


def _log_is_no_gzip(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.write_bytes(gzip.decompress(path.read_bytes()))


def _log_is_gzipped(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.rename(path.with_suffix(""))


def _log_is_gzipped_twice(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.write_bytes(gzip.compress(path.read_bytes()))


def _log_has_a_colon(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.rename(path.with_name("2026-11-23T09:00.jsonl.gz"))


def _log_is_copied_still(history: Path) -> None:
    (history / "deliveries" / "2026").mkdir()
    (history / "deliveries" / "2026" / "more.jsonl._COPYING_").write_text("{}\n")


def _file_for_log(history: Path) -> None:
    log = history / "deliveries"
    (log / "deliveries.jsonl.gz").rename(history / "moved")
    log.rmdir()
    (history / "moved").rename(log)


def _folder_for_context(history: Path) -> None:
    (history / "context.json").unlink()
    (history / "context.json").mkdir()


def _folder_for_manifest(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-summary.json")
    path.unlink()
    path.mkdir()


def _a_file(history: Path) -> None:
    shutil.rmtree(history)
    history.write_text("history")


def _failed(history: Path, table: str) -> None:
    """What an export leaves that failed, or goes on: its folder, without a summary. The name sorts after all others."""
    home = history / table / "AWSDynamoDB" / "99999999999999-fa11ed00"
    home.mkdir()
    (home / "_started").touch()


def _failed_only(history: Path) -> None:
    shutil.rmtree(manifest(history, "slots", "manifest-summary.json").parent)
    _failed(history, "slots")


REFUSED = {
    "no folder": (_no_history, "There is no folder"),
    "no export": (_no_export, "slots holds no export"),
    "no summary": (_remove("manifest-summary.json"), "has no manifest-summary.json: the export is not finished"),
    "no whole export": (_failed_only, "has no manifest-summary.json: the export is not finished"),
    "no list of files": (
        _remove("manifest-files.json"),
        "has no manifest-files.json: not all of the export was copied",
    ),
    "truncated manifest": (_truncate_manifest, "does not match its checksum"),
    "manifest is no JSON": (_not_json, "is not JSON: it was cut short or changed"),
    "ION": (_summary(outputFormat="ION"), "export the table as DYNAMODB_JSON"),
    "count differs": (_summary(itemCount=7), "the summary counts 7 items and the list of files"),
    "count is no number": (_summary(itemCount="many"), "has no usable itemCount"),
    "no time": (_summary(exportTime=None), "has no usable exportTime"),
    "no old images": (
        _summary(exportType="INCREMENTAL_EXPORT", outputView="NEW_IMAGE"),
        "export with the view NEW_AND_OLD_IMAGES",
    ),
    "mixed times": (_other_time, "The exports are not of the same time"),
    "one table twice": (_same_table, "are of one table, Oneslot-test-ledger"),
    "wrong table": (_wrong_table, "is of another table: its items are not what slots holds"),
    "path outside": (_escape, "which is not inside AWSDynamoDB"),
    "data file missing": (_missing_data, "which is not there: not all of the export was copied"),
    "data file tampered with": (_tampered_data, "is not the file that its manifest lists"),
    "data file truncated": (_truncated_data, "is not the file that its manifest lists"),
    "fewer lines than counted": (_fewer_lines, r"should hold 16 items by its manifest, and 15 were read"),
    "log truncated": (_truncated_log, "A gzipped file ends in the middle: it was cut short"),
    "log is no gzip": (_log_is_no_gzip, "is not gzip, or is damaged"),
    "log is gzip and is not called so": (
        _log_is_gzipped,
        "jsonl is gzipped: only what ends in .gz is unpacked, and once",
    ),
    "log is gzipped twice": (_log_is_gzipped_twice, "gz is gzipped: only what ends in .gz is unpacked, and once"),
    "a colon in a log's name": (_log_has_a_colon, "Spark reads no file whose name has a colon: rename it"),
    "a copy that has not ended": (_log_is_copied_still, "more.jsonl is still being copied, or its copy failed"),
    "a file for a log": (_file_for_log, "deliveries is a file, and should be a folder"),
    "a file for a folder": (_a_file, "slots holds no export|ledger holds no export"),
    "a folder for the context": (_folder_for_context, "context.json is a folder, and should be a file"),
    "a folder for a manifest": (_folder_for_manifest, "manifest-summary.json is a folder, and should be a file"),
    "a retention in words": (_context(ledger_retention_seconds="long"), "must be a whole number of seconds, 1 to"),
    "no retention": (_context(ledger_retention_seconds=0), "must be a whole number of seconds, 1 to"),
    "a truth for a retention": (_context(ledger_retention_seconds=True), "must be a whole number of seconds, 1 to"),
    "a retention without end": (
        _context(ledger_retention_seconds=10**10 + 1),
        "must be a whole number of seconds, 1 to",
    ),
    "a misspelt name": (_context(ledger_retention_second=5), "'ledger_retention_second' is no name that is known"),
    "thirty days": (_context(ledger_retention="30 days"), "ledger_retention can be 'forever' only"),
    "no moment": (_forgotten("yesterday"), "ledger_forgotten_before must be a moment such as 2026"),
    "a moment without a zone": (
        _forgotten("2020-01-01T00:00:00"),
        "ledger_forgotten_before must be a moment such as 2026",
    ),
    "a number for a moment": (_forgotten(1_700_000_000), "ledger_forgotten_before must be a moment such as 2026"),
    "a moment to come": (_forgotten("2100-01-01T00:00:00Z"), "no row at all would be missed"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_with_a_sentence(audited: Audited, history: Path, tmp_path: Path, kind: str) -> None:
    """What cannot be audited as if it were whole is refused, and nothing is left that could be taken for an answer."""
    damage, expected = REFUSED[kind]
    damage(history)
    with pytest.raises(AuditRefused, match=expected) as refusal:
        audited(history)
    assert "\n" not in str(refusal.value)
    assert "Traceback" not in str(refusal.value)
    assert not (tmp_path / "audit").exists()
    assert not list(tmp_path.glob(".*incomplete*"))


@pytest.mark.parametrize("tables", [("ledger",), ("ledger", "slots", "appointments")])
def test_an_export_that_failed_beside_a_whole_one_is_left_out(
    audited: Audited, history: Path, world: World, tmp_path: Path, tables: tuple[str, ...]
) -> None:
    """A night that is started again exports into the same folders; what failed there before says nothing."""
    for table in tables:
        _failed(history, table)
    conclusion = audited(history)
    assert conclusion.sound, conclusion.sentence
    told = [note.split()[2] for note in conclusion.document["notes"] if note.endswith("are left out: 1.")]
    assert told == list(tables)
    assert audit_found(tmp_path / "audit") == set()
    assert conclusion.document["items"] == sum(len(rows) for rows in world.tables().values())


def test_the_newest_export_is_the_one_of_the_latest_moment() -> None:
    """However its time is written; of one moment the one that was started last."""
    changes = {"exportType": "INCREMENTAL_EXPORT", "exportToTime": "2026-11-24T01:00:00+01:00"}
    exports = [("01", {"exportTime": "2026-11-24T00:00:00.500Z"}), ("02", {"exportTime": "2026-11-24T00:00:00Z"})]
    assert newest([*exports, ("03", changes)])[0] == "01"
    assert newest([exports[1], ("03", changes)])[0] == "03"


def test_what_has_no_checksum_is_not_compared_and_still_counted(audited: Audited, history: Path) -> None:
    """Beside files that have one: a manifest need not name it, as a copy need not have the manifest's own."""
    _tampered_data(history)
    path = manifest(history, "ledger", "manifest-files.json")
    edit(path, lambda line: line.pop("md5Checksum"))
    path.with_suffix(".md5").unlink()
    assert audited(history).sound is False  # what was tampered with is read, and found
    _fewer_lines(history)
    edit(manifest(history, "slots", "manifest-files.json"), lambda line: line.pop("md5Checksum"))
    with pytest.raises(AuditRefused, match="should hold 16 items by its manifest, and 15 were read"):
        audited(history, "again")


def test_truncation_is_a_sentence_without_checksums_too(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    """Reading stops at the end of a gzipped file that is cut short."""
    from pipeline.job import AuditSettings, audit

    _truncated_data(history)
    settings = AuditSettings(str(history), str(tmp_path / "audit"), partitions=2, checksums=False, tables=False)
    with pytest.raises(AuditRefused, match="A gzipped file ends in the middle: it was cut short"):
        audit(spark, settings)


def test_malformed_lines_are_counted_and_located(audited: Audited, history: Path, world: World, tmp_path: Path) -> None:
    """Each with its file, line and problem; the line itself, which may be personal, is kept nowhere."""
    log = history / "deliveries" / "deliveries.jsonl.gz"
    lines = gzip.decompress(log.read_bytes()).decode().splitlines()
    lines.insert(3, "")
    lines.insert(4, '{"message": "delivery", "message_id": "9990000018')
    lines.insert(
        9, json.dumps({"message": "delivery", "message_id": "x", "outcome": "eaten", "sent": 1, "finished": 2})
    )
    lines.insert(10, json.dumps({"message": "cold start", "level": "INFO"}))
    lines.append(json.dumps({"message": "delivery", "message_id": "x", "outcome": "busy", "sent": -1, "finished": 2}))
    log.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    first = next(iter(world.ledger))
    rewrite(history, "ledger", lambda text: text.replace('"consumption_count":{"N":"1"}', '"x":{"N":"1"}', 1))
    rewrite(
        history,
        "appointments",
        lambda text: text.replace('"created":{"N":"1795', '"created":{"N":"99999999999999999999', 1),
    )
    conclusion = audited(history, tables=True)
    rejects = [json.loads(line) for line in (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines()]
    found = {(Path(reject["file"]).parent.name, reject["line"], reject["problem"]) for reject in rejects}
    assert {item for item in found if item[0] == "deliveries"} == {
        ("deliveries", 5, "not_json"),
        ("deliveries", 10, "unknown_value"),
        ("deliveries", len(lines), "out_of_range"),
    }
    assert {item[2] for item in found if item[0] == "data"} == {"missing_attribute", "out_of_range"}
    assert not conclusion.sound
    assert conclusion.document["rejects"]["lines"] == 5
    assert "5 lines could not be read, more than the limit" in conclusion.sentence
    everything = b"".join(path.read_bytes() for path in (tmp_path / "audit").rglob("*") if path.is_file())
    assert b"9990000018" not in everything
    assert first


def test_duplicate_items_in_an_export_are_a_finding(
    audited: Audited, history: Path, world: World, tmp_path: Path
) -> None:
    """A table has one item for a key; an export with two is no picture of a table."""
    items = [item_line(item) for item in world.ledger.values()]
    shutil.rmtree(history / "ledger")
    part = Part(b"".join([*items, items[0]]), len(items) + 1)
    write_export(history / "ledger", arn("ledger"), Full(world.now), [part])
    conclusion = audited(history)
    assert ("S1", next(iter(world.ledger))) in audit_found(tmp_path / "audit")
    assert conclusion.document["verdicts"]["duplicate_effect"] == 1


def test_an_unreadable_result_is_a_finding(audited: Audited, world: World, tmp_path: Path) -> None:
    """COMPLETE with a result that is no JSON: its outcome cannot be shown to exist."""
    spoilt = world.copy()
    row = next(row for row in spoilt.ledger.values() if row["status"] == "COMPLETE")
    row["result"] = '{"outcome": "boo'
    audited(spoilt)
    assert ("I5", row["message_id"]) in audit_found(tmp_path / "audit")


def test_unknown_attributes_are_named(audited: Audited, world: World) -> None:
    """A newer version may write more; the audit says what it has not looked at."""
    newer = world.copy()
    for slot in newer.slots.values():
        slot["room"] = "3"
    conclusion = audited(newer)
    assert conclusion.sound
    assert any(
        "Items of slots carry attributes that the audit does not know (room)" in n for n in conclusion.document["notes"]
    )


def test_what_is_not_known_is_said(audited: Audited, history: Path) -> None:
    """Without logs and queues the tables alone are judged, and the notes say what that leaves open."""
    for name in ("deliveries", "accepted", "dead-letters", "dropped", "waiting"):
        shutil.rmtree(history / name)
    conclusion = audited(history)
    assert conclusion.sound
    assert len(conclusion.document["notes"]) == 5


def test_empty_tables_are_refused_or_noted(audited: Audited, world: World, tmp_path: Path) -> None:
    """Nothing at all cannot be audited; one empty table can, and is noted."""
    with pytest.raises(AuditRefused, match="holds no rows at all"):
        audited(World(), "nothing")
    conclusion = audited(World(slots={}, now=world.now, accepted=world.accepted[:1]), "lost")
    assert conclusion.document["verdicts"]["lost"] == 1
    assert "The export of slots is empty." in conclusion.document["notes"]


@pytest.mark.parametrize(
    ("spoil", "lost"),
    [
        (lambda text: text.replace("}\n{", "}{", 1), 1),
        (lambda text: text.replace("}\n{", "}, {", 1), 1),
        (lambda text: text.replace("}\n", "} and more\n", 1), 0),
        (lambda text: text.replace("}\n{", "}   \r\n\t\r\n{", 1), None),
        (lambda text: text.replace("}\n{", ', "more": {"of": "}{"}}\n{', 1), None),
        (lambda text: f'{{"message": {text.replace("}", "}}", 1)}', 1),
    ],
    ids=["no delimiter", "commas", "more text", "spaces", "an object inside", "an envelope"],
)
def test_a_line_of_a_log_of_which_spark_reads_a_part_is_malformed(
    audited: Audited, history: Path, tmp_path: Path, spoil: Callable[[str], str], lost: int | None
) -> None:
    """Spark reads the first object and says nothing of what follows it, or is inside of it under another name."""
    log = history / "deliveries" / "deliveries.jsonl.gz"
    written = gzip.decompress(log.read_bytes()).decode()
    log.write_bytes(gzip.compress(spoil(written).encode(), mtime=0))
    conclusion = audited(history)
    rejects = [json.loads(line) for line in (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["problem"]) for reject in rejects] == ([] if lost is None else [(1, "not_json")])
    assert conclusion.document["sums"]["deliveries"] == written.count("\n") - (lost or 0)
    assert conclusion.document["sums"]["rejected"] == len(rejects)


def test_the_folders_of_a_log_may_hold_folders(audited: Audited, history: Path, world: World, tmp_path: Path) -> None:
    """Firehose makes one for each hour, if it is not told otherwise: their lines count, and malformed ones are found."""
    home = history / "deliveries" / "2026" / "11"
    home.mkdir(parents=True)
    (history / "deliveries" / "deliveries.jsonl.gz").rename(home / "deliveries.jsonl.gz")
    (home / "more.jsonl").write_text("{\n")
    (history / "deliveries" / "_temporary").mkdir()
    (history / "deliveries" / "_temporary" / "half.jsonl").write_text("{\n")
    conclusion = audited(history)
    assert conclusion.document["sums"]["deliveries"] == len(world.deliveries)
    (reject,) = map(json.loads, (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines())
    assert (Path(reject["file"]).name, reject["line"]) == ("more.jsonl", 1)


def test_a_line_counts_once_however_its_folder_is_named(
    spark: SparkSession, history: Path, world: World, tmp_path: Path
) -> None:
    """By its path, as a URL, or round about: the log beside the history is the one in it."""
    from pipeline.job import AuditSettings, audit

    names = tuple(f"{way}/deliveries" for way in (history, f"file://{history}", f"{history}/../{history.name}"))
    settings = AuditSettings(str(history), str(tmp_path / "audit"), deliveries=names, partitions=2, tables=False)
    assert audit(spark, settings).document["sums"]["deliveries"] == len(world.deliveries)


@pytest.mark.parametrize("content", [b"", b'{"message": "cold start"}\n'], ids=["empty", "of other lines"])
def test_a_log_without_deliveries_is_told(audited: Audited, history: Path, content: bytes) -> None:
    """The rows say that there were some: what the log was to show is not judged, as if there were none."""
    (history / "deliveries" / "deliveries.jsonl.gz").write_bytes(gzip.compress(content))
    notes = audited(history).document["notes"]
    assert [note.partition(":")[0] for note in notes] == ["The delivery log tells of no delivery"]
