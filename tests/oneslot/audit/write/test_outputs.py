"""The output of an audit: equal bytes for equal input, never half a folder, and the repair lists."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oneslot.audit import files, job
from oneslot.audit.conclusion import Conclusion
from oneslot.audit.errors import AuditRefused
from oneslot.audit.settings import AuditSettings
from oneslot.audit.write import finished
from oneslot.audit.write.finished import open_audit
from tests.kits.histories import MINUTE, System, write_history
from tests.oneslot.audit.conftest import Tabled
from tests.oneslot.audit.corruptions import Picker, request_lost, request_stuck, row_deleted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Audited = Callable[..., Conclusion]
RUN = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\.zstd)")


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, without the id of the run in a file's name."""
    return {
        RUN.sub("", path.relative_to(folder).as_posix()): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != finished.FILES
    }


@contextmanager
def dying_at(stage: str, monkeypatch: pytest.MonkeyPatch, *, killed: bool = False) -> Iterator[None]:
    """Interrupt every audit at a stage. A killed one removes nothing afterwards."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the caller runs the audit

        def die(*_: object) -> None:
            if killed:
                patch.setattr(files, "remove", lambda *_: None)
            raise KeyboardInterrupt

        patch.setattr(job, stage, die)
        yield


STAGES = ("write_verdicts", "conclude")
"""The first stage that writes, and the last that can fail after all others wrote."""


@pytest.mark.slow
def test_interrupt_leaves_no_output(audited: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = write_history(System(62, practices=1).run(10), tmp_path / "history")
    for stage in STAGES:
        with dying_at(stage, monkeypatch):
            audited(history)
        assert not (tmp_path / "audit").exists(), stage


@pytest.mark.slow
def test_output_is_equal_bytes_when_killed_runs_preceded(
    spark: SparkSession,
    audited: Audited,
    tabled: Tabled,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No reader takes what a killed run left for an audit. The next run replaces it."""
    history, left = tabled.folder / "history", tmp_path / "audit"
    for stage in STAGES:
        with dying_at(stage, monkeypatch, killed=True):
            audited(history)
        assert list(left.glob("verdicts/*.parquet")) or stage == "write_verdicts"
        with pytest.raises(AuditRefused, match=r"has no audit\.json: it is not a finished audit"):
            open_audit(str(left))

    audited(history, tables=True)

    assert digests(left) == digests(tabled.folder / "audit")
    assert "verdicts/part-00001.zstd.parquet" in digests(left)


@pytest.mark.slow
def test_audit_is_refused_when_it_was_copied_in_part(small_audit: Path, tmp_path: Path) -> None:
    shutil.copytree(small_audit, tmp_path / "audit")
    assert open_audit(str(tmp_path / "audit")).layers
    part, *_ = (tmp_path / "audit" / "verdicts").glob("*.parquet")
    for damaged, end in ((part, -1), (part, None), (tmp_path / "audit" / finished.FILES, -3)):
        content = damaged.read_bytes()
        damaged.write_bytes(content[:end]) if end else damaged.unlink()
        with pytest.raises(AuditRefused, match="does not hold the files that its audit wrote"):
            open_audit(str(tmp_path / "audit"))
        damaged.write_bytes(content)
    for part in (tmp_path / "audit" / "verdicts").glob("*.parquet"):
        part.unlink()
    with pytest.raises(AuditRefused, match="which does not exist"):
        open_audit(str(tmp_path / "audit"))


def test_folder_that_no_audit_began_is_never_removed(audited: Audited, tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "notes.txt").write_text("mine")
    with pytest.raises(AuditRefused, match="already exists and is not a finished audit"):
        audited(System(63, practices=1).run(3))
    assert (tmp_path / "audit" / "notes.txt").read_text() == "mine"


def test_audit_is_refused_when_another_writes_to_its_folder(audited: Audited, tmp_path: Path) -> None:
    """And leaves what that one wrote. A process that ended has crashed, and its folder is replaced."""
    mark = tmp_path / "audit" / "_started"
    mark.parent.mkdir()
    mark.write_text(json.dumps({"run": "other", "host": socket.gethostname(), "process": os.getppid()}))
    with pytest.raises(AuditRefused, match="Another audit is writing to"):
        audited(System(63, practices=1).run(3))
    assert mark.exists()


def test_run_removes_its_own_folder_alone(tmp_path: Path) -> None:
    folder = str(tmp_path / "audit")
    finished.begin(folder, "mine")
    with pytest.raises(AuditRefused, match="Another audit is writing to"):
        finished.begin(folder, "other")
    finished.remove_own(folder, "other")
    assert files.exists(folder)
    finished.remove_own(folder, "mine")
    assert not files.exists(folder)


