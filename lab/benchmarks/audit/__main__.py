"""The audit against DuckDB on the same files, and against the floor of reading and decompressing them.

    python -m lab.benchmarks.audit.__main__ [--requests 1000000 5000000 10000000] [--folder FOLDER] [--memory 1536m]
        [--rows WORD ...]

Each measurement is a process of its own. Its peak memory is the largest sum of what its processes hold, Java's and Python's.
Both tools write a row with verdict and evidence for every request and slot, as Parquet sorted by key, and name every violation.
Spark's figure also includes the MD5 of every file, the counts against the manifests, and malformed lines. Two sown corruptions
must be found by both. One worker and two are Java processes of one core each. The last audits have skewed keys: half of all
requests at one practice, and one request with 100,000 deliveries, then with 2,000,000. WORD chooses the rows with this text.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.benchmarks.audit.data import DAY_MS, Requests, write_day, write_full
from oneslot.audit.spark.session import SessionSettings

DAY_SHARE = 100  # a day's change is a hundredth of the history
CORES = os.cpu_count() or 1


def family_of(process: int) -> list[list[str]]:
    """Return the fields of /proc/PID/stat after the name, for a process and all that it started.

    Spark's Python workers are children of Java.
    """
    fields = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that ended meanwhile
            fields[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    family = {process}
    while more := {each for each, of in fields.items() if int(of[1]) in family} - family:
        family |= more
    return [fields[each] for each in family if each in fields]


def tree_cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process and of all that it started, also of those that ended."""
    return sum(int(time) for of in family_of(process) for time in of[11:15]) / os.sysconf("SC_CLK_TCK")


class Peak(threading.Thread):
    """Looks once a second at how much memory this process and all that it started hold. `gb` is the most so far."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.gb = 0.0
        self.start()

    def run(self) -> None:
        """Look until the process ends."""
        while True:
            pages = sum(int(of[21]) for of in family_of(os.getpid()))
            self.gb = max(self.gb, pages * os.sysconf("SC_PAGE_SIZE") / 1e9)
            time.sleep(1)


def floor(folder: Path) -> dict[str, Any]:
    """Decompress every file on all cores."""

    def one(path: Path) -> int:
        total = 0
        with gzip.open(path) as file:
            while block := file.read(1 << 20):
                total += len(block)
        return total

    started = time.monotonic()
    with ThreadPoolExecutor(CORES) as readers:
        size = sum(readers.map(one, sorted(folder.rglob("*.gz"))))
    return {"seconds": time.monotonic() - started, "uncompressed_gb": size / 1e9}


def spark(
    folder: Path, output: Path, memory: str, previous: Path | None, workers: int | None, *, tables: bool, keeps: bool
) -> dict[str, Any]:
    """Measure the audit as `oneslot audit` runs it, or with this many workers of one core."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings
    from oneslot.audit.spark.session import open_session

    peak, started = Peak(), time.monotonic()
    settings = AuditSettings(str(folder), str(output), str(previous) if previous else None, tables=tables, keeps=keeps)
    master = f"local-cluster[{workers},1,2048]" if workers else SessionSettings.master
    scratch = str(output.parent / "scratch")
    session = open_session(SessionSettings(master, memory, scratch=scratch, reads_bytes=settings.reads_bytes))
    opened = time.monotonic() - started
    conclusion = audit(session, settings)
    seconds = time.monotonic() - started
    virtual_machine: Any = session._jvm
    java = int(virtual_machine.java.lang.ProcessHandle.current().pid())
    return {
        "seconds": seconds,
        "of_which_start": opened,
        "cpu_seconds": tree_cpu_seconds(java),
        "peak_gb": peak.gb,
        "java": virtual_machine.java.lang.System.getProperty("java.version"),
        "requests": conclusion.document["requests"],
        "broken": {name: count for name, count in conclusion.document["violations"].items() if count},
    }


