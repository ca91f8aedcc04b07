"""What the audit costs: CPU of all processes, seconds, peak memory and findings; the rows of lab/docs/audit-speed.md.

    python -m lab.benchmarks.audit.__main__ [ROW] [--requests 1000000]

ROW: `duckdb` beside the second opinion on the same files, `tables` beside verdicts alone, `hot` with half of the requests at
one practice and an id of two million deliveries, `workers` one beside two, `changes` of a day beside a whole audit. TMPDIR is
the parent of the data: 0.9 GB for a million requests.

Each measurement is a process of its own. Its peak memory is the largest sum of what its processes hold, Java's and Python's.
Audit and DuckDB write a row with verdict and evidence for every request and slot, as Parquet sorted by key, and name every
violation. Spark's figure also includes the MD5 of every file, the counts against the manifests, and malformed lines. Two sown
corruptions must be found by both.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.benchmarks.audit.data import DAY_MS, Requests, write_again, write_full
from oneslot.audit.spark.session import SessionSettings

DUCKDB_MEMORY = "8GB"


def family_of(process: int) -> list[list[str]]:
    """Return the fields of /proc/PID/stat after the name, for a process and all that it started, as Java starts workers."""
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


def watched_peak() -> list[float]:
    """Look once a second at how much memory this process and all that it started hold. The list has the most so far, in GB."""
    peak = [0.0]

    def look() -> None:
        while True:
            pages = sum(int(of[21]) for of in family_of(os.getpid()))
            peak[0] = max(peak[0], pages * os.sysconf("SC_PAGE_SIZE") / 1e9)
            time.sleep(1)

    threading.Thread(target=look, daemon=True).start()
    return peak


def spark(folder: Path, output: Path, master: str = "local[*]", previous: str = "", **chosen: Any) -> dict[str, Any]:
    """Audit as `oneslot audit` does. `previous` is beside the output; `chosen` are more of `AuditSettings`."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings
    from oneslot.audit.spark.session import open_session

    session = open_session(SessionSettings(master=master, scratch=str(output.parent / "scratch")))
    earlier = str(output.with_name(previous)) if previous else None
    document = audit(session, AuditSettings(str(folder), str(output), earlier, **chosen)).document
    return {name: {key: count for key, count in document[name].items() if count} for name in ("verdicts", "violations")}


def duckdb(folder: Path, output: Path) -> dict[str, Any]:
    """Answer the same questions in DuckDB."""
    from lab.benchmarks.audit import duckdb_audit as audit_duckdb

    now = audit_duckdb.moment(folder)
    with audit_duckdb.open_history(folder, threads=os.cpu_count() or 1, memory=DUCKDB_MEMORY) as connection:
        connection.execute("set temp_directory = ?", [str(output.parent / "duckdb-scratch")])
        audit_duckdb.gather(connection, now, folder)
        connection.execute(f"copy ({audit_duckdb.JUDGED} order by id) to '{output}' (format parquet, compression zstd)")
        broken = audit_duckdb.violations(connection)
        verdicts = Counter(audit_duckdb.verdicts(connection).values())
    return {"verdicts": verdicts, "violations": Counter(name for name, _ in broken)}


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


def measure(kind: str, history: Path, output: Path, **chosen: Any) -> dict[str, Any]:
    """Run one measurement in a process of its own. Raises `CalledProcessError` if it fails; its error is on standard error."""
    asked = json.dumps([kind, str(history), str(output), chosen])
    command = [sys.executable, "-m", "lab.benchmarks.audit.__main__", "--measure", asked]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return result


def measured(kind: str, history: str, output: str, chosen: dict[str, Any]) -> dict[str, Any]:
    """Measure in this process. Return seconds, CPU seconds and the peak, with what was found."""
    peak, started = watched_peak(), time.monotonic()
    found = {"spark": spark, "duckdb": duckdb}[kind](Path(history), Path(output), **chosen)
    seconds = time.monotonic() - started
    return {"seconds": seconds, "cpu_seconds": tree_cpu_seconds(os.getpid()), "peak_gb": peak[0], **found}


ROWS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "duckdb": [("spark", "history", {"tables": False}), ("duckdb", "history", {})],
    "tables": [("verdicts", "history", {"tables": False}), ("and tables", "history", {})],
    "hot": [("hot", "history", {})],
    "workers": [(master, "history", {"master": master, "tables": False}) for master in ("local[1]", "local[2]")],
    "changes": [("kept", "history", {"keeps": True}), ("changes", "day", {"previous": "kept"}), ("whole", "later", {})],
}
"""What each row measures: the audit's name, its history, and the settings that are not the usual ones."""


def one_row(name: str, requests: int, folder: Path) -> bool:
    """Measure a row. Return whether all found what was sown, and gave one history the same verdicts."""
    first = Requests(0, requests)
    if name == "hot":
        first = replace(first, practice="case when i % 2 = 0 then 'A80000' else 'A80001' end")
    write_full(folder / "history", [first])
    if name == "hot":
        write_again(folder / "history", first, 2_000_000)
    if name == "duckdb":
        sow(folder / "history")
    if name == "changes":  # of a day with a twentieth of the requests
        day = Requests(requests, requests + requests // 20, first.end, DAY_MS - 10_000)
        write_full(folder / "later", [first, day])
        write_full(folder / "day", [day], since=first.end)
    right, verdicts = True, dict[str, Any]()
    for label, history, chosen in ROWS[name]:
        row = measure("duckdb" if label == "duckdb" else "spark", folder / history, folder / label, **chosen)
        print(f"{label:12}{row['seconds']:8.1f}{row['cpu_seconds']:8.1f}{row['peak_gb']:9.1f}", flush=True)
        right &= row["violations"] == (SOWN if name == "duckdb" else {})
        right &= row["verdicts"] == verdicts.setdefault("later" if history == "day" else history, row["verdicts"])
    return right


def main() -> int:
    """Run the command line. Return 0, or 1 if the findings were wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("row", nargs="?", choices=ROWS, default="duckdb")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(*given.measure)))
        return 0
    head = f"{given.requests:,} requests, load {os.getloadavg()[0]:.1f}"
    print(f"{head}\n{'':12}{'wall s':>8}{'CPU s':>8}{'peak GB':>9}", flush=True)
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        right = one_row(given.row, given.requests, Path(folder))
    print("same findings and verdicts" if right else "the findings or the verdicts differ")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