@pytest.mark.parametrize(("previous", "output"), [("day-0", "audits/day-1"), ("old/day-0", "/new/day-1")])
def test_audits_in_unrelated_folders_are_refused(spark: SparkSession, previous: str, output: str) -> None:
    """The layer's relative name would mean another audit, or none."""
    with pytest.raises(AuditRefused, match="Name both by absolute paths"):
        job.audit(spark, AuditSettings("history", output, previous))


@pytest.mark.parametrize(
    ("previous", "output"),
    [("a/day-0", "a/day-1"), ("day-0", "day-1"), ("/old/day-0", "/new/day-1"), ("s3://a/b", "/c")],
)
def test_layer_name_leads_back_to_its_folder(previous: str, output: str) -> None:
    finished.refuse_unrelated(previous, output)
    layer = f"{previous}/verdicts"
    assert finished._beside(output, finished.layer_name(output, layer)) == layer


def test_audit_never_overwrites_another(audited: Audited, tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.json").write_text("{}")
    with pytest.raises(AuditRefused, match="already exists"):
        audited(System(63, practices=1).run(3))


@pytest.mark.slow
def test_repair_lists_name_what_to_redrive_and_look_at(audited: Audited, tmp_path: Path) -> None:
    """A message that ran out of receives is redriven, even after an earlier quarantine; a quarantined one is not."""
    system = System(64, practices=3, slots_per_practice=20)
    world = system.run(80)
    for message_id in ("hopeless", "redriven"):
        system.accept(message_id)
        system.begin(message_id, 0)
        system.deliver(message_id, "quarantined", reason="unknown_practice")
    world.now += MINUTE
    system.begin("redriven", 0)
    system.deliver("redriven", "failed")
    world.now += MINUTE
    for message_id, reason in (("hopeless", "unknown_practice"), ("redriven", None)):
        world.dead_letters.append({"message_id": message_id, "source_message_id": "s", "reason": reason})
    pick = Picker(world, random.Random(64))
    lost, stuck, odd = request_lost(pick)[1], request_stuck(pick)[1], row_deleted(pick)[1]
    world.accepted.append({"message_id": "exhausted", "sent": world.now, "copies": 1})
    world.dead_letters.append({"message_id": "exhausted", "source_message_id": "s", "reason": None})
    audited(world, tables=True)
    repair = tmp_path / "audit" / "repair"
    redrive = [json.loads(line) for line in (repair / "redrive.jsonl").read_text().splitlines()]
    assert redrive == [
        {"message_id": message_id, "verdict": "quarantined", "action": "redrive"}
        for message_id in ("exhausted", "redriven")
    ]
    look = {row["id"]: row for row in map(json.loads, (repair / "look-at.jsonl").read_text().splitlines())}
    assert look[lost]["action"] == look[stuck]["action"] == "send the request again with the same message_id"
    assert look[odd]["violations"] == "I2 I5r I6"


@pytest.mark.slow
def test_operations_tables_add_up(spark: SparkSession, tabled: Tabled) -> None:
    """Each request counts once in the demand, each slot in the utilisation, each appointment in its table."""
    from pyspark.sql import functions as F  # noqa: N812

    world, document, tables = tabled.world, tabled.conclusion.document, tabled.folder / "audit" / "operations"
    demand = spark.read.parquet(str(tables / "demand"))
    sums = demand.agg(F.sum("COUNT_OF_REQUESTS"), F.sum("COUNT_OF_DELIVERIES"), F.sum("BOOKED")).collect()[0]
    assert tuple(sums) == (document["requests"], len(world.deliveries), document["verdicts"]["booked"])
    utilisation = spark.read.parquet(str(tables / "utilisation")).collect()
    assert {row.GP_CODE: row.COUNT_OF_SLOTS for row in utilisation} == {"A81001": 20, "A81002": 20, "A81003": 20}
    busy = sum(slot["status"] == "busy" for slot in world.slots.values())
    assert sum(row.COUNT_OF_BUSY_SLOTS for row in utilisation) == busy
    assert {row.SLOT_DATE for row in utilisation} == {"20261123"}
    appointments = spark.read.parquet(str(tables / "appointments")).collect()
    assert sum(row.COUNT_OF_APPOINTMENTS for row in appointments if row.APPT_STATUS == "Booked") == busy
    assert {row.APPT_MODE for row in appointments} == {"Face-to-Face", "Telephone", "Video"}
    assert "2 to 7 Days" in {row.TIME_BETWEEN_BOOK_AND_APPT for row in appointments}
