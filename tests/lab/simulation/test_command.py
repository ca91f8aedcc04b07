"""`python -m lab.simulation`: seeds, the story of one run, a replay, what it writes, and the options that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lab.simulation import counterexample
from lab.simulation.__main__ import simulate
from lab.simulation.run import points, run
from lab.simulation.world.simulation import Plan
from oneslot.errors import BadInput, OneslotError

WORKERS = ("--scenario", "workers")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, list(arguments), standalone_mode=False)


def test_seeds_are_counted_and_written(tmp_path: Path) -> None:
    done = call(*WORKERS, "--seeds", "2", "--write", str(tmp_path), "--json")

    said = json.loads(done.stdout)
    written = json.loads((tmp_path / "simulated.json").read_text())
    assert done.return_value == 0
    assert said["holds"] is True
    assert said["total"]["seeds"] == written["scenarios"]["workers"]["seeds"] == 2


def test_one_seed_is_told_step_by_step() -> None:
    done = call(*WORKERS, "--seed", "7")

    assert done.return_value == 0
    assert "commit: update ledger" in done.stdout
    assert "=> no law is broken" in done.stdout


def test_kept_run_is_replayed(tmp_path: Path) -> None:
    with points() as modules:
        kept = run("workers", Plan(7), modules)
    path = tmp_path / "kept.json"
    path.write_text(counterexample.to_json(kept))

    done = call("--replay", str(path), "--json")

    assert done.return_value == 0
    assert json.loads(done.stdout)["trace"] == kept.trace


def test_file_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")

    assert isinstance(call("--replay", str(path)).exception, OneslotError)


def test_unknown_scenario_is_refused_with_the_known_ones() -> None:
    error = call("--scenario", "none").exception

    assert isinstance(error, BadInput)
    assert "workers" in str(error)


@pytest.mark.parametrize("pair", [("--seed", "1", "--seeds", "2"), ("--every-place", "--seconds", "3")])
def test_options_that_exclude_each_other_are_refused(pair: tuple[str, ...]) -> None:
    assert isinstance(call(*pair).exception, click.UsageError)
