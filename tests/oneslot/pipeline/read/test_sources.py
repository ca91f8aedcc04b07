"""Damaged, foreign or unusual input: a sentence or a finding, never half an answer."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.judge.conclusion import Conclusion
from oneslot.pipeline.layout import Full, Part, item_line, write_export
from oneslot.pipeline.read import logs, sources
from oneslot.pipeline.read.manifests import newest
from tests.kits.histories import START, System, World, arn, write_history
from tests.oneslot.pipeline.audit_answers import audit_found
from tests.oneslot.pipeline.damage import (
    REFUSED,
    REFUSED_BY_SPARK,
    edit,
    failed,
    fewer_lines,
    manifest,
    rewrite,
    tampered_data,
    truncated_data,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Audited = Callable[..., Conclusion]


@pytest.fixture(scope="module")
def world() -> World:
    """A small correct world. Tests that change it copy it first."""
    return System(51, practices=2, slots_per_practice=8).run(25)


@pytest.fixture
def history(world: World, tmp_path: Path) -> Path:
    """The history of that world, to be damaged."""
    return write_history(world, tmp_path / "history", parts=1)


@pytest.mark.parametrize("name", sources.LINES)
def test_facts_need_every_column_of_a_log(name: str, spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructField, StructType

    def made(columns: list[StructField]) -> object:
        more = [StructField(column, sources.TEXT) for column in (sources.CORRUPT, sources.PATH)]
        lines = spark.createDataFrame([], StructType([*columns, *more]))
        return (
            logs.delivery_facts(lines, None, 1, logs.delivered({}))
            if name == "deliveries"
            else logs.LINE_FACTS[name](lines)
        )

    every = list(sources.LINES[name])
    assert made(every)
    for column in every:
        with pytest.raises(AnalysisException, match=f"`{column.name}` cannot be resolved"):
            made([other for other in every if other is not column])


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in REFUSED_BY_SPARK else ()) for kind in REFUSED]
)
def test_audit_refuses_a_damaged_history(audited: Audited, history: Path, tmp_path: Path, kind: str) -> None:
    """The sentence has one line, and no folder is left that could pass for an answer."""
    damage, expected = REFUSED[kind]
    damage(history)
    with pytest.raises(AuditRefused, match=expected) as refusal:
        audited(history)
    assert "\n" not in str(refusal.value)
    assert "Traceback" not in str(refusal.value)
    assert not (tmp_path / "audit").exists()


@pytest.mark.slow
def test_failed_export_is_left_out_beside_a_whole_one(
    audited: Audited, history: Path, world: World, tmp_path: Path
) -> None:
    """A night that is started again exports into the same folders."""
    tables = ["ledger", "appointments"]
    for table in tables:
        failed(history, table)
    conclusion = audited(history)
    assert conclusion.sound, conclusion.sentence
    told = [note.split()[2] for note in conclusion.document["notes"] if note.endswith("are left out: 1.")]
    assert told == tables
    assert audit_found(tmp_path / "audit") == set()
    assert conclusion.document["items"] == sum(len(rows) for rows in world.tables().values())


def test_newest_export_has_the_latest_time() -> None:
    """In whatever notation; among equal times the one that started last."""
    changes = {"exportType": "INCREMENTAL_EXPORT", "exportToTime": "2026-11-24T01:00:00+01:00"}
    exports = [("01", {"exportTime": "2026-11-24T00:00:00.500Z"}), ("02", {"exportTime": "2026-11-24T00:00:00Z"})]
    assert newest([*exports, ("03", changes)])[0] == "01"
    assert newest([exports[1], ("03", changes)])[0] == "03"


@pytest.mark.slow
def test_file_without_checksum_is_still_counted(audited: Audited, history: Path) -> None:
    """A manifest may lack checksums."""
    tampered_data(history)
    path = manifest(history, "ledger", "manifest-files.json")
    edit(path, lambda line: line.pop("md5Checksum"))
    path.with_suffix(".md5").unlink()
    assert audited(history).sound is False  # the changed item is read and found
    fewer_lines(history)
    edit(manifest(history, "slots", "manifest-files.json"), lambda line: line.pop("md5Checksum"))
    with pytest.raises(AuditRefused, match="should hold 16 items by its manifest, and 15 were read"):
        audited(history, "again")


@pytest.mark.slow
def test_manifest_may_have_a_prefix_and_other_line_ends(audited: Audited, history: Path) -> None:
    """As older exports and copies have them."""
    edit(manifest(history, "ledger", "manifest-summary.json"), lambda summary: summary.pop("exportType"))
    path = manifest(history, "ledger", "manifest-files.json")
    edit(path, lambda line: line.update(dataFileS3Key=f"nightly/{line['dataFileS3Key']}"))
    path.with_suffix(".md5").write_text(f"{path.with_suffix('.md5').read_text()}\n")
    path = manifest(history, "slots", "manifest-files.json")
    path.with_suffix(".md5").unlink()
    path.write_text(f"{path.read_text()}\n")
    assert audited(history).sound


@pytest.mark.slow
def test_truncation_is_refused_without_checksums(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    """Reading stops at the end of the truncated gzip file."""
    from oneslot.pipeline.job import audit
    from oneslot.pipeline.settings import AuditSettings

    truncated_data(history)
    settings = AuditSettings(str(history), str(tmp_path / "audit"), partitions=2, checksums=False, tables=False)
    with pytest.raises(AuditRefused, match="A gzipped file ends in the middle: it was cut short"):
        audit(spark, settings)


@pytest.mark.slow
def test_malformed_lines_are_counted_and_located(audited: Audited, history: Path, tmp_path: Path) -> None:
    """By file, line and problem. The text may be personal and is written nowhere."""
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
    replacement = ('"consumption_count":{"N":"1"}', '"x":{"N":"1"}', 1)
    rewrite(history, "ledger", lambda text: f"\n{text.replace(*replacement)}")
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
    assert conclusion.document["rejects"]["lines"] == len(rejects) == 5
    assert "5 lines could not be read, more than the limit" in conclusion.sentence
    everything = b"".join(path.read_bytes() for path in (tmp_path / "audit").rglob("*") if path.is_file())
    assert b"9990000018" not in everything


@pytest.mark.slow
def test_duplicate_item_in_an_export_is_a_finding(
    audited: Audited, history: Path, world: World, tmp_path: Path
) -> None:
    """A table has one item for a key."""
    items = [item_line(item) for item in world.ledger.values()]
    shutil.rmtree(history / "ledger")
    part = Part(b"".join([*items, items[0]]), len(items) + 1)
    write_export(history / "ledger", arn("ledger"), Full(world.now), [part])
    conclusion = audited(history)
    assert ("S1", next(iter(world.ledger))) in audit_found(tmp_path / "audit")
    assert conclusion.document["verdicts"]["duplicate_effect"] == 1


@pytest.mark.slow
def test_invalid_result_is_a_finding(audited: Audited, world: World, tmp_path: Path) -> None:
    """A COMPLETE row with a result that is not JSON shows no outcome."""
    changed = world.copy()
    row = next(row for row in changed.ledger.values() if row["status"] == "COMPLETE")
    row["result"] = '{"outcome": "boo'
    audited(changed)
    assert ("I5", row["message_id"]) in audit_found(tmp_path / "audit")


@pytest.mark.slow
def test_unknown_attributes_are_noted(audited: Audited, world: World) -> None:
    """A newer version may write more attributes."""
    newer = world.copy()
    for slot in newer.slots.values():
        slot["room"] = "3"
    conclusion = audited(newer)
    assert conclusion.sound
    assert any(
        "Items of slots carry attributes that the audit does not know (room)" in n for n in conclusion.document["notes"]
    )


@pytest.mark.slow
def test_missing_sources_are_noted(audited: Audited, history: Path) -> None:
    """The tables alone are judged, and the notes say what stays open."""
    for name in ("deliveries", "accepted", "dead-letters", "dropped", "waiting"):
        shutil.rmtree(history / name)
    conclusion = audited(history)
    assert conclusion.sound
    assert len(conclusion.document["notes"]) == 5


@pytest.mark.slow
def test_empty_tables_are_refused_or_noted(audited: Audited, world: World, tmp_path: Path) -> None:
    """An empty history cannot be audited; one empty table can, with a note."""
    with pytest.raises(AuditRefused, match="contains no rows"):
        audited(World(), "nothing")
    conclusion = audited(World(slots={}, now=world.now, accepted=world.accepted[:1]), "lost")
    assert conclusion.document["verdicts"]["lost"] == 1
    assert "The export of slots is empty." in conclusion.document["notes"]


@pytest.mark.slow
def test_log_line_is_malformed_when_spark_reads_a_part(audited: Audited, history: Path, tmp_path: Path) -> None:
    """Spark reads the first object and ignores text after it, and members that it does not know."""
    log = history / "deliveries" / "deliveries.jsonl.gz"
    written = gzip.decompress(log.read_bytes()).decode()
    log.unlink()
    files = {
        "commas": written.replace("}\n{", "}, {", 1),
        "more text": written.replace("}\n", "} and more\n", 1),
        "spaces": written.replace("}\n{", "}   \r\n\t\r\n{", 1),
        "an object inside": written.replace("}\n{", ', "more": {"of": "}{"}}\n{', 1),
        "an envelope": f'{{"message": {written.replace("}", "}}", 1)}',
    }
    for name, text in files.items():
        log.with_name(f"{name}.jsonl").write_bytes(text.encode())

    sums = audited(history).document["sums"]

    rejects = [json.loads(line) for line in (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines()]
    assert sorted((Path(reject["file"]).stem, reject["line"], reject["problem"]) for reject in rejects) == [
        ("an envelope", 1, "not_json"),
        ("commas", 1, "not_json"),
        ("more text", 1, "not_json"),
    ]
    # More text hides no delivery. Joined lines hide the second one, and an envelope hides its own.
    assert (sums["deliveries"], sums["rejected"]) == (len(files) * written.count("\n") - 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("continued", [False, True])
def test_joined_lines_and_control_messages_are_read(
    audited: Audited, world: World, tmp_path: Path, continued: bool
) -> None:
    """As CloudWatch Logs and Firehose may write them. Braces inside a text join nothing."""
    if continued:
        audited(World(slots=world.slots, now=START), "before")
    folder = write_history(
        world, tmp_path / "history", since=World(slots=world.slots, now=START) if continued else None
    )
    log = folder / "deliveries" / "deliveries.jsonl.gz"
    first, *lines = gzip.decompress(log.read_bytes()).decode().splitlines()
    lines[3] = lines[3][:-1] + ', "more": "}{"}'
    check = f"{sources.CONTROL}: Checking health of destination Firehose."
    written = f"{check}\n{first}{check}{''.join(lines[:6])}\n{check}{''.join(lines[6:])}{first[:-9]}\n"
    log.write_bytes(gzip.compress(written.encode(), mtime=0))

    conclusion = audited(folder, previous="before" if continued else None)

    assert conclusion.document["sums"]["deliveries"] == len(world.deliveries)
    (reject,) = map(json.loads, (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines())
    assert (reject["line"], reject["problem"]) == (3, "not_json")
    expected = "CloudWatch Logs tested the delivery log's subscription: 3 control messages passed over."
    assert expected in conclusion.document["notes"]


@pytest.mark.slow
def test_log_may_have_folders_in_folders(audited: Audited, history: Path, world: World, tmp_path: Path) -> None:
    """Firehose makes one for each hour by default."""
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


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b'{"message": "cold start"}\n'], ids=["empty", "of other lines"])
def test_log_without_deliveries_is_noted(audited: Audited, history: Path, content: bytes) -> None:
    """The ledger's rows show that there were deliveries."""
    (history / "deliveries" / "deliveries.jsonl.gz").write_bytes(gzip.compress(content))
    notes = audited(history).document["notes"]
    assert [note.partition(":")[0] for note in notes] == ["The delivery log contains no delivery"]
