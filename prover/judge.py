"""Puts spoiled copies of the core through the quick explorations: `python -m prover.judge`, a verdict for each line.

A server, because the libraries are slow to load and never spoiled: it loads them once and forks for each copy, which then
imports the core afresh. So nothing here may import the core, or a module of the prover that does, before the fork.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback

import aws_lambda_powertools.utilities.batch
import aws_lambda_powertools.utilities.data_classes.sqs_event
import aws_lambda_powertools.utilities.idempotency
import boto3
import greenlet

LONGEST_SECONDS = 120
"""A copy that takes longer never ends; the quick explorations of the unspoiled core take two seconds."""

_PRELOADED = (aws_lambda_powertools, boto3, greenlet)


def judge() -> str:
    """The law that the core on the path breaks first, or how it fails to run at all; empty if it survives."""
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


def main() -> None:
    """Answer each line on standard input, a path to a copy of the core, with a verdict in JSON."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            signal.alarm(LONGEST_SECONDS)
            sys.path.insert(0, line.strip())
            os.write(writer, judge().encode()[:4_000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as said:
            verdict = said.read().decode(errors="replace")
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            verdict = "does not end"
        sys.stdout.write(json.dumps(verdict) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
