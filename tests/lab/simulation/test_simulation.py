"""Runs of the whole system: the same seed is the same run, broken code is found, and its counterexample is small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.simulation.counterexample import from_json, story, to_json
from lab.simulation.places import places, run_each
from lab.simulation.run import SCENARIOS, Run, run
from lab.simulation.shrink import shrink
from lab.simulation.world.faults import CALL, Fault
from lab.simulation.world.points import Instrumented
from lab.simulation.world.simulation import Plan
from oneslot.explorer.counterexample import NotReplayable
from oneslot.worker.pool import Pool

ROOT = Path(__file__).parents[3]
SMALL = {"messages": 2, "workers": 1, "threads": 1, "slots": 2}
LONG = ("day", "end-of-retention", "mapping-large")
"""Scenarios of which a run takes as long as all runs of another; `test_long.py` has more seeds of each."""

SHORT = tuple(name for name in SCENARIOS if name not in LONG)


def find_broken(name: str, modules: Instrumented, seeds: int = 60) -> Run:
    """Return the first run that breaks a law."""
    runs = (run(name, Plan(seed), modules) for seed in range(seeds))
    return next(found for found in runs if found.breaches)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_holds_under_its_first_seeds(name: str, modules: Instrumented) -> None:
    seeds = range(1 if name in LONG else 5)
    broken = [found for seed in seeds if (found := run(name, Plan(seed), modules)).breaches]

    assert not broken, list(story(broken[0]))


TRACES = """
import sys
from lab.simulation.run import points, run
from lab.simulation.world.simulation import Plan
with points() as modules:
    for name in sys.argv[1:]:
        print(run(name, Plan(1), modules).trace)
"""


@pytest.mark.parametrize("names", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)], ids=["short", "long"])
def test_same_seed_gives_the_same_trace_in_another_process(names: tuple[str, ...], modules: Instrumented) -> None:
    """The other process has another hash seed."""
    traces = [run(name, Plan(1), modules).trace for name in names]

    assert _output([sys.executable, "-c", TRACES, *names]).split() == traces


def test_listed_faults_repeat_the_run_that_drew_them(modules: Instrumented) -> None:
    drawn = run("workers", Plan(7), modules)

    listed = run("workers", drawn.plan, modules)

    assert drawn.plan.faults
    assert listed.trace == drawn.trace


def test_worker_that_deletes_what_failed_is_found_and_shrunk(
    modules: Instrumented, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Pool._settle
    monkeypatch.setattr(Pool, "_settle", lambda pool, job, failure, *rest: settle(pool, job, None, *rest))

    found = find_broken("workers", modules)
    small = shrink(found, modules, tries=150)

    assert {breach.law for breach in small.breaches} & {"I2", "I9"}
    assert len(small.plan.faults or ()) <= 5
    assert small.plan.numbers["messages"] <= 2
    assert len(list(story(small))) <= 60


def test_counterexample_replays_from_its_file(modules: Instrumented) -> None:
    kept = run("workers", Plan(7), modules)

    name, plan = from_json(to_json(kept))

    assert run(name, plan, modules).trace == kept.trace


@pytest.mark.parametrize(
    "text", ["[]", "{}", "x", '{"scenario": "none", "seed": 1, "numbers": {}, "faults": [], "points": true}']
)
def test_file_that_is_not_a_counterexample_is_refused(text: str) -> None:
    with pytest.raises(NotReplayable):
        from_json(text)


def test_fault_at_every_place_of_a_small_run(modules: Instrumented) -> None:
    plan = Plan(0, SMALL)
    every = places("workers", plan, modules, every=50)

    broken = [done for done in run_each("workers", plan, every[::7], modules) if done.breaches]

    assert not broken, list(story(broken[0]))
    assert {fault.place for fault in every} == {"call", "statement"}


def test_fault_happens_once_at_its_place(modules: Instrumented) -> None:
    crash = Fault("worker-1", CALL, 3, "crash before it is sent")

    done = run("workers", Plan(0, SMALL, (crash,)), modules)

    assert done.plan.faults == (crash,)
    assert any(event.process == "worker-1.2" for event in done.events)


def _output(command: list[str]) -> str:
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'lambda_src'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_long_day_of_a_mapping_holds(modules: Instrumented) -> None:
    done = run("day", Plan(0, {"messages": 2_000}), modules)

    assert not done.breaches, done.breaches
    assert done.seconds >= 0.2 * 86_400
