"""Runs that broke a law once: none does today. `tests/lab/mutants` names the defect with which each does again."""

from pathlib import Path

import pytest

from lab.simulation.counterexample import from_json
from lab.simulation.run import FOLDER, run
from lab.simulation.world.points import Instrumented


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_regression_breaks_no_law(path: Path, modules: Instrumented) -> None:
    scenario, plan = from_json(path.read_text())

    assert not run(scenario, plan, modules).breaches
