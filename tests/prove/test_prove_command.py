"""`make prove` as one command: when it holds, and that what its parts find is kept, whatever becomes of the next one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oneslot.prove_command import prove
from prover.explorer import Exploration
from prover.museum.exhibits import EXHIBITS, OURS_IN_MUSEUM
from prover.mutants import NOBODY, PROVER, Verdict, all_mutants
from prover.proof import Explored, Proof, explore_one
from prover.scenario import OURS
from prover.scenarios import BY_ITSELF

FINE = Exploration("Oneslot", "one request", "K=2 F=1 T=1", 9, 0, 9, 9, 9, 9, 9, 0.1, complete=True)
OURS_FINE = (Explored(FINE, ()),)
FOUND_OUT = tuple(
    Explored(replace(FINE, violating=3, laws_broken=tuple(sorted(exhibit.breaks))), ()) for exhibit in EXHIBITS
)
PROVED = Proof(OURS_FINE, (*FOUND_OUT, *OURS_FINE), (), (), 0.1)


def changed(**figures: Any) -> tuple[Explored, ...]:
    return (Explored(replace(FINE, **figures), ()),)


def test_a_proof_holds() -> None:
    """All of ours break nothing, all exhibits break what they are known to, and all mutants are noticed."""
    mutant = all_mutants(["exactly_once/identity.py"])[0]
    assert PROVED.holds
    assert replace(PROVED, mutants=(Verdict(mutant, PROVER, "I1"),)).holds


@pytest.mark.parametrize(
    "change",
    [
        {"ours": ()},
        {"ours": (*OURS_FINE, *changed(laws_broken=("I1",)))},
        {"ours": (*OURS_FINE, *changed(complete=False))},
        {"museum": ()},
        {"museum": FOUND_OUT},
        {"museum": (*FOUND_OUT, *changed(laws_broken=("I1",), violating=99))},
        {"museum": (*FOUND_OUT, *changed(complete=False))},
        {"museum": (*OURS_FINE, *FOUND_OUT[1:], *OURS_FINE)},
        {"unexpected": ("a mutant: tests, expected prover",)},
        {"mutants": (Verdict(all_mutants(["exactly_once/identity.py"])[0], NOBODY, ""),)},
    ],
    ids=[
        "nothing of ours",
        "a broken law of ours",
        "one of ours cut short",
        "no museum",
        "a museum without the control",
        "a broken law in the control",
        "the control cut short",
        "an exhibit that nothing is found in",
        "an unexpected verdict",
        "a mutant alive",
    ],
)
def test_a_proof_does_not_hold(change: dict[str, Any]) -> None:
    """If anything was not explored, or any row is not as it must be: the control, ours in the museum's budget, as well."""
    assert not replace(PROVED, **change).holds


def test_the_explorations_are_kept_when_judging_the_mutants_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explored(*_: Any) -> Any:
        return (explore_one(BY_ITSELF[0], OURS.name),), (explore_one(BY_ITSELF[0], OURS_IN_MUSEUM.name),)

    def fail() -> None:
        raise RuntimeError("the judge has died")

    monkeypatch.setattr("prover.proof.explore_all", explored)
    monkeypatch.setattr("prover.mutants.all_mutants", fail)
    answer = CliRunner().invoke(prove, ["--write", str(tmp_path)])
    assert "the judge has died" in str(answer.exception)
    document = json.loads((tmp_path / "explored.json").read_text())
    assert document["totals"]["schedules"] > 0
    assert "mutants" not in document
    assert (tmp_path / "museum.svg").exists()
