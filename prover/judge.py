"""Puts spoiled copies of the core through the quick explorations, or through unit tests: `python -m prover.judge`.

A server, because the libraries are slow to load and never spoiled: it loads them once and forks for each copy, which then
imports the core afresh. So nothing here may import the core, or a module of the prover that does, before the fork.

Each line on standard input is {"core": path, "tests": [paths]} in JSON, tests empty for the explorations; each line on
standard output a verdict: how the copy was found out, empty if it was not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import aws_lambda_powertools.metrics
import aws_lambda_powertools.utilities.batch
import aws_lambda_powertools.utilities.data_classes.sqs_event
import aws_lambda_powertools.utilities.idempotency
import boto3
import greenlet
import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SECONDS = 600
"""A copy that takes longer never ends; the unspoiled core takes two seconds to explore, and twenty to test."""

_PRELOADED = (aws_lambda_powertools, boto3, greenlet)


class _FirstFailure:
    """A pytest plugin: the first test, or file, that fails."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failed test."""
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be loaded."""
        if report.failed and not self.name:
            self.name = report.nodeid


def explored() -> str:
    """The law that the core on the path breaks first, or how it fails to run at all."""
    try:
        from prover.explorer import explore
        from prover.scenario import OURS
        from prover.scenarios import QUICK

        for scenario in QUICK:
            exploration = explore(scenario, OURS, stop_at_first=True)
            if exploration.breaches:
                first = exploration.breaches[0]
                return f"{first.laws[0]} ({scenario.name}, {len(first.path) - 1} steps)"
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"does not run: {type(error).__name__} in {at.name}"
    return ""


def tested(core: str, tests: list[str]) -> str:
    """The first of these tests that fails with the core on the path."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    options = ["-q", "-x", "-p", "no:cacheprovider", "--tb=no", "-o", f"pythonpath={core} {ROOT}"]
    first = _FirstFailure()
    status = pytest.main([*options, "-m", "not embedded_aws and not valkey", *tests], plugins=[first])
    return first.name or ("" if status == pytest.ExitCode.OK else "the tests do not run")


def main() -> None:
    """Answer each line on standard input."""
    for line in sys.stdin:
        wanted: dict[str, Any] = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            signal.alarm(LONGEST_SECONDS)
            sys.path.insert(0, wanted["core"])
            verdict = tested(wanted["core"], wanted["tests"]) if wanted["tests"] else explored()
            os.write(writer, verdict.encode()[:4_000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as said:
            verdict = said.read().decode(errors="replace")
        _, status = os.waitpid(child, 0)
        if status != 0:
            verdict = "does not end" if os.WIFSIGNALED(status) else "does not run"
        sys.stdout.write(json.dumps(verdict) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
