"""`make prove` as one command: what its parts find is kept, whatever becomes of the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oneslot.prove_command import prove
from prover.museum.exhibits import OURS_IN_MUSEUM
from prover.proof import explore_one
from prover.scenario import OURS
from prover.scenarios import BY_ITSELF


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
