"""How the audit scales: in files, in requests, in workers, with skewed keys, and on paper on AWS Glue.

    python -m lab.benchmarks.audit.scale [--files 2000 20000] [--requests 1000000 10000000] [--shared 2000000] [--write]

Each audit runs in a process of its own. `--write` puts the tables into lab/docs/audit-scale.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lab.benchmarks.audit.data import Requests, export_arn, write_full
from oneslot.audit.layout import Full, Part, write_export
from oneslot.audit.spark import sizing
from oneslot.audit.spark.java import find_java, launcher_home
from oneslot.audit.spark.session import size_on_disk

PAGE = Path(__file__).parents[3] / "lab" / "docs" / "audit-scale.md"
HOT_COPIES = 100_000
WORKER_MEMORY = "2g"
TURN_SECONDS = 0.05
BILLION_REQUESTS_ITEMS = 3_000_000_000
HOST = "127.0.0.1"


def tree_cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process and of all that it started: Spark's Python workers are children of Java."""
    fields = {
        int(path.parent.name): path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")
    }
    family = {process}
    while more := {each for each, of in fields.items() if int(of[1]) in family} - family:
        family |= more
    ticks = sum(int(time) for each in family for time in fields[each][11:15])  # of ended children, too
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(history: str, output: str, master: str, tables: bool) -> dict[str, Any]:
    """Audit a history as `oneslot audit` does, and return the driver's figures and the bytes of all stages."""
    import py4j.clientserver

    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings
    from oneslot.audit.spark.session import SessionSettings, open_session

    calls = [0]
    send = py4j.clientserver.JavaClient.send_command

    def counted(self: Any, *given: Any, **named: Any) -> Any:
        calls[0] += 1
        return send(self, *given, **named)

    py4j.clientserver.JavaClient.send_command = counted
    scratch = str(Path(output).parent / "scratch")
    settings = AuditSettings(history, output, tables=tables)
    spark = open_session(SessionSettings(master=master, scratch=scratch, reads_bytes=settings.reads_bytes))
    before, began, started = calls[0], time.time(), time.monotonic()
    conclusion = audit(spark, settings)
    seconds, made = time.monotonic() - started, calls[0] - before
    java: Any = spark._jvm
    pid = int(java.java.lang.ProcessHandle.current().pid())
    context: Any = spark._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    found = [jobs.apply(number) for number in range(jobs.size())]
    first = min(job.submissionTime().get().getTime() for job in found) / 1000
    numbers = {ids.apply(place) for job in found for ids in [job.stageIds()] for place in range(ids.size())}
    stages = [context.statusStore().lastStageAttempt(number) for number in sorted(numbers)]
    return {
        "seconds": seconds,
        "before_first_job": first - began,
        "calls": made,
        "jobs": len(found),
        "stages": sum(job.numCompletedStages() for job in found),
        "cpu_seconds": tree_cpu_seconds(pid),
        "peak_gb": int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1e6,
        "read_gb": sum(stage.inputBytes() for stage in stages) / 1e9,
        "shuffled_gb": sum(stage.shuffleWriteBytes() for stage in stages) / 1e9,
        "written_gb": (size_on_disk(output) or 0) / 1e9,
        "sound": conclusion.sound,
    }


def run(
    history: Path, name: str, master: str = "local[*]", more: Mapping[str, str] | None = None, *, tables: bool = True
) -> dict[str, Any]:
    """Run `measure` in a process of its own, with `more` in its environment."""
    output = history.parent / name
    command = [sys.executable, "-m", "lab.benchmarks.audit.scale", "--measure", str(history), str(output), master]
    command += ["--verdicts-only"] if not tables else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | (more or {}))
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
    """Run a standalone cluster of workers with half of a core each. Yield its URL and the driver's environment."""
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
    master = [f"{deploy}.master.Master", "--host", HOST, "--port", port, "--webui-port", str(free_port())]
    worker = [f"{deploy}.worker.Worker", "--host", HOST, "-c", "1", "-m", WORKER_MEMORY, "-d", str(folder / "work")]
    with ExitStack() as running, (folder / f"cluster-{workers}.log").open("w") as log:

        def start(*arguments: str) -> int:
            command, env = [*java, *arguments], {**os.environ, **environment}
            # A worker's executors are in its process group.
            process = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
            running.callback(process.wait)
            running.callback(process.terminate)
            time.sleep(5)
            return process.pid

        start(*master)
        groups = [start(*worker, "--webui-port", str(free_port()), f"spark://{HOST}:{port}") for _ in range(workers)]
        with taking_turns(groups):
            yield f"spark://{HOST}:{port}", environment


@contextmanager
def taking_turns(groups: Sequence[int]) -> Iterator[None]:
    """Stop each process group for every other turn. Two workers then use one core, and leave the driver the other."""
    over = threading.Event()

    def alternate() -> None:
        turn = 0
        while not over.wait(TURN_SECONDS):
            turn += 1
            for number, group in enumerate(groups):
                os.killpg(group, signal.SIGCONT if (turn + number) % 2 else signal.SIGSTOP)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for group in groups:
            os.killpg(group, signal.SIGCONT)


def free_port() -> int:
    """Return a port on the loopback that is free now."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def glue_rows() -> list[str]:
    """Return the plan for growing histories on AWS Glue, from `oneslot.audit.spark.sizing`."""
    rows = ["| requests | workers (G.1X) | hours | dollars |", "| --- | --- | --- | --- |"]
    for items in (3_000_000, 300_000_000, BILLION_REQUESTS_ITEMS):
        plan = sizing.Sizing(items)
        rows.append(f"| {items // 3:,} | {plan.workers} | {plan.hours:.2f} | {plan.dollars:.2f} |")
    return rows


ASSUMPTIONS = f"""Assumed, because none of this ran on Glue:

