"""Histories of many files: no call to Java and no Spark job for each of them, and checks without a second reading."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import py4j.clientserver
import pytest
from py4j.protocol import MEMORY_COMMAND_NAME

from demo.declared import CONSUMER
from oneslot.audit.conclusion import Conclusion
from oneslot.audit.errors import AuditRefused
from oneslot.audit.job import audit
from oneslot.audit.model import model_of
from oneslot.audit.read.checksums import compare_checksums
from oneslot.audit.read.history import find_history
from oneslot.audit.settings import AuditSettings
from oneslot.audit.spark.storage import Listed, Storage, parse_listing
from tests.kits.histories import System, write_history
from tests.oneslot.audit.damage import data_file, manifest, tampered_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = model_of(CONSUMER)
pytestmark = pytest.mark.spark


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every call to Java, except those that release what Python's garbage collector found."""
    made: list[str] = []
    send = py4j.clientserver.JavaClient.send_command

    def recorded(self: Any, command: str, *others: Any, **named: Any) -> Any:
        made.extend([command] if not command.startswith(MEMORY_COMMAND_NAME) else [])
        return send(self, command, *others, **named)

    monkeypatch.setattr(py4j.clientserver.JavaClient, "send_command", recorded)
    return made


def jobs(spark: SparkSession) -> int:
    """Return the number of jobs since the session's start."""
    context: Any = spark._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().jobsList(None).size())


def queries(spark: SparkSession) -> int:
    """Return the number of Spark's SQL executions since the session's start."""
    session: Any = spark._jsparkSession
    return int(session.sharedState().statusStore().executionsCount())


def test_calls_to_java_do_not_grow_with_files(spark: SparkSession, tmp_path: Path, calls: list[str]) -> None:
    world = System(92, practices=4, slots_per_practice=20).run(400)
    needed = []
    for name, parts in (("first", 2), ("few", 2), ("many", 200)):  # the first also looks up classes
        folder = write_history(world, tmp_path / name, parts=parts)
        before, started = len(calls), jobs(spark)
        storage = Storage(spark)
        history = find_history(storage, str(folder), None, (), MODEL)
        compare_checksums(storage, history)
        assert len(history.pieces()) >= parts
        needed.append(len(calls) - before)
        assert jobs(spark) == started
    assert needed[2] == needed[1]


class Bucket(Storage):
    """A store with ETags, as S3 has them. `read` are the files whose content was asked for."""

    etags: dict[str, str]
    read: list[str]

    def listing(self, folder: str) -> list[Listed]:
        return [replace(entry, etag=self.etags.get(entry.name)) for entry in super().listing(folder)]

    def on_this_machine(self, folder: str) -> Path | None:
        return None

    def md5(self, path: str) -> str:
        self.read.append(path)
        return super().md5(path)


def bucket(spark: SparkSession, history: Path) -> Bucket:
    """Return the store of a history, with the ETags in its manifests."""
    made = Bucket(spark)
    lines = [line for path in history.rglob("manifest-files.json") for line in path.read_text().splitlines()]
    etags = {Path(entry["dataFileS3Key"]).name: entry["etag"] for entry in map(json.loads, lines)}
    object.__setattr__(made, "etags", etags)
    object.__setattr__(made, "read", [])
    return made


def test_no_file_is_read_when_etags_agree(spark: SparkSession, tmp_path: Path) -> None:
    history = write_history(System(93, practices=1).run(10), tmp_path / "history")
    store = bucket(spark, history)

    compare_checksums(store, find_history(store, str(history), None, (), MODEL))

    assert store.read == []


def test_changed_file_is_refused_when_its_etag_differs(spark: SparkSession, tmp_path: Path) -> None:
    history = write_history(System(93, practices=1).run(10), tmp_path / "history", parts=1)
    store = bucket(spark, history)
    tampered_data(history)
    changed = data_file(history, "ledger")
    store.etags[changed.name] = "another-1"

    with pytest.raises(AuditRefused, match=f"{changed.name} does not match the MD5 in its manifest"):
        compare_checksums(store, find_history(store, str(history), None, (), MODEL))
    assert [Path(path).name for path in store.read] == [changed.name]


