"""The prover's teeth: every mutant of the core is judged by the quick explorations, then by the unit tests.

A mutant that both let live must be explained by a named guard in `guards.py`, and an explained one must live.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

from prover.guards import guard_of
from prover.mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "lambda_src"
EXPECTED = Path(__file__).with_name("mutants_expected.json")

FILES = (
    *(
        f"exactly_once/{name}.py"
        for name in ("ledger", "idempotency", "consumer", "dynamodb", "delivery", "batch", "identity", "effects")
    ),
    "appointments/allocation.py",
)
"""What is spoiled: the protocol, and the domain's conditions."""

TESTS = {
    "exactly_once/ledger.py": ("test_ledger_edges", "test_ledger", "test_idempotency", "test_kept_ledger"),
    "exactly_once/idempotency.py": ("test_idempotency", "test_ledger"),
    "exactly_once/consumer.py": (),
    "exactly_once/dynamodb.py": ("test_dynamodb", "test_ledger"),
    "exactly_once/delivery.py": ("test_delivery",),
    "exactly_once/batch.py": ("test_batch", "test_ordering"),
    "exactly_once/identity.py": ("test_identity",),
    "exactly_once/effects.py": ("test_dynamodb", "test_ledger"),
    "appointments/allocation.py": ("test_allocation",),
}
"""The unit tests of each file, which are quick; the handler's tests come after them for all."""

PROVER, UNIT_TESTS, GUARD, NOBODY = "prover", "tests", "guard", "nobody"
UNJUDGED = "unjudged"
"""In the checked-in score only: not judged yet with the tests as they are. `make prove RECORD=1` judges all."""


@dataclass(frozen=True)
class Verdict:
    """Who caught a mutant (`by`), and how; by GUARD: nobody, and the guard named in `how` explains that."""

    mutant: Mutant
    by: str
    how: str


class Workbench:
    """A copy of the core to spoil, and a server that judges it. Not for two mutants at a time."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.core = Path(self._directory.name) / "core"
        shutil.copytree(CORE, self.core, ignore=shutil.ignore_patterns("__pycache__"))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "prover.judge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )

    def __enter__(self) -> Workbench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server.stdin is not None:
            self._server.stdin.close()
        self._server.wait()
        if self._server.stdout is not None:
            self._server.stdout.close()
        self._directory.cleanup()

    def judge(self, mutant: Mutant, *, with_tests: bool) -> Verdict:
        """Spoil, ask the prover, then perhaps the tests, and mend."""
        path = self.core / mutant.file
        original = path.read_text()
        path.write_text(mutant.source)
        try:
            how = self.explore()
            if how:
                return Verdict(mutant, PROVER, how)
            how = self.test(mutant.file) if with_tests else ""
            if how:
                return Verdict(mutant, UNIT_TESTS, how)
        finally:
            path.write_text(original)
        guard = guard_of(mutant.name)
        return Verdict(mutant, GUARD, guard) if guard else Verdict(mutant, NOBODY, "")

    def explore(self) -> str:
        """What the quick explorations say of the copy as it is: empty if no law is broken."""
        return self._ask([])

    def test(self, file: str) -> str:
        """The first unit test that fails with the copy as it is; empty if there is none. `file` was spoiled."""
        room = Path("tests") / Path(file).parent
        own = [str(room / f"{name}.py") for name in TESTS[file]]
        return (self._ask(own) if own else "") or self._ask(["tests/handler"])

    def _ask(self, tests: list[str]) -> str:
        if self._server.stdin is None or self._server.stdout is None:
            raise RuntimeError("the judge has no pipes")
        self._server.stdin.write(json.dumps({"core": str(self.core), "tests": tests}) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("the judge has died; run `python -m prover.judge` to see why")
        return str(json.loads(answer))


def all_mutants(files: Iterable[str] = FILES) -> list[Mutant]:
    """Every mutant of the core as it is."""
    return [mutant for file in files for mutant in mutants(file, (CORE / file).read_text())]


def judge_all(
    chosen: Sequence[Mutant],
    *,
    with_tests: bool = True,
    workers: int | None = None,
    told: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Judge these mutants, some at a time; `told` hears each verdict."""
    workers = workers or os.cpu_count() or 1
    benches: SimpleQueue[Workbench] = SimpleQueue()
    made = [Workbench() for _ in range(workers)]
    for bench in made:
        benches.put(bench)

    def judge(mutant: Mutant) -> Verdict:
        bench = benches.get()
        try:
            verdict = bench.judge(mutant, with_tests=with_tests)
        finally:
            benches.put(bench)
        told(verdict)
        return verdict

    try:
        with ThreadPoolExecutor(workers) as threads:
            return list(threads.map(judge, chosen))
    finally:
        for bench in made:
            bench.__exit__(None, None, None)


def expected() -> dict[str, str]:
    """The checked-in score: mutant name → by whom it is caught."""
    known: dict[str, str] = json.loads(EXPECTED.read_text())
    return known


def record(verdicts: Iterable[Verdict]) -> None:
    """Check the score in."""
    score = {verdict.mutant.name: verdict.by for verdict in verdicts}
    EXPECTED.write_text(json.dumps(dict(sorted(score.items())), indent=0) + "\n")


def differences(verdicts: Iterable[Verdict]) -> list[str]:
    """Where these verdicts differ from the checked-in score, and mutants that live or are explained without reason."""
    known, found = expected(), list(verdicts)
    lines = [
        f"{verdict.mutant.name}: {verdict.by}, expected {known.get(verdict.mutant.name, 'no such mutant')}"
        for verdict in found
        if known.get(verdict.mutant.name) != verdict.by
    ]
    lines += [
        f"{verdict.mutant.name}: caught ({verdict.how}), though a guard explains why it lives"
        for verdict in found
        if verdict.by in (PROVER, UNIT_TESTS) and guard_of(verdict.mutant.name)
    ]
    names = {verdict.mutant.name for verdict in found}
    return lines + [f"{name}: expected, and no such mutant" for name in known if name not in names]