- three items a request, {sizing.CPU_SECONDS * 1e6:.0f} µs of CPU and {sizing.SHUFFLE_BYTES} bytes of shuffle an item;
- half of the shuffle again for spills, and {sizing.WORKER_DISK_GB} GB of each worker's disk for both;
- a worker's four vCPU work as {sizing.WORKER_CORES:.1f} cores, and one worker is the driver;
- {sizing.START_HOURS * 60:.0f} minutes to start, and {sizing.DOLLARS_PER_WORKER_HOUR} $ for a worker and hour."""


def table(*rows: Sequence[str]) -> str:
    """Return a table of a page, from its head and its rows."""
    head, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *others])


def in_files(counts: Sequence[int], folder: Path) -> str:
    """Return the table by the number of the ledger's files."""
    rows = []
    for count in counts:
        write_many_files(folder / "files", count)
        found = run(folder / "files", f"files-{count}")
        shutil.rmtree(folder / "files")
        numbers = [f"{found[name]:,}" for name in ("calls", "jobs", "stages")]
        seconds = [f"{found[name]:.1f}" for name in ("seconds", "before_first_job")]
        rows.append([f"{count:,}", *seconds, *numbers, f"{found['cpu_seconds']:.0f}", f"{found['peak_gb']:.1f}"])
    head = ["ledger files", "s", "before the first job, s", "calls to Java", "jobs", "stages", "CPU s", "peak GB"]
    return table(head, *rows)


def in_requests(sizes: Sequence[int], folder: Path) -> str:
    """Return the table of what each million requests takes."""
    rows = []
    for requests in sizes:
        history, millions = folder / "requests", requests / 1e6
        write_full(history, Requests(0, requests), ahead=requests // 100)
        verdicts, whole = (run(history, f"requests-{requests}", tables=tables) for tables in (False, True))
        exported = (size_on_disk(str(history)) or 0) / 1e9
        shutil.rmtree(history)
        cpu = [f"{found['cpu_seconds'] / millions:.0f}" for found in (verdicts, whole)]
        sizes_gb = [exported, verdicts["read_gb"], verdicts["shuffled_gb"], whole["written_gb"]]
        sizes_each = [f"{size / millions:.2f}" for size in sizes_gb]
        rows.append([f"{requests:,}", *cpu, *sizes_each, f"{whole['peak_gb']:.1f}"])
    head = ["requests", "CPU s, verdicts alone", "CPU s", "GB exported", "GB read", "GB shuffled", "GB written"]
    return table([*head, "peak GB in all"], *rows)


def in_workers(history: Path) -> str:
    """Return the table of one worker and two."""
    taken = []
    for workers in (1, 2):
        with cluster(workers, history.parent) as (master, environment):
            taken.append(run(history, f"workers-{workers}", master, environment)["seconds"])
    one, two = taken
    return table(["workers", "s", "efficiency"], ["1", f"{one:.1f}", ""], ["2", f"{two:.1f}", f"{one / two / 2:.0%}"])


def with_skew(history: Path) -> str:
    """Return the table of even and skewed keys. The history is skewed afterwards."""
    even = run(history, "even")
    skew(history)
    uneven = run(history, "skewed")
    hot = f"half of all requests at one practice, and one id with {HOT_COPIES:,} deliveries"
    rows = {"even": even, hot: uneven}
    figures = ([name, f"{found['seconds']:.1f}", f"{found['cpu_seconds']:.0f}"] for name, found in rows.items())
    return table(["keys", "s", "CPU s"], *figures)


def compare(files: Sequence[int], sizes: Sequence[int], shared: int, folder: Path) -> str:
    """Run everything and return the page."""
    parts = ["# How the audit scales", "<!-- Made by `python -m lab.benchmarks.audit.scale --write`. -->"]
    parts += [
        f"All audits here write tables and report, on {os.cpu_count()} cores. `make -C lab bench-audit` measures them."
    ]
    parts += ["## In files: one row of the ledger in each", in_files(files, folder)]
    parts += ["## In requests: figures for each million", in_requests(sizes, folder)]
    parts += ["The bytes read and shuffled are those of the verdicts alone."]
    history = folder / "history"
    write_full(history, Requests(0, shared), ahead=shared // 100)
    parts += [f"## In workers: {shared:,} requests on a standalone cluster", in_workers(history)]
    parts += ["Each worker runs for half of the time, in turns, so that two of them leave the driver a core."]
    parts += [f"## With skewed keys: {shared:,} requests", with_skew(history)]
    parts += ["## On AWS Glue, computed", "\n".join(glue_rows()), ASSUMPTIONS]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--requests", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--shared", type=int, default=2_000_000, help="requests that two workers share")
    parser.add_argument("--folder", type=Path, help="parent of the data, about 0.9 GB for each million requests")
    parser.add_argument("--write", action="store_true", help="put the tables into lab/docs/audit-scale.md")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--verdicts-only", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        history, output, master = given.measure
        print(json.dumps(measure(history, output, master, tables=not given.verdicts_only)))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="audit-scale-", dir=given.folder))
    try:
        page = compare(given.files, given.requests, given.shared, folder)
    finally:
        shutil.rmtree(folder)
    print(page)
    if given.write:
        PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
