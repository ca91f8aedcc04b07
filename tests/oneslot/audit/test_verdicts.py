"""A correct history raises nothing, every corruption is found, and the other implementations agree."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.declared import CONSUMER
from oneslot.audit.conclusion import Conclusion
from oneslot.audit.model import model_of
from tests.kits.histories import System
from tests.oneslot.audit.audit_answers import audit_found, audit_verdicts, checked, duckdb_answers, list_found
from tests.oneslot.audit.corruptions import CORRUPTIONS, Picker

pytestmark = pytest.mark.spark


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
    world = System(21, practices=8, slots_per_practice=26).run(420)
    pick = Picker(world, random.Random(21))
    sown = {corruption.__name__: corruption(pick) for corruption in CORRUPTIONS}
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