def duckdb(folder: Path, output: Path, memory: str) -> dict[str, Any]:
    """Measure the same questions in DuckDB."""
    from lab.benchmarks.audit import duckdb_audit as audit_duckdb

    started = time.monotonic()
    now = audit_duckdb.moment(folder)
    with audit_duckdb.open_history(folder, threads=CORES, memory=f"{memory.upper()}B") as connection:
        connection.execute("set temp_directory = ?", [str(output.parent / "duckdb-scratch")])
        audit_duckdb.gather(connection, now, folder)
        connection.execute(f"copy ({audit_duckdb.JUDGED} order by id) to '{output}' (format parquet, compression zstd)")
        broken = sorted(audit_duckdb.violations(connection))
        requests = connection.execute("select count(*) from requests").fetchall()[0][0]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.monotonic() - started,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss / 1e6,
        "requests": requests,
        "broken": {name: sum(1 for other, _ in broken if other == name) for name, _ in broken},
    }


SKEWED, HOT = "Spark: verdicts, skewed", "Spark: verdicts, 2,000,000 copies"
ONE, TWO = "Spark: verdicts, one worker", "Spark: verdicts, two workers"


def skew(folder: Path) -> None:
    """Give half of all requests to one practice, and one request 100,000 more deliveries."""
    for path in folder.rglob("data/*.gz"):
        # Practices with an even code.
        changed = re.sub(rb"A8\d{3}[02468]", b"A80000", gzip.decompress(path.read_bytes()))
        path.write_bytes(gzip.compress(changed, 1, mtime=0))
    for manifest in folder.rglob("manifest-files.json"):  # the checksums of the files before
        manifest.write_text(re.sub(r'"md5Checksum": "[^"]*", ', "", manifest.read_text()))
        manifest.with_suffix(".md5").unlink()
    repeat(folder, 100_000)


def repeat(folder: Path, copies: int) -> None:
    """Give one request this many more deliveries."""
    with gzip.open(folder / "deliveries" / "part-0000.jsonl.gz") as log:
        copy = json.dumps({**json.loads(next(log)), "outcome": "duplicate"}).encode() + b"\n"
    (folder / "deliveries" / "hot.jsonl.gz").write_bytes(gzip.compress(copy * copies, 1, mtime=0))


SOWN = {"I2": 1, "I7": 1}
"""The number of breaches of each invariant that `sow` adds."""


def sow(folder: Path) -> None:
    """Add two corruptions: an answer that differs, and a request without a trace."""
    accepted = folder / "accepted" / "sown.jsonl"
    accepted.write_text(json.dumps({"message_id": "sown-lost", "sent": 1_795_000_000_000, "copies": 1}) + "\n")
    with gzip.open(folder / "deliveries" / "part-0000.jsonl.gz") as file:
        line = json.loads(next(file))
    changed = {**line, "outcome": "duplicate", "answer": "another"}
    (folder / "deliveries" / "sown.jsonl").write_text(json.dumps(changed) + "\n")


def measure(name: str, *arguments: str) -> dict[str, Any] | None:
    """Run one measurement in a process of its own. Return None if it failed; its error is on standard error."""
    command = [sys.executable, "-m", "lab.benchmarks.audit.__main__", "--measure", name, *arguments]
    answer = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if answer.returncode:
        return None
    result: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return result


