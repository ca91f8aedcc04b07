"""The mutants: what is spoiled, that the score is checked in, and a sample of it judged again."""

from __future__ import annotations

import hashlib

import pytest

from prover import mutants
from prover.guards import GUARDED, GUARDS
from prover.mutants import GUARD, NOBODY, PROVER, UNIT_TESTS, UNJUDGED, Workbench, all_mutants, differences, expected
from prover.mutations import mutants as mutants_of

SAMPLE = 6
STILL_UNJUDGED = 122

MODULE = '''
"""A docstring with attribute_not_exists(x) AND more."""
from typing import Protocol

class Port(Protocol):
    def call(self) -> None:
        """Interfaces are passed over."""
        raise NotImplementedError

def take(client, claim, codes):
    if claim.lease < 1 and codes:
        raise ValueError("too late")
    client.update_item(
        ConditionExpression="attribute_not_exists(a) AND #status = :free",
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
        ClientRequestToken=claim.token,
    )
    match codes:
        case 1:
            return {"a", "b"}
        case 2:
            return Update("slots", key={"k": 1}, expect={"status": "free"}, remove=("free_key",))
'''


def changes() -> list[str]:
    return [mutant.change for mutant in mutants_of("module.py", MODULE)]


@pytest.mark.parametrize(
    "change",
    [
        "'attribute_not_exists(a) AND #status = :free'  ->  "
        "'attribute_not_exists(a) AND (#status = :free OR NOT #status = :free)'",
        "'ALL_OLD'  ->  'NONE'",
        "raise ValueError('too late')  ->  pass",
        "claim.lease < 1 and codes  ->  codes",
        "claim.lease < 1  ->  claim.lease <= 1",
        "{'a', 'b'}  ->  {'b'}",
        "{'status': 'free'}  ->  {'k': 1}",
        "('free_key',)  ->  ()",
    ],
)
def test_what_is_spoiled(change: str) -> None:
    """Conditions made true but for their values' use, refusals made silent, raises dropped, sets and expectations cut."""
    assert change in changes()


def test_what_is_not() -> None:
    """Docstrings and interfaces; and no mutant is the module itself, or stands there twice."""
    made = list(mutants_of("module.py", MODULE))
    assert not any("docstring" in mutant.change or "NotImplementedError" in mutant.change for mutant in made)
    assert len({mutant.source for mutant in made}) == len(made)
    assert len({mutant.name for mutant in made}) == len(made)


def test_the_score_is_checked_in_for_the_core_as_it_is() -> None:
    """A change of the core changes its mutants: judge them and check the score in, `make prove RECORD=1`."""
    names = {mutant.name for mutant in all_mutants()}
    known = expected()
    assert sorted(names - set(known)) == [], "new mutants; run: make prove RECORD=1"
    assert sorted(set(known) - names) == [], "mutants that are gone; run: make prove RECORD=1"
    assert set(known.values()) <= {PROVER, UNIT_TESTS, GUARD, UNJUDGED}, f"{NOBODY} may catch none"
    # What is still to be judged may become less, and not more.
    assert sum(by == UNJUDGED for by in known.values()) <= STILL_UNJUDGED


def test_every_survivor_is_explained_by_a_named_guard() -> None:
    """And no other mutant is."""
    explained = {name for name, by in expected().items() if by == GUARD}
    assert explained == set(GUARDED)
    assert set(GUARDED.values()) == set(GUARDS)


def test_a_sample_is_caught_again_and_the_core_is_not() -> None:
    """Each in a fresh process; the whole score is held by `make prove`."""
    known = expected()
    caught = [mutant for mutant in all_mutants() if known.get(mutant.name) == PROVER]
    caught.sort(key=lambda mutant: hashlib.sha256(mutant.name.encode()).hexdigest())
    with Workbench() as bench:
        assert bench.explore() == ""
        verdicts = [bench.judge(mutant, with_tests=False) for mutant in caught[:SAMPLE]]
        assert bench.explore() == "", "the bench is not mended after a mutant"
    assert [verdict.by for verdict in verdicts] == [PROVER] * SAMPLE


def test_differences_from_the_score_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught by another, explained without reason, gone."""
    one, other = list(mutants_of("module.py", MODULE))[:2]
    monkeypatch.setattr(mutants, "expected", lambda: {one.name: PROVER, "gone": PROVER})
    monkeypatch.setattr(mutants, "guard_of", lambda name: "a guard" if name == other.name else "")
    told = differences([mutants.Verdict(one, UNIT_TESTS, "a test"), mutants.Verdict(other, PROVER, "I1")])
    assert [line.rpartition(": ")[2] for line in told] == [
        "tests, expected prover",
        "prover, expected no such mutant",
        "caught (I1), though a guard explains why it lives",
        "expected, and no such mutant",
    ]
