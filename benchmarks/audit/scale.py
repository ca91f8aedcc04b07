"""How the audit scales: in files, in workers, with skewed keys, and on paper on AWS Glue.

    python -m benchmarks.audit.scale [--requests 3000000] [--files 2000 20000] [--folder FOLDER] [--write]

Each audit runs in a process of its own. `--write` puts the table into docs/lab/audit-scale.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.audit.data import Requests, export_arn, write_full
from benchmarks.harness.command import run_main
from oneslot.pipeline import sizing
from oneslot.pipeline.java import find_java, launcher_home
from oneslot.pipeline.layout import Full, Part, write_export

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "audit-scale.md"
HOT_COPIES = 100_000
WORKER_MEMORY = "2g"
BILLION_REQUESTS_ITEMS = 3_000_000_000
HOST = "127.0.0.1"


def measure(history: str, output: str, master: str) -> dict[str, Any]:
    """Audit a history with tables and report, and return the driver's figures."""
    import py4j.clientserver

    from oneslot.pipeline.job import audit
    from oneslot.pipeline.session import SessionSettings, open_session
    from oneslot.pipeline.settings import AuditSettings

    calls = [0]
    send = py4j.clientserver.JavaClient.send_command

    def counted(self: Any, *given: Any, **named: Any) -> Any:
        calls[0] += 1
        return send(self, *given, **named)

    py4j.clientserver.JavaClient.send_command = counted
    scratch = str(Path(output).parent / "scratch")
    spark = open_session(SessionSettings(master=master, scratch=scratch))
    before, began, started = calls[0], time.time(), time.monotonic()
    conclusion = audit(spark, AuditSettings(history, output))
    seconds, made = time.monotonic() - started, calls[0] - before
    java: Any = spark._jvm
    pid = int(java.java.lang.ProcessHandle.current().pid())
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    context: Any = spark._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    found = [jobs.apply(number) for number in range(jobs.size())]
    first = min(job.submissionTime().get().getTime() for job in found) / 1000
    return {
        "seconds": seconds,
        "before_first_job": first - began,
        "calls": made,
        "jobs": len(found),
        "stages": sum(job.numCompletedStages() for job in found),
        "cpu_seconds": sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),
        "peak_gb": int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1e6,
        "sound": conclusion.sound,
    }


def run(history: Path, name: str, master: str = "local[*]", more: dict[str, str] | None = None) -> dict[str, Any]:
    """Run `measure` in a process of its own."""
    output = history.parent / name
    command = [sys.executable, "-m", "benchmarks.audit.scale", "--measure", str(history), str(output), master]
    merged = os.environ | (more or {})
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=merged)
    shutil.rmtree(output)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name:24}{result}", flush=True)
    return result


