"""The audit before the audit: its history is sound, so it takes the way that a run's own history takes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.audit import duckdb_audit
from workload.warm_up import write_requests


def test_history_for_warming_up_is_sound(tmp_path: Path) -> None:
    write_requests(tmp_path)
    now = duckdb_audit.moment(tmp_path)
    with duckdb_audit.open_history(tmp_path, threads=1, memory="1GB") as connection:
        duckdb_audit.gather(connection, now, tmp_path)
        assert list(duckdb_audit.violations(connection)) == []
        (counted,) = connection.execute("select count(*) from requests").fetchall()
    assert counted == (2,)
