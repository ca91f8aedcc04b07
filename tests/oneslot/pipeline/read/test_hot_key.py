"""One id with hundreds of thousands of deliveries: the audit counts them as DuckDB does."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from oneslot.pipeline.judge.conclusion import Conclusion
from tests.kits.histories import SLOWEST, System, write_history

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COPIES, LINES = 600_000, 1_000


def test_audit_counts_as_duckdb_when_one_id_is_hot(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    system = System(91, practices=2, slots_per_practice=10)
    system.run(20)
    system.duplicate()
    hot = system.world.deliveries[-1]
    system.world.now += SLOWEST
    history = write_history(system.world, tmp_path / "history")
    # A gzip file may have many members, so one compressed block of lines is enough.
    block = gzip.compress(f"{json.dumps(hot)}\n".encode() * LINES, mtime=0)
    (history / "deliveries" / "hot.jsonl.gz").write_bytes(block * (COPIES // LINES))

    conclusion = audited(history)

    counted = duckdb.execute(
        "select count(*), count(*) filter (outcome in ('booked', 'waitlist', 'cancelled', 'refused', 'duplicate')), "
        "count(*) filter (outcome = 'duplicate') "
        "from read_json(?, format='newline_delimited') where message_id = ?",
        [f"{history}/deliveries/*", hot["message_id"]],
    ).fetchall()
    written = duckdb.execute(
        "select deliveries, deliveries_done, deliveries_duplicate from read_parquet(?) where key = ?",
        [f"{tmp_path}/audit/verdicts/*.parquet", hot["message_id"]],
    ).fetchall()
    assert written == counted
    assert written[0][2] > COPIES
    assert conclusion.sound
    assert conclusion.document["sums"]["deliveries"] == COPIES + len(system.world.deliveries)
