"""An audit's tables by name, from DuckDB, Spark and Athena, in this version and in the kept output of each version."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from demo.declared import CONSUMER
from oneslot.audit.conclusion import VERSION, Conclusion
from oneslot.audit.errors import AuditRefused
from oneslot.audit.model import model_of
from oneslot.audit.schema import Output, outputs, page
from tests.kits.histories import System
from tests.oneslot.audit.conftest import Tabled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = model_of(CONSUMER)
KEPT = Path(__file__).with_name("fixtures") / "audit-version-9"
KEPT_VERSION = 9
DUCKDB_TYPES = {"VARCHAR": "string", "BIGINT": "bigint", "DOUBLE": "double"}
of_each_table = pytest.mark.parametrize("output", outputs(MODEL), ids=lambda output: output.name)


@of_each_table
def test_page_has_the_statements_of_each_table(output: Output) -> None:
    """The command prints this page."""
    (section,) = (part for part in page(MODEL).split("\n## ") if part.startswith(f"{output.name}\n"))
    assert output.duckdb in section
    assert output.athena in section


@of_each_table
def test_duckdb_reads_the_table_of_a_kept_version(output: Output) -> None:
    """What is renamed, retyped or removed needs a new version, and breaks readers by name."""
    described = duckdb.execute(f"DESCRIBE {output.duckdb.replace('AUDIT', str(KEPT))}").fetchall()
    kept = {name: kind for name, kind, *_ in described}
    assert kept.keys() <= output.columns.keys()
    kept.pop(output.partition, None)
    assert {name: DUCKDB_TYPES[kind] for name, kind in kept.items()} == {name: output.columns[name] for name in kept}


@pytest.mark.slow
@pytest.mark.spark
def test_spark_reads_the_tables_of_both_versions(spark: SparkSession, tabled: Tabled) -> None:
    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    for output in outputs(MODEL):
        fresh, kept = (spark.read.parquet(f"{folder}/{output.folder}") for folder in (tabled.folder / "audit", KEPT))
        types = {name: "string" if name == output.partition else kind for name, kind in fresh.dtypes}
        assert types == output.columns
        assert kept.unionByName(fresh, allowMissingColumns=True).count() == kept.count() + fresh.count()
        assert parser.parsePlan(output.athena).nodeName() == "CreateTable"


@pytest.mark.slow
@pytest.mark.spark
def test_audit_continues_a_kept_one_or_names_the_version(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    shutil.copytree(KEPT, tmp_path / KEPT.name)
    system = System(51, practices=1, slots_per_practice=6)
    before = system.run(25).copy()
    after = system.run(5)
    if VERSION != KEPT_VERSION:
        with pytest.raises(AuditRefused, match="another version"):
            audited(after, previous=KEPT.name, since=before)
        return
    continued = audited(after, "continued", previous=KEPT.name, since=before).document
    whole = audited(after, "whole").document
    assert continued["verdicts"] == whole["verdicts"]
