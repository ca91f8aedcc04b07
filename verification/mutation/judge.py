"""Put mutants of the core through the quick explorations, or through unit tests: `python -m verification.mutation.judge`.

A server, because the libraries are slow to load and never spoiled: it loads them once and forks for each copy, which then
imports the core afresh. So nothing here may import the core, or a module of the prover that does, before the fork.

Each line on standard input is {"core": path, "do": what, "with": [...]} in JSON, each line on standard output the answer:

- "explore": how the copy was found out, empty if it was not; "with": which explorations, and the scenario that comes first.
- "test": the first of the tests in "with" that fails; empty if none does.
- "survey": which functions of the core each of the tests in "with" reaches; see `Survey`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
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

from verification.mutation.mutants import DOES_NOT_RUN
from verification.mutation.survey import Surveyor

ROOT = Path(__file__).resolve().parents[2]
EXPLORING_SECONDS = {"quick": 12, "groups": 30}
"""Processor time after which a copy is said never to end; the unspoiled core is explored in a sixth of it."""

TEST_SECONDS = 10
"""The same for one test, of which the slowest takes three."""

WAITING_SECONDS = 120
"""Time on the clock, for a test that only waits. More than ever passes for another, however busy the machine is."""

_PRELOADED = (aws_lambda_powertools, boto3, greenlet, hypothesis, moto, redis)


class _FirstFailure:
    """A pytest plugin: the first test, or file, that fails."""

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
    """The law that the core on the path breaks first, or how it fails to run at all."""
    signal.setitimer(signal.ITIMER_PROF, EXPLORING_SECONDS[room])
    try:
        from oneslot.explorer.explorer import explore
        from oneslot.explorer.scenario import OURS, OURS_IN_GROUPS
        from verification.scenarios.group_scenarios import GROUPS_SHORT
        from verification.scenarios.scenarios import QUICK

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


def tested(core: str, tests: list[str]) -> str:
    """The first of these tests that fails with the core on the path."""
    first = _FirstFailure()
    status = _pytest(core, ["-x", *tests], first)
    return first.name or ("" if status == pytest.ExitCode.OK else "the tests do not run")


def surveyed(core: str, tests: list[str]) -> str:
    """What the tests reach, in JSON; or the first test that fails."""
    surveyor, first = Surveyor(core), _FirstFailure()
    with surveyor:
        _pytest(core, tests, surveyor, first)
    return first.name or surveyor.survey.to_json()


def _pytest(core: str, arguments: list[str], *plugins: object) -> int:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    # Always the same examples, however long they take: what catches a mutant today catches it tomorrow.
    hypothesis.settings.register_profile(
        "judge", derandomize=True, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    options = ["-q", "-p", "no:cacheprovider", "--tb=no", "--hypothesis-profile=judge", f"--timeout={WAITING_SECONDS}"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of libraries that are loaded already
    options += ["-o", f"pythonpath={core} {ROOT}", "-m", "not embedded_aws and not valkey"]
    return int(pytest.main([*options, *arguments], plugins=list(plugins)))


DEEDS = {
    "explore": lambda wanted: explored(*wanted["with"]),
    "test": lambda wanted: tested(wanted["core"], wanted["with"]),
    "survey": lambda wanted: surveyed(wanted["core"], wanted["with"]),
}


def in_a_fork(wanted: dict[str, Any]) -> str:
    """Do what is wanted in a child, which imports the core of the copy."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        sys.path.insert(0, wanted["core"])
        answer = DEEDS[wanted["do"]](wanted)
        with os.fdopen(writer, "wb") as telling:
            telling.write(answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        answer = said.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return "does not end"
    return answer if status == 0 else DOES_NOT_RUN


def main() -> None:
    """Answer each line on standard input."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(in_a_fork(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
