"""The mutants: the operators, the recorded score, and a sample that is judged again."""

from __future__ import annotations

import hashlib

import pytest

from lab.mutation import mutants
from lab.mutation.guards import GUARDED, GUARDS
from lab.mutation.mutants import (
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
from lab.mutation.mutations import Mutant, digest
from lab.mutation.mutations import mutants as mutants_of

SAMPLE = {EXPLORER: 6, UNIT_TESTS: 3}
BROKEN_FENCES = (
    "oneslot/runtime/stores/dynamodb.py:DynamoDBLedger.claim:always the same id:327ab3",
    "oneslot/runtime/consumer/group_commit.py:GroupCommit._members:always the same id:6d30b8",
)
"""Mutants whose owners cannot be told apart by their id; the explorer must see them break E2."""

MODULE = '''
"""A docstring with attribute_not_exists(x) AND more."""
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

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
def test_operator_changes_the_module(change: str) -> None:
    assert change in changes()


def test_docstrings_interfaces_and_imports_for_types_are_not_mutated() -> None:
    made = list(mutants_of("module.py", MODULE))
    for aside in ("docstring", "NotImplementedError", "TYPE_CHECKING"):
        assert not any(aside in mutant.change for mutant in made), aside
    assert len({mutant.source for mutant in made}) == len(made)
    assert len({mutant.name for mutant in made}) == len(made)


@pytest.fixture(scope="module")
def known() -> dict[str, Mutant]:
    """Every mutant of the core by its name."""
    return {mutant.name: mutant for mutant in all_mutants()}


def test_score_is_of_the_current_core(known: dict[str, Mutant]) -> None:
    score = expected()
    again = "; run: make -C lab mutants RECORD=1"
    assert score.core == core_digests(), "the core has changed" + again
    assert sorted(set(known) - set(score.mutants)) == [], "new mutants" + again
    assert sorted(set(score.mutants) - set(known)) == [], "mutants that are gone" + again


def test_every_mutant_is_caught_or_explained() -> None:
    score = expected()
    assert set(score.counts) <= {EXPLORER, UNIT_TESTS, GUARD}
    assert set(score.by(GUARD)) == set(GUARDED)
    assert set(GUARDED.values()) == set(GUARDS)


def test_mutant_caught_by_the_explorer_breaks_a_law() -> None:
    score = expected()
    for name in score.by(EXPLORER):
        assert score.mutants[name][1].endswith(" steps)"), name


def test_digest_ignores_comments_docstrings_and_layout() -> None:
    plain = "def f(x):\n    return x < 1\n"
    assert digest('def f( x ):\n    "What."\n    return x < 1  # less\n') == digest(
        "def f(x):\n    pass\n    return x < 1\n"
    )
    assert digest(plain) != digest(plain.replace("<", "<="))


def test_digest_is_equal_in_every_python() -> None:
    """Versions unparse f-strings and dump trees differently."""
    module = """def f(x):
    if x:
        raise ValueError(f"it is {x['a']!r:>9}" f' and "more"')
    return None, []
"""
    assert digest(module) == "41630d0e6f97402d"  # pragma: allowlist secret
    assert [mutant.name for mutant in mutants_of("module.py", module)] == [
        "module.py:f:always true:524194",
        "module.py:f:always false:fcd78d",
        "module.py:f:no raise:c35f4f",
    ]


def no_tests(mutant: Mutant) -> list[str]:
    """Fail, because the recorded verdict must suffice without a survey."""
    raise AssertionError(f"{mutant.name} survives what killed it before; run: make -C lab mutants")


@pytest.mark.slow
def test_sample_of_mutants_is_caught_again(bench: Workbench, known: dict[str, Mutant]) -> None:
    """Another sample after each change of the core."""
    score = expected()
    salt = "".join(score.core.values())
    names = sorted(known, key=lambda name: hashlib.sha256((name + salt).encode()).hexdigest())
    assert bench.explore() == ""
    for by, size in SAMPLE.items():
        chosen = [name for name in names if score.mutants[name][0] == by and score.mutants[name][1]][:size]
        verdicts = [bench.judge(known[name], no_tests, score.mutants[name]) for name in chosen]
        assert [verdict.by for verdict in verdicts] == [by] * size
        kept = [score.mutants[name][1] for name in chosen]
        assert bench.test(kept if by == UNIT_TESTS else []) == "", "the workbench is not restored after a mutant"


@pytest.mark.parametrize("name", BROKEN_FENCES)
def test_explorer_sees_a_broken_fence_as_two_owners(bench: Workbench, known: dict[str, Mutant], name: str) -> None:
    verdict = bench.judge(known[name], no_tests, (EXPLORER, ""))

    assert verdict.by == EXPLORER
    assert verdict.how.startswith("E2 ")
    assert expected().mutants[name][0] == EXPLORER


def test_mutant_that_ends_the_explorer_is_left_to_unit_tests(bench: Workbench, known: dict[str, Mutant]) -> None:
    name = "oneslot/runtime/stores/dynamodb.py:DynamoDBLedger.__init__:one operand less:e84fec"

    verdict = bench.judge(known[name], no_tests, (EXPLORER, ""))

    assert (verdict.by, verdict.how.partition("::")[0]) == (
        UNIT_TESTS,
        "tests/oneslot/runtime/stores/test_dynamodb.py",
    )


def test_differences_name_every_deviation_from_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
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
