"""The audit's verdicts beside DuckDB's on the same files: CPU of all processes, seconds, peak memory, and findings.

    python -m lab.benchmarks.audit.__main__ [--requests 1000000 ...] [--folder FOLDER] [--memory 1536m]

Each measurement is a process of its own. Its peak memory is the largest sum of what its processes hold, Java's and Python's.
Both tools write a row with verdict and evidence for every request and slot, as Parquet sorted by key, and name every violation.
Spark's figure also includes the MD5 of every file, the counts against the manifests, and malformed lines. Two sown corruptions
must be found by both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.benchmarks.audit.data import Requests, write_full
from oneslot.audit.spark.session import SessionSettings

DUCKDB_MEMORY = "8g"


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


def spark(folder: Path, output: Path, memory: str) -> dict[str, Any]:
    """Measure the audit as `oneslot audit` runs it."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings
    from oneslot.audit.spark.session import open_session

    peak, started = Peak(), time.monotonic()
    settings = AuditSettings(str(folder), str(output), tables=False, keeps=False)
    scratch = str(output.parent / "scratch")
    session = open_session(SessionSettings(memory=memory, scratch=scratch, reads_bytes=settings.reads_bytes))
    conclusion = audit(session, settings)
    seconds = time.monotonic() - started
    virtual_machine: Any = session._jvm
    return {
        "seconds": seconds,
        "cpu_seconds": tree_cpu_seconds(os.getpid()),
        "peak_gb": peak.gb,
        "java": virtual_machine.java.lang.System.getProperty("java.version"),
        "verdicts": {name: count for name, count in conclusion.document["verdicts"].items() if count},
        "broken": {name: count for name, count in conclusion.document["violations"].items() if count},
    }


def duckdb(folder: Path, output: Path, memory: str) -> dict[str, Any]:
    """Measure the same questions in DuckDB."""
    from lab.benchmarks.audit import duckdb_audit as audit_duckdb

    started = time.monotonic()
    now = audit_duckdb.moment(folder)
    with audit_duckdb.open_history(folder, threads=os.cpu_count() or 1, memory=f"{memory.upper()}B") as connection:
        connection.execute("set temp_directory = ?", [str(output.parent / "duckdb-scratch")])
        audit_duckdb.gather(connection, now, folder)
        connection.execute(f"copy ({audit_duckdb.JUDGED} order by id) to '{output}' (format parquet, compression zstd)")
        broken = sorted(audit_duckdb.violations(connection))
        verdicts = Counter(audit_duckdb.verdicts(connection).values())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.monotonic() - started,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss / 1e6,
        "verdicts": verdicts,
        "broken": {name: sum(1 for other, _ in broken if other == name) for name, _ in broken},
    }


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


def measure(name: str, *arguments: str) -> dict[str, Any]:
    """Run one measurement in a process of its own. Raises `CalledProcessError` if it fails; its error is on standard error."""
    command = [sys.executable, "-m", "lab.benchmarks.audit.__main__", "--measure", name, *arguments]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return result


def compare(requests: int, folder: Path, memory: str) -> bool:
    """Measure both at one size. Return whether they gave one verdict, and found exactly what `sow` added."""
    history = folder / "history"
    write_full(history, Requests(0, requests))
    sow(history)
    print(f"\n{requests:,} requests, load {os.getloadavg()[0]:.1f}")
    print(f"{'':8}{'wall s':>8}{'CPU s':>8}{'peak GB':>9}  broken", flush=True)
    rows = {}
    for name, memory_of in (("spark", memory), ("duckdb", DUCKDB_MEMORY)):
        row = measure(name, str(history), str(folder / name), memory_of)
        figures = f"{row['seconds']:8.1f}{row['cpu_seconds']:8.1f}{row['peak_gb']:9.1f}"
        print(f"{name:8}{figures}  {row['broken']}", flush=True)
        rows[name] = row
    audit, other = rows["spark"], rows["duckdb"]
    agreed: bool = audit["broken"] == other["broken"] == SOWN and audit["verdicts"] == other["verdicts"]
    ratio = audit["cpu_seconds"] / other["cpu_seconds"]
    print(f"Java {audit['java']}; Spark / DuckDB: {ratio:.2f} of the CPU; same findings and verdicts: {agreed}")
    return agreed


def main() -> int:
    """Run the command line. Return 0, or 1 if the findings were wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--folder", type=Path, help="parent of the data: 0.9 GB a million requests; default: temporary")
    parser.add_argument("--memory", default=SessionSettings.memory, help="memory of Spark's Java")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        name, history, output, memory = given.measure
        print(json.dumps({"spark": spark, "duckdb": duckdb}[name](Path(history), Path(output), memory)))
        return 0
    if min(given.requests) < 100:
        parser.error("--requests must be 100 or more: fewer have no request of each kind")
    if given.folder and not given.folder.is_dir():
        parser.error(f"--folder: {given.folder} does not exist")
    right = True
    for requests in given.requests:
        folder = Path(tempfile.mkdtemp(prefix="audit-", dir=given.folder))
        try:
            right &= compare(requests, folder, given.memory)
        finally:
            shutil.rmtree(folder)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
