"""The mutants: what is spoiled, that the score is checked in, and a sample of it judged again."""

from __future__ import annotations

import hashlib

import pytest

from verification.mutation import mutants
from verification.mutation.guards import GUARDED, GUARDS
from verification.mutation.mutants import (
    EXPLORER,
    GUARD,
    UNIT_TESTS,
    Score,
    Workbench,
    all_mutants,
    core_digests,
    differences,
    expected,
)
from verification.mutation.mutations import Mutant, digest
from verification.mutation.mutations import mutants as mutants_of

SAMPLE = {EXPLORER: 6, UNIT_TESTS: 3}
BROKEN_FENCES = (
    "oneslot/runtime/stores/dynamodb.py:Ledger.claim:always the same id:327ab3",
    "oneslot/runtime/consumer/group_commit.py:GroupLedger._members:always the same id:327ab3",
)
"""With these nobody can tell an owner from another: if the prover could not either, E2 would hold whatever happened."""

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
        "match codes: ...  ->  cases swapped",
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
    """A change of the core makes the score stale, and says so: judge again, and check the new one in."""
    score = expected()
    again = "; run: make mutants RECORD=1"
    assert score.core == core_digests(), "the core has changed" + again
    names = {mutant.name for mutant in all_mutants()}
    assert sorted(names - set(score.mutants)) == [], "new mutants" + again
    assert sorted(set(score.mutants) - names) == [], "mutants that are gone" + again


def test_every_mutant_is_caught_or_explained() -> None:
    """Nobody's and unjudged ones there are none; a guard explains those that it names, and no others."""
    score = expected()
    assert set(score.counts) <= {EXPLORER, UNIT_TESTS, GUARD}
    assert set(score.by(GUARD)) == set(GUARDED)
    assert set(GUARDED.values()) == set(GUARDS)


def test_what_the_prover_catches_breaks_a_law() -> None:
    """Each is known by a path to a breach, and none by a prover that fell over it."""
    score = expected()
    for name in score.by(EXPLORER):
        assert score.mutants[name][1].endswith(" steps)"), name


def test_the_digest_of_a_file_is_of_what_it_does() -> None:
    """Comments, docstrings and layout do not count; a condition does."""
    plain = "def f(x):\n    return x < 1\n"
    assert digest('def f( x ):\n    "What."\n    return x < 1  # less\n') == digest(
        "def f(x):\n    pass\n    return x < 1\n"
    )
    assert digest(plain) != digest(plain.replace("<", "<="))


def test_a_digest_and_a_mutants_name_are_the_same_in_every_version_of_python() -> None:
    """They are checked in. Versions differ in how they unparse an f-string, and in how they dump a tree."""
    module = """def f(x):
    if x:
        raise ValueError(f"it is {x['a']!r:>9}" f' and "more"')
    return None, []
"""
    assert digest(module) == "41630d0e6f97402d"
    assert [mutant.name for mutant in mutants_of("module.py", module)] == [
        "module.py:f:always true:524194",
        "module.py:f:always false:fcd78d",
        "module.py:f:no raise:c35f4f",
    ]


def no_tests(mutant: Mutant) -> list[str]:
    """In place of the survey: what is checked in must be enough."""
    raise AssertionError(f"{mutant.name} is no longer caught by what caught it; run: make mutants")


def test_a_sample_is_caught_again_and_the_core_is_not() -> None:
    """Each in a fresh process, by what caught it before; another sample whenever the core changes."""
    score = expected()
    salt = "".join(score.core.values())
    known = sorted(all_mutants(), key=lambda mutant: hashlib.sha256((mutant.name + salt).encode()).hexdigest())
    with Workbench() as bench:
        assert bench.explore() == ""
        for by, size in SAMPLE.items():
            chosen = [
                mutant for mutant in known if score.mutants[mutant.name][0] == by and score.mutants[mutant.name][1]
            ][:size]
            verdicts = [bench.judge(mutant, no_tests, score.mutants[mutant.name]) for mutant in chosen]
            assert [verdict.by for verdict in verdicts] == [by] * size
            kept = [score.mutants[mutant.name][1] for mutant in chosen]
            assert bench.test(kept if by == UNIT_TESTS else []) == "", "the bench is not mended after a mutant"


def test_a_broken_fence_is_seen_by_the_prover() -> None:
    """Not only by a unit test that looks at the id: as two owners of one request, in every judging."""
    known = {mutant.name: mutant for mutant in all_mutants()}
    with Workbench() as bench:
        for name in BROKEN_FENCES:
            verdict = bench.judge(known[name], no_tests, (EXPLORER, ""))
            assert verdict.by == EXPLORER
            assert verdict.how.startswith("E2 ")
            assert expected().mutants[name][0] == EXPLORER


def test_a_copy_that_the_prover_falls_over_is_left_to_the_unit_tests() -> None:
    """Without what makes its rows the prover has no world to begin with: no law is broken by that."""
    name = "oneslot/runtime/stores/expressions.py:to_attributes:one element less:1c154b"
    [mutant] = [one for one in all_mutants(["oneslot/runtime/stores/expressions.py"]) if one.name == name]
    with Workbench() as bench:
        verdict = bench.judge(mutant, no_tests, (EXPLORER, ""))
    assert (verdict.by, verdict.how.partition("::")[0]) == (
        UNIT_TESTS,
        "tests/oneslot/runtime/stores/test_expressions.py",
    )


def test_differences_from_the_score_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught by another, explained without reason, gone, of another core."""
    one, other = list(mutants_of("module.py", MODULE))[:2]
    score = Score({}, {one.name: (EXPLORER, "I1"), "gone": (EXPLORER, "I1")})
    monkeypatch.setattr(mutants, "expected", lambda: score)
    monkeypatch.setattr(mutants, "core_digests", lambda: {"ledger.py": "new"})
    monkeypatch.setattr(mutants, "guard_of", lambda name: "a guard" if name == other.name else "")
    fallen = mutants.Verdict(one, EXPLORER, "does not run: KeyError in f")
    told = differences([mutants.Verdict(one, UNIT_TESTS, "a test"), mutants.Verdict(other, EXPLORER, "I1"), fallen])
    ends = [line.partition(": ")[2].removeprefix("does not run: ") for line in told]
    assert ends == [
        "tests, expected explorer",
        "explorer, expected no such mutant",
        "caught (I1), though a guard explains why it survives",
        "KeyError in f; that breaks no law, so it shows nothing; let the explorer continue",
        "expected, and no such mutant",
        "has changed since the score was recorded",
    ]
