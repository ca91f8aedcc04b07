"""A correct history raises nothing, every corruption is found, and the other implementations agree.

`make -C lab audit-sown` sows the corruptions into a million correct rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo.declared import CONSUMER
from lab.benchmarks.audit.data import Requests, write_full
from oneslot.audit.conclusion import Conclusion
from oneslot.audit.layout import Part, item_line
from oneslot.audit.model import model_of
from oneslot.laws.form import LINES
from tests.kits.histories import System, World
from tests.oneslot.audit.audit_answers import audit_found, audit_verdicts, checked, duckdb_answers, list_found
from tests.oneslot.audit.corruptions import corrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
REQUESTS = int(os.environ.get("SOWN_REQUESTS", "4000"))


def test_audit_judges_every_invariant_of_the_list() -> None:
    """Every invariant that a history can show, and one finding about the exports."""
    assert list(model_of(CONSUMER).sentences) == [law.name for law in CONSUMER.judged] + ["S1"]


@pytest.mark.slow
def test_correct_history_is_sound(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    """Duplicates, takeovers, early cancellations, quarantine and redrive are all allowed."""
    world = System(16, practices=5, slots_per_practice=30).run(260)
    assert list_found(world) == set()
    conclusion = audited(world)
    assert audit_found(tmp_path / "audit") == set()
    assert conclusion.sound, conclusion.sentence
    verdicts, findings = duckdb_answers(tmp_path / "audit-history", world.now)
    assert findings == set()
    assert audit_verdicts(tmp_path / "audit") == verdicts
    assert set(verdicts.values()) >= {"booked", "cancelled", "refused", "quarantined", "dropped", "in_flight"}


def test_every_corruption_is_found_by_all_four(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    """Each where it was sown; check, audit, the list and DuckDB agree on the rest. They break every law of a history."""
    world, sown = corrupted(21)
    conclusion = audited(world)
    found = audit_found(tmp_path / "audit")
    missed = {name: breach for name, breach in sown.items() if breach not in found}
    assert not missed
    assert not conclusion.sound
    verdicts, by_duckdb = duckdb_answers(tmp_path / "audit-history", world.now)
    assert found == by_duckdb, "add what one side lacks to VIOLATIONS in lab/benchmarks/audit/duckdb_audit.py"
    assert found == list_found(world)
    by_check = checked(world)
    assert found == {(breach.invariant, breach.subject) for breach in by_check.breaches}
    counted = {name: count for name, count in conclusion.document["verdicts"].items() if count}
    assert by_check.counts.verdicts == counted
    assert {law for law, _ in sown.values()} | {"I13"} == {law.name for law in CONSUMER.judged}  # orders break I13
    assert audit_verdicts(tmp_path / "audit") == verdicts
    assert {"lost", "stuck", "duplicate_effect"} <= set(verdicts.values())


def parts(world: World) -> dict[str, Part]:
    """Return the lines of a world by source."""
    found = {}
    for table, items in world.tables().items():
        lines = [item_line(item) for item in items.values()]
        found[table] = Part(b"".join(lines), len(lines))
    for name in LINES:
        rows = getattr(world, name.replace("-", "_")) or ()
        found[name] = Part("".join(json.dumps(row) + "\n" for row in rows).encode(), len(rows))
    return found


@pytest.mark.slow
def test_every_corruption_is_found_among_correct_rows(spark: SparkSession, tmp_path: Path) -> None:
    """One audit finds what the project's own list finds in the corrupted rows."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    correct = Requests(0, REQUESTS)
    world, sown = corrupted(21)
    world.now = correct.end
    write_full(tmp_path / "history", [correct], parts(world))
    settings = AuditSettings(str(tmp_path / "history"), str(tmp_path / "audit"), tables=False)
    conclusion = audit(spark, settings)
    found = audit_found(tmp_path / "audit")
    assert {name: breach for name, breach in sown.items() if breach not in found} == {}
    assert found == list_found(world)
    sums = conclusion.document["sums"]
    rows = sum(sums[name] for name in ("ledger_rows", "appointment_rows", "slot_rows", "accepted_copies", "deliveries"))
    assert rows > 4.5 * REQUESTS
    assert len(sown) >= 15
    print(f"{len(sown)} kinds, each once in {rows:,} rows: all found, {len(found)} findings in all")  # noqa: T201
