"""Cold start: CPU of importing the handler and making its clients, beside the floor, and where it goes.

    python -m benchmarks.cold_start [--short] [--json]

The floor is Python, boto3 and one client: nobody who speaks to DynamoDB with boto3 starts in less. Each start is a new process,
medians of CPU time (user and system, of the child), started in turn so that a busy machine is as unkind to each. The breakdown
is `python -X importtime`: the time of a module itself, without those that it imports, summed by package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from benchmarks.bench_kit import table

SOURCE = Path(__file__).resolve().parent.parent / "lambda_src"
PYTHON, FLOOR, HANDLER = "Python alone", "floor: Python, boto3, one client", "our handler"
STARTS: Mapping[str, str] = {
    PYTHON: "pass",
    FLOOR: "import boto3; boto3.client('dynamodb')",
    "and a second client": "import boto3; boto3.client('dynamodb'); boto3.client('sqs')",
    "Powertools' batch and idempotency, one client": (
        "import boto3; boto3.client('dynamodb');"
        "import aws_lambda_powertools.utilities.batch, aws_lambda_powertools.utilities.idempotency;"
        "from aws_lambda_powertools import Logger, Metrics"
    ),
    HANDLER: "import handler",
}
ENVIRONMENT = {
    "LEDGER_TABLE": "ledger",
    "SLOTS_TABLE": "slots",
    "APPOINTMENTS_TABLE": "appointments",
    "QUEUE_URL": "https://sqs.example/requests",
    "DEAD_LETTER_QUEUE_URL": "https://sqs.example/requests-dead-letters",
    "LEDGER_RETENTION_SECONDS": "2592000",
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


def environment() -> dict[str, str]:
    """What the function finds at its start."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **ENVIRONMENT}


def start(statement: str) -> tuple[float, float]:
    """CPU seconds and memory (MB) of a Python that runs a statement and ends."""
    command = [sys.executable, "-c", _CPU_OF, statement]
    answer = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    status, seconds, kilobytes = json.loads(answer.stdout)
    if status:
        raise RuntimeError(f"{statement!r} failed: {answer.stderr}")
    return seconds, kilobytes / 1024


def measure(runs: int) -> dict[str, dict[str, float]]:
    """Median CPU (ms) and memory (MB) of each start."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    for statement in STARTS.values():
        start(statement)  # compiles what was never imported
    for _ in range(runs):
        for name, statement in STARTS.items():
            seen[name].append(start(statement))
    return {
        name: {
            "cpu_ms": statistics.median(seconds for seconds, _ in measured) * 1000,
            "memory_mb": statistics.median(memory for _, memory in measured),
        }
        for name, measured in seen.items()
    }


def breakdown(statement: str) -> dict[str, float]:
    """Milliseconds of import by package, the modules' own time."""
    command = [sys.executable, "-X", "importtime", "-c", statement]
    lines = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stderr.splitlines()
    packages: Counter[str] = Counter()
    for line in lines:
        own, _, name = line.removeprefix("import time:").split("|") if line.count("|") == 2 else ("", "", "")
        if own.strip().isdecimal():
            packages[package(name.strip())] += int(own)
    return {name: micros / 1000 for name, micros in packages.most_common()}


def package(module: str) -> str:
    """The package that a module is of, with Powertools' utilities apart, and the standard library in one."""
    top = module.split(".", maxsplit=1)[0]
    if top in sys.stdlib_module_names:
        return "standard library"
    parts = module.split(".")
    if parts[:2] == ["aws_lambda_powertools", "utilities"] and len(parts) > 2:
        return ".".join(parts[:3])
    return top


def package_sizes() -> dict[str, float]:
    """KB of what is deployed, uncompressed: our own code and the pinned packages; boto3 comes with Lambda's runtime."""
    pinned = re.findall(r"^([a-z-_]+)==", (SOURCE / "requirements.txt").read_text(), flags=re.MULTILINE)
    sizes = {
        name: sum(
            Path(str(file.locate())).stat().st_size
            for file in distribution(name).files or ()
            if file.suffix != ".pyc" and Path(str(file.locate())).exists()
        )
        for name in pinned
    }
    sizes["our own code"] = sum(path.stat().st_size for path in SOURCE.rglob("*.py"))
    return {name: size / 1024 for name, size in sizes.items()}


def tables(measured: Mapping[str, Mapping[str, float]], packages: Mapping[str, float]) -> str:
    """Both as Markdown."""
    floor = measured[FLOOR]["cpu_ms"]
    rows: Sequence[Sequence[Any]] = [
        [name, one["cpu_ms"], one["cpu_ms"] / floor, one["memory_mb"]] for name, one in measured.items()
    ]
    biggest = sorted(packages.items(), key=lambda pair: -pair[1])[:14]
    return (
        table(["start", "CPU ms", "x floor", "memory MB"], rows)
        + "\n\nImports of the handler, a package's own time:\n\n"
        + table(["package", "ms"], [list(pair) for pair in biggest])
        + "\n\nWhat is deployed:\n\n"
        + table(["part", "KB"], [list(pair) for pair in package_sizes().items()])
    )


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few starts")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    measured = measure(3 if options.short else 15)
    packages = breakdown(STARTS[HANDLER])
    if options.json:
        print(json.dumps({"starts": measured, "imports_ms": packages, "package_kb": package_sizes()}))
    else:
        print(tables(measured, packages))


if __name__ == "__main__":
    main()
