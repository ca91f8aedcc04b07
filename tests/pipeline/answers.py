"""The answers of an audit, of the project's own list of invariants and of DuckDB, in one shape: sets that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appointments.invariants import Evidence, check
from benchmarks import audit_duckdb
from tests.pipeline.histories import RETENTION, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Found = set[tuple[str, str]]


def audit_found(spark: SparkSession, folder: Path) -> Found:
    """(invariant, subject) of every finding of an audit."""
    from pyspark.sql import functions as F  # noqa: N812

    from pipeline.outputs import current_verdicts, display_key

    rows = current_verdicts(spark, str(folder)).where(F.col("violations") != "")
    shown = rows.select("violations", display_key().alias("id")).collect()
    return {(name, row.id) for row in shown for name in row.violations.split()}


def audit_verdicts(spark: SparkSession, folder: Path) -> dict[str, str]:
    """The verdict on each request that carries an id."""
    from pipeline.outputs import current_verdicts

    rows = current_verdicts(spark, str(folder)).where("subject = 'request'").select("key", "verdict").collect()
    return {row.key: row.verdict for row in rows}


def list_found(world: World) -> Found:
    """(invariant, subject) by the project's own list."""
    deliveries = [line for line in world.deliveries if line["message_id"] and line["finished"] < world.now]
    evidence = Evidence(
        requests={row["message_id"] for row in world.accepted} | {line["message_id"] for line in deliveries},
        ledger=world.ledger,
        slots=world.slots,
        appointments=world.appointments,
        quarantined={row["message_id"] for row in [*world.dead_letters, *world.dropped] if row["message_id"]},
        deliveries=deliveries,
        waiting=None if world.waiting is None else {row["message_id"] for row in world.waiting},
        now=world.now,
    )
    return {(breach.invariant, breach.subject) for breach in check(evidence)}


def duckdb_answers(folder: Path, now: int) -> tuple[dict[str, str], Found]:
    """Verdicts and findings by the independent implementation."""
    with audit_duckdb.open_history(folder, threads=2) as connection:
        audit_duckdb.gather(connection, now, RETENTION)
        return audit_duckdb.verdicts(connection), audit_duckdb.violations(connection, now, RETENTION)
