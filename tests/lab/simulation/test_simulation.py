"""Runs of the whole system: the same seed is the same run, broken code is found, and its counterexample is small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.simulation.__main__ import simulate
from lab.simulation.counterexample import story
from lab.simulation.run import SCENARIOS, run
from lab.simulation.world.points import Instrumented
from lab.simulation.world.simulation import Plan
from oneslot.errors import OneslotError
from oneslot.worker.pool import Pool

ROOT = Path(__file__).parents[3]
LARGE = ("end-of-retention", "mapping-large")
"""Scenarios of which a run takes as long as all runs of another; `test_long.py` has more seeds of each."""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, list(arguments), standalone_mode=False)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_breaks_no_law_when_its_first_seeds_run(name: str, modules: Instrumented) -> None:
    seeds = range(1 if name in LARGE else 5)
    broken = [found for seed in seeds if (found := run(name, Plan(seed), modules)).breaches]

    assert not broken, list(story(broken[0]))


TRACES = """
from lab.simulation.run import SCENARIOS, points, run
from lab.simulation.world.simulation import Plan
with points() as modules:
    for name in SCENARIOS:
        print(run(name, Plan(1), modules).trace)
"""


def test_seed_gives_the_same_trace_when_another_process_runs_it(modules: Instrumented) -> None:
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'lambda_src'}"}

    command = [sys.executable, "-c", TRACES]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.stdout.split() == [run(name, Plan(1), modules).trace for name in SCENARIOS], done.stderr


def test_listed_faults_repeat_the_run_that_drew_them(modules: Instrumented) -> None:
    drawn = run("workers", Plan(7), modules)

    listed = run("workers", drawn.plan, modules)

    assert drawn.plan.faults
    assert listed.trace == drawn.trace


def test_broken_worker_is_found_shrunk_and_replayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worker deletes what failed. Processes are forked, so they have the broken code."""
    settle = Pool._settle
    with monkeypatch.context() as patch:
        patch.setattr(Pool, "_settle", lambda pool, job, failure, *rest: settle(pool, job, None, *rest))
        seeds = ("--scenario", "workers", "--first", "15", "--seeds", "1", "--write", str(tmp_path))
        done = call(*seeds, "--save", str(tmp_path))
        replayed = call("--replay", str(tmp_path / "workers-15.json"))

    kept = json.loads((tmp_path / "workers-15.json").read_text())
    assert done.return_value == replayed.return_value == 1
    assert json.loads((tmp_path / "simulated.json").read_text())["total"]["violating"] == 1
    assert set(kept["laws"]) & {"I2", "I9"}
    assert len(kept["faults"]) <= 5
    assert kept["numbers"]["messages"] <= 2
    assert "=> I" in replayed.stdout
    assert call("--replay", str(tmp_path / "workers-15.json")).return_value == 0


def test_one_seed_is_printed_step_by_step() -> None:
    done = call("--scenario", "workers", "--seed", "7")

    assert done.return_value == 0
    assert "commit: update ledger" in done.stdout
    assert "=> no law is broken" in done.stdout


@pytest.mark.parametrize(
    "text", ["{}", "x", '{"scenario": "none", "seed": 1, "numbers": {}, "faults": [], "points": true}']
)
def test_replay_is_refused_when_the_file_has_no_counterexample(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)

    assert isinstance(call("--replay", str(tmp_path / "other.json")).exception, OneslotError)
