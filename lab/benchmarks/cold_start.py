"""Cold start: CPU of importing the handler and making its clients, beside the floor.

The floor is Python, boto3 and one client. Our handler switches garbage collection off while it imports, so there is a
second floor that does the same, and Powertools starts both ways. Each start is a new process. The starts take turns,
and the least CPU time (user and system, of the child) of each counts, because other work only adds to it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.benchmarks.handlers import ENVIRONMENT as TABLES_AND_QUEUES
from lab.benchmarks.handlers import table

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
    **TABLES_AND_QUEUES,
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


def start(statement: str) -> tuple[float, float]:
    """Return CPU seconds and memory (MB) of a Python that runs a statement, without its exit, which Lambda never reaches."""
    command = [sys.executable, "-c", _CPU_OF, f"{statement}; import os; os._exit(0)"]
    answer = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    status, seconds, kilobytes = json.loads(answer.stdout)
    if status:
        raise RuntimeError(f"{statement!r} failed: {answer.stderr}")
    return seconds, kilobytes / 1024


def measure(runs: int) -> dict[str, tuple[float, float]]:
    """Return the least CPU seconds and memory of each start, after `runs` rounds."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    for statement in STARTS.values():
        start(statement)  # compiles the modules
    for _ in range(runs):
        for name, statement in STARTS.items():
            seen[name].append(start(statement))
    return {name: (min(cpu for cpu, _ in one), min(memory for _, memory in one)) for name, one in seen.items()}


def tables(short: bool) -> str:
    """Return the starts as a table."""
    found = measure(3 if short else 15)
    rows = [[name, cpu * 1000, cpu / found[FLOOR][0], memory] for name, (cpu, memory) in found.items()]
    return table(["start", "CPU ms", "x floor", "memory MB"], rows)