def write_many_files(history: Path, files: int) -> None:
    """Write a history whose ledger has one row in each of its files."""
    whole = Requests(0, files)
    write_full(history, whole, ahead=1)
    lines = [
        line
        for path in sorted((history / "ledger").rglob("*.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    ]
    shutil.rmtree(history / "ledger")
    write_export(history / "ledger", export_arn("ledger"), Full(whole.end), [Part(line, 1) for line in lines])


def skew(history: Path) -> None:
    """Give half of all requests to one practice, and one request 100,000 more deliveries."""
    for path in history.rglob("data/*.gz"):
        changed = re.sub(
            rb"A8\d{3}[02468]", b"A80000", gzip.decompress(path.read_bytes())
        )  # practices with an even code
        path.write_bytes(gzip.compress(changed, 1, mtime=0))
    for manifest in history.rglob("manifest-files.json"):  # the checksums of the files before
        manifest.write_text(re.sub(r'"md5Checksum": "[^"]*", ', "", manifest.read_text()))
        manifest.with_suffix(".md5").unlink()
    with gzip.open(next((history / "deliveries").glob("*.gz"))) as log:
        copy = json.dumps({**json.loads(next(log)), "outcome": "duplicate"}).encode() + b"\n"
    (history / "deliveries" / "hot.jsonl.gz").write_bytes(gzip.compress(copy * HOT_COPIES, 1, mtime=0))


@contextmanager
def cluster(workers: int, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a standalone cluster of workers with one core each. Yield its URL and the driver's environment."""
    spark = Path(str(find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
    home = launcher_home(find_java(os.environ), folder / "java")
    environment = {
        "JAVA_HOME": str(home),
        "SPARK_HOME": str(spark),
        "SPARK_SCALA_VERSION": "2.13",  # else Spark looks for it in folders that only a build has
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_EXECUTOR_MEMORY": WORKER_MEMORY,
    }
    java = [str(home / "bin" / "java"), "-Xmx512m", "-cp", f"{spark}/jars/*"]
    port = str(free_port())
    deploy = "org.apache.spark.deploy"
    processes = [[f"{deploy}.master.Master", "--host", HOST, "--port", port, "--webui-port", str(free_port())]]
    worker = [f"{deploy}.worker.Worker", "--host", HOST, "-c", "1", "-m", WORKER_MEMORY, "-d", str(folder / "work")]
    processes += [[*worker, "--webui-port", str(free_port()), f"spark://{HOST}:{port}"] for _ in range(workers)]
    with ExitStack() as running, (folder / f"cluster-{workers}.log").open("w") as log:
        for arguments in processes:
            process = subprocess.Popen([*java, *arguments], stdout=log, stderr=log, env={**os.environ, **environment})
            running.callback(process.wait)
            running.callback(process.terminate)
            time.sleep(5)
        yield f"spark://{HOST}:{port}", environment


def free_port() -> int:
    """Return a port on the loopback that is free now."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def glue_rows() -> list[str]:
    """Return the plan for growing histories on AWS Glue, from `oneslot.pipeline.sizing`."""
    rows = ["| requests | workers (G.1X) | hours | dollars |", "|---|---|---|---|"]
    for items in (3_000_000, 300_000_000, BILLION_REQUESTS_ITEMS):
        plan = sizing.Sizing(items)
        rows.append(f"| {items // 3:,} | {plan.workers} | {plan.hours:.2f} | {plan.dollars:.2f} |")
    return rows


ASSUMPTIONS = f"""Assumed, because none of this ran on Glue:

- three items a request, {sizing.CPU_SECONDS * 1e6:.0f} µs of CPU and {sizing.SHUFFLE_BYTES} bytes of shuffle an item;
- half of the shuffle again for spills, and {sizing.WORKER_DISK_GB} GB of each worker's disk for both;
- a worker's four vCPU work as {sizing.WORKER_CORES:.1f} cores, and one worker is the driver;
- {sizing.START_HOURS * 60:.0f} minutes to start, and {sizing.DOLLARS_PER_WORKER_HOUR} $ for a worker and hour."""


def compare(requests: int, files: Sequence[int], folder: Path) -> str:
    """Run everything and return the page."""
    head = "| ledger files | s | before the first job, ms a file | calls to Java | jobs | stages | CPU s | peak GB |"
    parts = ["# How the audit scales", "<!-- Made by `python -m benchmarks.audit.scale --write`. -->"]
    rows = [head, "|---|---|---|---|---|---|---|---|"]
    for count in files:
        write_many_files(folder / "files", count)
        found = run(folder / "files", f"files-{count}")
        each = found["before_first_job"] * 1000 / count
        rows.append(
            f"| {count:,} | {found['seconds']:.1f} | {each:.2f} | {found['calls']:,} | {found['jobs']} | {found['stages']} "
            f"| {found['cpu_seconds']:.0f} | {found['peak_gb']:.1f} |"
        )
        shutil.rmtree(folder / "files")
    parts += ["## In files: one row of the ledger in each", "\n".join(rows)]
    history = folder / "history"
    write_full(history, Requests(0, requests), ahead=requests // 100)
    taken = []
    for workers in (1, 2):
        with cluster(workers, folder) as (master, environment):
            taken.append(run(history, f"workers-{workers}", master, environment)["seconds"])
    efficiency = taken[0] / taken[1] / 2
    parts += [
        f"## In workers of one core: {requests:,} requests on a standalone cluster",
        f"| workers | s | efficiency |\n|---|---|---|\n| 1 | {taken[0]:.1f} | |\n| 2 | {taken[1]:.1f} | {efficiency:.0%} |",
    ]
    even = run(history, "even")
    skew(history)
    uneven = run(history, "skewed")
    parts += [
        f"## With skewed keys: {requests:,} requests, `local[*]`",
        "| keys | s | CPU s |\n|---|---|---|\n"
        f"| even | {even['seconds']:.1f} | {even['cpu_seconds']:.0f} |\n"
        f"| half of all requests at one practice, and one id with {HOT_COPIES:,} deliveries | {uneven['seconds']:.1f} "
        f"| {uneven['cpu_seconds']:.0f} |",
        "## On AWS Glue, computed",
        "\n".join(glue_rows()),
        ASSUMPTIONS,
    ]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=3_000_000)
    parser.add_argument("--files", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--folder", type=Path, help="parent of the data, about 0.9 GB for each million requests")
    parser.add_argument("--write", action="store_true", help="put the table into docs/lab/audit-scale.md")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*given.measure)))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="audit-scale-", dir=given.folder))
    try:
        page = compare(given.requests, given.files, folder)
    finally:
        shutil.rmtree(folder)
    print(page)
    if given.write:
        PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
