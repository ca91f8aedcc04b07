"""Judge mutants of the core by the quick explorations or by unit tests: `python -m lab.mutation.judge`.

It is a server, because the libraries load slowly and never change. It loads them once and forks for each mutant, and the
child imports the mutated core. So nothing here may import the core, or a module that does, before the fork.

Each line on standard input is {"core": path, "do": task, "with": [...]} in JSON, each line on standard output its answer:

- "explore": the breach that was found, empty if none; "with" holds the room of explorations and the first scenario.
- "simulate": the law that is broken first, empty if none; "with" holds the first seed, how many, and the scenarios.
- "test": the first of the tests in "with" that fails; empty if none does.
- "survey": the functions of the core that each of the tests in "with" reaches; see `Survey`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aws_lambda_powertools.metrics
import aws_lambda_powertools.utilities.batch
import aws_lambda_powertools.utilities.data_classes.sqs_event
import aws_lambda_powertools.utilities.idempotency
import boto3
import greenlet
import hypothesis
import hypothesis.strategies
import moto
import moto.dynamodb.responses
import moto.sqs.responses
import pytest
import redis

from lab.mutation.mutants import DOES_NOT_RUN
from lab.mutation.survey import Surveyor

ROOT = Path(__file__).resolve().parents[2]
EXPLORING_SECONDS = {"quick": 12, "groups": 30}
"""The processor time after which a mutant counts as endless; the unchanged core takes a sixth of it."""

SIMULATING_SECONDS = 600
"""The processor time of all seeds; 200 seeds of the slowest scenario take a third of it."""

TEST_SECONDS = 10
"""The processor time of one test; the slowest takes three."""

WAITING_SECONDS = 120
"""The wall-clock time of a test that only waits; far more than any other test takes on a busy machine."""

_PRELOADED = (aws_lambda_powertools, boto3, greenlet, hypothesis, moto, redis)


class _FirstFailure:
    """A pytest plugin that keeps the first test, or file, that fails."""

    def __init__(self) -> None:
        self.name = ""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Fail a test that never ends."""
        signal.signal(signal.SIGPROF, lambda number, frame: pytest.fail("does not end"))
        signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS, TEST_SECONDS)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failed test."""
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be loaded."""
        if report.failed and not self.name:
            self.name = report.nodeid


def explored(room: str, first: str) -> str:
    """Return the law that the core on the path breaks first, or the error that ended the exploration."""
    signal.setitimer(signal.ITIMER_PROF, EXPLORING_SECONDS[room])
    try:
        from lab.explore.budgets import GROUPS_SHORT, QUICK
        from lab.explore.ours import OURS, OURS_IN_GROUPS
        from oneslot.explorer.explorer import explore

        cheapest = sorted(GROUPS_SHORT, key=lambda scenario: scenario.faults + scenario.expiries)
        scenarios, subject = (cheapest, OURS_IN_GROUPS) if room == "groups" else (QUICK, OURS)
        for scenario in sorted(scenarios, key=lambda scenario: scenario.name != first):
            exploration = explore(scenario, subject, stop_at_first=True)
            if exploration.breaches:
                found = exploration.breaches[0]
                return f"{found.laws[0]} ({scenario.name}, {len(found.path) - 1} steps)"
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{DOES_NOT_RUN}: {type(error).__name__} in {at.name}"
    return ""


def simulated(first: int, seeds: int, scenarios: Sequence[str]) -> str:
    """Return the law that the core on the path breaks first in a simulation, or the error that ended the simulation."""
    signal.setitimer(signal.ITIMER_PROF, SIMULATING_SECONDS)
    try:
        from lab.simulation.run import points, run
        from lab.simulation.world.simulation import Plan

        with points() as modules:
            for seed in range(first, first + seeds):
                for scenario in scenarios:
                    breaches = run(scenario, Plan(seed), modules).breaches
                    if breaches:
                        return f"{breaches[0].law} ({scenario}, seed {seed})"
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{DOES_NOT_RUN}: {type(error).__name__} in {at.name}"
    return ""


def tested(core: str, tests: list[str]) -> str:
    """Return the first of these tests that fails with the core on the path."""
    first = _FirstFailure()
    status = _pytest(core, ["-x", *tests], first)
    return first.name or ("" if status == pytest.ExitCode.OK else "the tests do not run")


def surveyed(core: str, tests: list[str]) -> str:
    """Return the survey of the tests in JSON, or the first test that fails."""
    surveyor, first = Surveyor(core), _FirstFailure()
    with surveyor:
        _pytest(core, tests, surveyor, first)
    return first.name or surveyor.survey.to_json()


def _pytest(core: str, arguments: list[str], *plugins: object) -> int:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    # The same examples in every run, so that what catches a mutant today catches it tomorrow.
    hypothesis.settings.register_profile(
        "judge", derandomize=True, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    options = ["-q", "-p", "no:cacheprovider", "--tb=no", "--hypothesis-profile=judge", f"--timeout={WAITING_SECONDS}"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of libraries that are loaded already
    # Append rather than prepend: with the root first, the tests would import the unchanged core.
    options += ["-o", f"pythonpath={core} {ROOT}", "--import-mode=append", "-m", "not embedded_aws and not valkey"]
    return int(pytest.main([*options, *arguments], plugins=list(plugins)))


TASKS = {
    "explore": lambda task: explored(*task["with"]),
    "simulate": lambda task: simulated(int(task["with"][0]), int(task["with"][1]), task["with"][2:]),
    "test": lambda task: tested(task["core"], task["with"]),
    "survey": lambda task: surveyed(task["core"], task["with"]),
}


def run_in_fork(task: dict[str, Any]) -> str:
    """Do a task in a child process, which imports the mutated core."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        sys.path.insert(0, task["core"])
        answer = TASKS[task["do"]](task)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return "does not end"
    return answer if status == 0 else DOES_NOT_RUN


def main() -> None:
    """Answer each line on standard input."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run_in_fork(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
