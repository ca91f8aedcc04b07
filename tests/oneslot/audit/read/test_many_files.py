"""Histories of many files take one Spark job."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from demo.declared import CONSUMER
from oneslot.audit.conclusion import Conclusion
from oneslot.audit.errors import AuditRefused
from oneslot.audit.job import audit
from oneslot.audit.model import model_of
from oneslot.audit.read.history import find_history
from oneslot.audit.settings import AuditSettings
from tests.kits.histories import System, write_history
from tests.oneslot.audit.damage import manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = model_of(CONSUMER)
pytestmark = pytest.mark.spark


def jobs(spark: SparkSession) -> int:
    """Return the number of jobs since the session's start."""
    context: Any = spark._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().jobsList(None).size())


def queries(spark: SparkSession) -> int:
    """Return the number of Spark's SQL executions since the session's start."""
    session: Any = spark._jsparkSession
    return int(session.sharedState().statusStore().executionsCount())


def test_manifest_checksum_may_be_called_checksum(tmp_path: Path) -> None:
    history = write_history(System(93, practices=1).run(5), tmp_path / "history")
    for path in [*history.rglob("manifest-*.md5")]:
        path.rename(path.with_suffix(".checksum"))
    assert find_history(str(history), None, (), MODEL).exports["ledger"].items
    manifest(history, "ledger", "manifest-files.checksum").write_text("AAAA")
    with pytest.raises(AuditRefused, match=r"manifest-files\.json does not match its checksum"):
        find_history(str(history), None, (), MODEL)


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
