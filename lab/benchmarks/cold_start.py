"""Cold start: CPU of importing the handler and making its clients, beside the floor.

    python -m lab.benchmarks.cold_start [--short]

The floor is Python, boto3 and one client. Our handler switches garbage collection off while it imports, so there is a
second floor that does the same, and Powertools starts both ways. Each start is a new process. The starts take turns,
and the least CPU time (user and system, of the child) of each counts, because other work only adds to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks.harness.command import print_figures, run_main, short_option
from lab.benchmarks.harness.figures import table

ROOT = Path(__file__).resolve().parents[2]
SOURCE = os.pathsep.join((str(ROOT / "lambda_src"), str(ROOT)))
PYTHON, FLOOR, HANDLER = "Python alone", "floor: Python, boto3, one client", "our handler"
UNCOLLECTED = "the floor without garbage collection"
_UNCOLLECTED, _CLIENT = "import gc; gc.disable();", "import boto3; boto3.client('dynamodb')"
_POWERTOOLS = (
    f"{_CLIENT}; import aws_lambda_powertools.utilities.batch, aws_lambda_powertools.utilities.idempotency;"
    "from aws_lambda_powertools import Logger, Metrics"
)
STARTS: Mapping[str, str] = {
    PYTHON: "pass",
    FLOOR: _CLIENT,
    UNCOLLECTED: f"{_UNCOLLECTED} {_CLIENT}",
    "and a second client": f"{_CLIENT}; boto3.client('sqs')",
    "Powertools' batch and idempotency, one client": _POWERTOOLS,
    "these without garbage collection": f"{_UNCOLLECTED} {_POWERTOOLS}",
    HANDLER: "import handler",
}
ENVIRONMENT = {
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_TABLE_SLOTS": "slots",
    "ONESLOT_TABLE_APPOINTMENTS": "appointments",
    "ONESLOT_QUEUE_URL": "https://sqs.example/requests",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://sqs.example/requests-dead-letters",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "2592000",
    "BATCH_CONCURRENCY": "10",
    "CANDIDATE_SLOTS": "16",
    "CONTENT_BASED_DEDUPLICATION": "false",
    "GROUP_COMMIT": "true",
    "POWERTOOLS_SERVICE_NAME": "appointments",
    "POWERTOOLS_METRICS_NAMESPACE": "Oneslot",
    "AWS_DEFAULT_REGION": "eu-west-2",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_CPU_OF = (
    "import json, os, resource, sys\n"
    "pid = os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, '-c', sys.argv[1]], dict(os.environ))\n"
    "_, status, used = os.wait4(pid, 0)\n"
    "print(json.dumps([status, used.ru_utime + used.ru_stime, used.ru_maxrss]))\n"
)


@dataclass(frozen=True)
class Start:
    """The least CPU and memory of one start."""

    name: str
    cpu_ms: float
    memory_mb: float


def environment() -> dict[str, str]:
    """Return the function's environment at its start."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE, **ENVIRONMENT}


def start(statement: str) -> tuple[float, float]:
    """Return CPU seconds and memory (MB) of a Python that runs a statement, without its exit, which Lambda never reaches."""
    command = [sys.executable, "-c", _CPU_OF, f"{statement}; import os; os._exit(0)"]
    answer = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    status, seconds, kilobytes = json.loads(answer.stdout)
    if status:
        raise RuntimeError(f"{statement!r} failed: {answer.stderr}")
    return seconds, kilobytes / 1024


def measure(runs: int) -> Iterator[Start]:
    """Yield the least CPU and memory of each start, after `runs` rounds."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    for statement in STARTS.values():
        start(statement)  # compiles the modules
    for _ in range(runs):
        for name, statement in STARTS.items():
            seen[name].append(start(statement))
    for name, measured in seen.items():
        cpu, memory = zip(*measured, strict=True)
        yield Start(name, min(cpu) * 1000, min(memory))


def tables(starts: Sequence[Start]) -> str:
    """Return the starts as a Markdown table."""
    floor = next(one.cpu_ms for one in starts if one.name == FLOOR)
    rows = [[one.name, one.cpu_ms, one.cpu_ms / floor, one.memory_mb] for one in starts]
    return table(["start", "CPU ms", "x floor", "memory MB"], rows)


def main() -> int:
    """Print the table. Return the exit status: 130 after an interrupt."""
    return print_figures(measure(3 if short_option(__doc__, "few starts") else 15), tables)


if __name__ == "__main__":
    sys.exit(run_main(main))
