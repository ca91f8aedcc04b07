"""A correct history raises nothing, every corruption is found, and two other implementations agree."""

from __future__ import annotations

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


def test_every_corruption_is_found_by_all_three(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    """Each where it was sown; the three implementations agree on the rest."""
    world = System(21, practices=8, slots_per_practice=26).run(420)
    pick = Picker(world, random.Random(21))
    sown = {corruption.__name__: corruption(pick) for corruption in CORRUPTIONS}
    conclusion = audited(world)
    found = audit_found(tmp_path / "audit")
    missed = {name: breach for name, breach in sown.items() if breach not in found}
    assert not missed
    assert not conclusion.sound
    verdicts, by_duckdb = duckdb_answers(tmp_path / "audit-history", world.now)
    assert found == by_duckdb
    assert found == list_found(world)
    assert audit_verdicts(tmp_path / "audit") == verdicts
    assert {"lost", "stuck", "duplicate_effect"} <= set(verdicts.values())


def test_check_and_audit_find_the_same_breaches(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    """And count the same verdicts: both judge groups of rows by one list."""
    world = System(33, practices=8, slots_per_practice=26).run(420)
    pick = Picker(world, random.Random(33))
    for corruption in CORRUPTIONS:
        corruption(pick)
    verdict = checked(world)
    document = audited(world).document
    assert {(breach.invariant, breach.subject) for breach in verdict.breaches} == audit_found(tmp_path / "audit")
    assert verdict.counts.verdicts == {name: count for name, count in document["verdicts"].items() if count}


def test_corruptions_break_every_invariant() -> None:
    world = System(33, practices=8, slots_per_practice=26).run(420)
    pick = Picker(world, random.Random(33))
    broken = {corruption(pick)[0] for corruption in CORRUPTIONS}
    judged = {invariant.name for invariant in CONSUMER.laws if invariant.is_judged}
    assert broken == judged - {"I13"}, "appointments send nothing; test_each_generic_law_is_found_broken breaks it"
    assert len(CORRUPTIONS) >= 15