def test_manifest_checksum_may_be_called_checksum(spark: SparkSession, tmp_path: Path) -> None:
    history = write_history(System(93, practices=1).run(5), tmp_path / "history")
    for path in [*history.rglob("manifest-*.md5")]:
        path.rename(path.with_suffix(".checksum"))
    assert find_history(Storage(spark), str(history), None, (), MODEL).exports["ledger"].items
    manifest(history, "ledger", "manifest-files.checksum").write_text("AAAA")
    with pytest.raises(AuditRefused, match=r"manifest-files\.json does not match its checksum"):
        find_history(Storage(spark), str(history), None, (), MODEL)


def test_listing_is_read_from_the_text_of_java() -> None:
    """As Hadoop 3.4 prints files on disk and in S3."""
    rest = "modification_time=1; access_time=0; owner=; group=; permission=rw-rw-rw-; isSymlink=false; hasAcl=false"
    text = (
        f"[DeprecatedRawLocalFileStatus{{path=file:/a/b, [c].gz; isDirectory=false; length=12; replication=1; {rest}}}, "
        f"S3AFileStatus{{path=s3a://b/data; isDirectory=true; {rest}}} isEmptyDirectory=FALSE eTag=null versionId=null, "
        f"S3AFileStatus{{path=s3a://b/x.gz; isDirectory=false; length=3; replication=1; {rest}}} isEmptyDirectory=FALSE "
        "eTag=80ab-1 versionId=null, "
        f"S3ALocatedFileStatus{{path=s3a://b/y.gz; isDirectory=false; length=4; replication=1; {rest}}}"
        "[eTag='90cd-2', versionId='']]"
    )
    assert parse_listing(text) == [
        Listed("b, [c].gz", False, 12, None),
        Listed("data", True, 0, None),
        Listed("x.gz", False, 3, "80ab-1"),
        Listed("y.gz", False, 4, "90cd-2"),
    ]
    assert parse_listing("[]") == []


@pytest.mark.slow
def test_audit_with_rejects_in_many_files_takes_one_job(
    spark: SparkSession, audited: Callable[..., Conclusion], tmp_path: Path
) -> None:
    history = write_history(System(94, practices=1).run(10), tmp_path / "history")
    log, broken = history / "deliveries", b'\n{"message": "delivery"\n'
    for number in range(20):
        (log / f"bad {number:02d}.jsonl").write_bytes(broken * 2)
        (log / f"bad-{number:02d}.jsonl.gz").write_bytes(gzip.compress(b'{"message": "other"}\n' + broken, mtime=0))
    started = jobs(spark)

    audited(history)

    needed = jobs(spark) - started
    rejects = [json.loads(line) for line in (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines()]
    found = {(Path(reject["file"]).name, reject["line"]) for reject in rejects}
    plain = {(f"bad {number:02d}.jsonl", line) for number in range(20) for line in (2, 4)}
    assert found == plain | {(f"bad-{number:02d}.jsonl.gz", 3) for number in range(20)}
    assert all(reject["problem"] == "not_json" for reject in rejects)
    assert needed == 1


@pytest.mark.slow
def test_audit_with_tables_and_report_takes_one_job(spark: SparkSession, tmp_path: Path) -> None:
    """One reads, carries and judges. It took 81, and 7 when tables and report had queries of their own."""
    history = write_history(System(95, practices=2).run(60), tmp_path / "history")
    settings = AuditSettings(str(history), str(tmp_path / "audit"))
    started, asked = jobs(spark), queries(spark)
    document = audit(spark, settings).document
    assert (jobs(spark) - started, queries(spark) - asked) == (1, 1)
    assert document["doubts"] == {"doubted": {}}  # the quick reader and the quick look left nothing to the slow ways
