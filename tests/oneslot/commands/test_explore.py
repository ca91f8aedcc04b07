"""`make explore` as one command: when it holds, and that what its parts find is kept, whatever becomes of the next one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from oneslot.commands.explore import prove
from oneslot.explorer.counterexample import Counterexample, counterexample
from oneslot.explorer.explorer import Exploration, Explorer
from oneslot.explorer.scenario import OURS, Subject
from verification.mutation.mutants import NOBODY, PROVER, Verdict, all_mutants
from verification.peers.peers import EXHIBITS, OURS_IN_MUSEUM
from verification.scenarios.__main__ import run
from verification.scenarios.exploration import Explored, Proof, explore_one
from verification.scenarios.scenarios import BY_ITSELF, ONE_REQUEST

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
    mutant = all_mutants(["oneslot/runtime/identity.py"])[0]
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
        {"mutants": (Verdict(all_mutants(["oneslot/runtime/identity.py"])[0], NOBODY, ""),)},
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

    monkeypatch.setattr("verification.scenarios.exploration.explore_all", explored)
    monkeypatch.setattr("verification.mutation.mutants.all_mutants", fail)
    answer = CliRunner().invoke(prove, ["--write", str(tmp_path)])
    assert "the judge has died" in str(answer.exception)
    document = json.loads((tmp_path / "explored.json").read_text())
    assert document["totals"]["schedules"] > 0
    assert "mutants" not in document
    assert (tmp_path / "museum.svg").exists()


def found(subject: Subject, expiries: int) -> Explored:
    """An exploration that breaks a law, with its path."""
    explorer = Explorer(replace(ONE_REQUEST, expiries=expiries), subject)
    exploration = explorer.run(False, lambda *_: None)
    return Explored(exploration, tuple(counterexample(explorer.system, breach) for breach in exploration.breaches))


def test_a_scenario_with_two_budgets_keeps_the_counterexamples_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a file of its own, and told with its budget."""
    ours = (found(EXHIBITS[2].subject, 0), found(EXHIBITS[2].subject, 1))
    monkeypatch.setattr("verification.scenarios.exploration.explore_all", lambda *_: (ours, (*FOUND_OUT, *OURS_FINE)))
    answer = CliRunner().invoke(prove, ["--no-mutants", "--save", str(tmp_path)], standalone_mode=False)
    assert answer.return_value == 1
    kept = {path.name: Counterexample.from_json(path.read_text()) for path in tmp_path.iterdir()}
    assert len(kept) == sum(len(one.counterexamples) for one in ours) >= 2
    assert {one.expiries for one in kept.values()} == {0, 1}
    assert "acquire-mark-release-one-request-k2-f1-t0-1.json" in kept
    assert "one request (K=2 F=1 T=0): " in answer.output
    assert "one request (K=2 F=1 T=1): " in answer.output


@pytest.mark.parametrize("arguments", [["--only-mutants", "--write", "somewhere"], ["--short", "--record"]])
def test_options_that_would_be_ignored_are_refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is begun."""
    monkeypatch.delattr("verification.scenarios.exploration.explore_all")
    monkeypatch.delattr("verification.mutation.mutants.all_mutants")
    with pytest.raises(click.UsageError, match=" does nothing with --"):
        prove.main(arguments, standalone_mode=False)


@pytest.mark.parametrize("option", ["--save", "--write"])
def test_a_directory_that_cannot_be_made_is_told_before_anything_is_explored(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr("verification.scenarios.exploration.explore_all")
    (tmp_path / "file").touch()
    assert run(["--short", option, str(tmp_path / "file" / "in")]) == 1
    assert "file/in cannot be used: Not a directory" in capsys.readouterr().err


def test_bad_input_is_told_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By `python -m verification.scenarios` as by `oneslot prove`: no stack trace."""
    path = tmp_path / "list.json"
    path.write_text("[1]")
    assert run(["--replay", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert "list.json: this is no counterexample" in said
    assert run(["--replay", str(path), "--short"]) == 2
    assert "--replay does nothing with --short" in capsys.readouterr().err