def compare(requests: int, folder: Path, memory: str, duckdb_memory: str, words: Sequence[str]) -> bool:
    """Run the measurements at one size. Return whether every audit finished and found what DuckDB found and `sow` added."""
    history, day = folder / "history", folder / "day"
    whole = Requests(0, requests)
    started = time.monotonic()
    ahead = requests // DAY_SHARE
    write_full(history, whole, ahead=ahead)
    write_day(day, Requests(requests, requests + ahead, whole.end, DAY_MS), whole)
    sow(history)
    print(
        f"\n{requests:,} requests; history written in {time.monotonic() - started:.0f} s, load {os.getloadavg()[0]:.1f}"
    )
    judged = str(folder / "judged.parquet")
    daily = f"Spark: a day of 1/{DAY_SHARE} on top"
    wanted = {
        "floor: decompress": ("floor", str(history)),
        "Spark: verdicts": ("spark", str(history), str(folder / "verdicts"), memory),
        "Spark: verdicts, to be continued": ("spark", str(history), str(folder / "full"), memory, "--continue"),
        "DuckDB: verdicts": ("duckdb", str(history), judged, duckdb_memory),
        f"DuckDB: verdicts, in {memory}": ("duckdb", str(history), judged, memory),
        daily: ("spark", str(day), str(folder / "next"), memory, "--previous", str(folder / "full")),
        "Spark: with tables and report": ("spark", str(history), str(folder / "tables"), memory, "--tables"),
        ONE: ("spark", str(history), str(folder / "one"), memory, "--workers", "1"),
        TWO: ("spark", str(history), str(folder / "two"), memory, "--workers", "2"),
        SKEWED: ("spark", str(history), str(folder / "skewed"), memory),
        HOT: ("spark", str(history), str(folder / "hot"), memory),
    }
    wanted = {name: row for name, row in wanted.items() if not words or any(word in name for word in words)}
    print(f"{'':34}{'wall s':>8}{'CPU s':>8}{'peak GB':>9}{'us/request':>12}  broken", flush=True)
    rows = {}
    for name, arguments in wanted.items():
        if name == SKEWED:
            skew(history)
        if name == HOT:
            repeat(history, 2_000_000)
        row = measure(*arguments)
        if row is None:
            print(f"{name:34}{'failed':>8}", flush=True)
            continue
        rows[name] = row
        cpu, peak = (f"{row[key]:.1f}" if key in row else "-" for key in ("cpu_seconds", "peak_gb"))
        each = f"{row['seconds'] * 1e6 / requests:.1f}"
        print(f"{name:34}{row['seconds']:8.1f}{cpu:>8}{peak:>9}{each:>12}  {row.get('broken', '')}", flush=True)
    full, other, day_on_top = (rows.get(name) for name in ("Spark: verdicts", "DuckDB: verdicts", daily))
    agreed = not {"Spark: verdicts", "DuckDB: verdicts"} <= wanted.keys()
    if full and other:
        ratio = full["seconds"] / other["seconds"]
        agreed = full["broken"] == other["broken"] == SOWN
        print(f"Java {full['java']}; Spark / DuckDB: {ratio:.2f} of the wall time; same findings: {agreed}")
    if full and day_on_top:
        print(f"a day / full: {day_on_top['seconds'] / full['seconds']:.2f} of the wall time")
    if ONE in rows and TWO in rows:
        wall, cpu = (rows[ONE][key] / rows[TWO][key] for key in ("seconds", "cpu_seconds"))
        print(
            f"two workers do {wall:.2f} times the work of one in the same time, with {cpu:.0%} of its work a CPU second"
        )
    # DuckDB may run out of memory: that is a result.
    ended = all(name in rows for name, (kind, *_) in wanted.items() if kind == "spark")
    return ended and agreed


def main() -> int:
    """Run the command line. Return 0, or 1 if an audit failed or the findings were wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, nargs="+", default=[1_000_000, 5_000_000, 10_000_000])
    parser.add_argument(
        "--folder",
        type=Path,
        help="parent of the data, about 0.9 GB for each million requests; default: a temporary folder",
    )
    parser.add_argument("--memory", default=SessionSettings.memory, help="memory of Spark's Java")
    parser.add_argument(
        "--duckdb-memory", default="8g", help="memory of DuckDB, measured beside the same memory as Spark's"
    )
    parser.add_argument(
        "--rows", nargs="+", default=[], help="measure only rows whose name contains one of these words"
    )
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--previous", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--continue", dest="keeps", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tables", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        name, *rest = given.measure
        if name == "floor":
            print(json.dumps(floor(Path(rest[0]))))
        elif name == "spark":
            history, output, memory = rest
            wanted = {"tables": given.tables, "keeps": given.keeps}
            print(json.dumps(spark(Path(history), Path(output), memory, given.previous, given.workers, **wanted)))
        else:
            print(json.dumps(duckdb(Path(rest[0]), Path(rest[1]), rest[2])))
        return 0
    if min(given.requests) < DAY_SHARE:
        parser.error(f"--requests must be {DAY_SHARE} or more: a day is a hundredth of them")
    if given.folder and not given.folder.is_dir():
        parser.error(f"--folder: {given.folder} does not exist")
    right = True
    for requests in given.requests:
        folder = Path(tempfile.mkdtemp(prefix="audit-", dir=given.folder))
        try:
            right &= compare(requests, folder, given.memory, given.duckdb_memory, given.rows)
        finally:
            shutil.rmtree(folder)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
