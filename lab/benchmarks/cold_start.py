"""Cold start: CPU of importing the handler and making its clients, beside the floor, and its breakdown.

    python -m lab.benchmarks.cold_start [--short] [--json]

The floor is Python, boto3 and one client. Our handler switches garbage collection off while it imports, so there is a
second floor that does the same, and Powertools starts both ways. Each start is a new process. The starts take turns,
and the least CPU time (user and system, of the child) of each counts, because other work only adds to it. The
breakdown is `python -X importtime`: a module's own time without its imports, the least of some starts. The largest
modules that the floor does not import are named.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from lab.benchmarks.harness.command import measurement_parser, print_figures, run_main
from lab.benchmarks.harness.figures import cell_text, table

ROOT = Path(__file__).resolve().parents[2]
SOURCE = os.pathsep.join((str(ROOT / "lambda_src"), str(ROOT)))
PYTHON, FLOOR, HANDLER = "Python alone", "floor: Python, boto3, one client", "our handler"
FEW = 3
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


def measure(runs: int) -> Iterator[dict[str, dict[str, float]]]:
    """Yield the least CPU (ms) and memory (MB) of each start: once after `FEW` rounds, and once after all."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    for statement in STARTS.values():
        start(statement)  # compiles the modules
    for done in range(1, runs + 1):
        for name, statement in STARTS.items():
            seen[name].append(start(statement))
        if done in (FEW, runs):
            yield {
                name: {
                    "cpu_ms": min(seconds for seconds, _ in measured) * 1000,
                    "memory_mb": min(memory for _, memory in measured),
                }
                for name, measured in seen.items()
            }


def import_times(statement: str, runs: int) -> dict[str, float]:
    """Return the milliseconds of each module's own import, the least of `runs` starts."""
    least: dict[str, float] = {}
    command = [sys.executable, "-X", "importtime", "-c", statement]
    for _ in range(runs):
        answer = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
        for line in answer.stderr.splitlines():
            own, _, name = line.removeprefix("import time:").split("|") if line.count("|") == 2 else ("", "", "")
            if own.strip().isdecimal():
                module, milliseconds = name.strip(), int(own) / 1000
                least[module] = min(milliseconds, least.get(module, milliseconds))
    return least


def by_package(modules: Mapping[str, float]) -> dict[str, float]:
    """Return import times summed by package, the largest first."""
    packages: defaultdict[str, float] = defaultdict(float)
    for module, milliseconds in modules.items():
        packages[package(module)] += milliseconds
    return dict(sorted(packages.items(), key=lambda pair: -pair[1]))


def package(module: str) -> str:
    """Return a module's package: each of Powertools' utilities is one, and the standard library is one."""
    top = module.split(".", maxsplit=1)[0]
    if top in sys.stdlib_module_names:
        return "standard library"
    parts = module.split(".")
    if parts[:2] == ["aws_lambda_powertools", "utilities"] and len(parts) > 2:
        return ".".join(parts[:3])
    return top


def package_sizes() -> dict[str, float]:
    """Return the KB deployed, uncompressed: our own code and the pinned packages. Lambda's runtime brings boto3."""
    pinned = re.findall(r"^([a-z-_]+)==", (ROOT / "lambda_src" / "requirements.txt").read_text(), flags=re.MULTILINE)
    sizes = {
        name: sum(
            Path(str(file.locate())).stat().st_size
            for file in distribution(name).files or ()
            if file.suffix != ".pyc" and Path(str(file.locate())).exists()
        )
        for name in pinned
    }
    ours = (*(ROOT / "lambda_src").rglob("*.py"), *(ROOT / "oneslot" / "runtime").rglob("*.py"))
    sizes["our own code"] = sum(path.stat().st_size for path in ours)
    return {name: size / 1024 for name, size in sizes.items()}


@dataclass(frozen=True)
class Figures:
    """CPU (ms) and memory (MB) of each start; import ms by package, and by module beyond the floor's; KB deployed."""

    starts: Mapping[str, Mapping[str, float]]
    imports_ms: Mapping[str, float]
    modules_ms: Mapping[str, float]
    package_kb: Mapping[str, float]


def run(runs: int) -> Iterator[Figures]:
    """Yield the figures twice: after few rounds, and after all."""
    ours, floor = import_times(STARTS[HANDLER], FEW), import_times(STARTS[FLOOR], FEW)
    more = sorted(((module, own) for module, own in ours.items() if module not in floor), key=lambda pair: -pair[1])
    for measured in measure(runs):
        yield Figures(measured, by_package(ours), dict(more), package_sizes())


def starts(figures: Sequence[Figures]) -> str:
    """Return the last starts as a Markdown table."""
    measured = figures[-1].starts
    floor = measured[FLOOR]["cpu_ms"]
    rows: Sequence[Sequence[Any]] = [
        [name, each["cpu_ms"], each["cpu_ms"] / floor, each["memory_mb"]] for name, each in measured.items()
    ]
    return table(["start", "CPU ms", "x floor", "memory MB"], rows)


def tables(figures: Sequence[Figures]) -> str:
    """Return the last figures as Markdown: starts, imports, sizes."""
    one = figures[-1]
    packages = ", ".join(f"{name} {cell_text(ms)}" for name, ms in list(one.imports_ms.items())[:10])
    deployed = ", ".join(f"{name} {cell_text(kilobytes)} KB" for name, kilobytes in one.package_kb.items())
    return "\n\n".join(
        [
            starts(figures),
            f"Imports of the handler, a package's own ms: {packages}.",
            f"Deployed: {deployed}.",
        ]
    )


def main() -> int:
    """Print the tables. Return the exit status: 130 after an interrupt."""
    options = measurement_parser(__doc__, short="few starts").parse_args()
    return print_figures(run(FEW if options.short else 15), tables, as_lines=options.json)


if __name__ == "__main__":
    sys.exit(run_main(main))
