"""Judge every mutant of the core by the quick explorations, then by the unit tests.

A mutant that survives both must be explained by a named guard in `guards.py`, and an explained mutant must survive.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from types import TracebackType

from lab.mutation.guards import guard_of
from lab.mutation.mutations import Mutant, digest, mutants
from lab.mutation.survey import Survey

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).with_name("mutants_expected.json")

QUICK, GROUPS = "quick", "groups"
"""The judge's explorations: the ordinary way, and group commit."""

_RUNTIME = (
    *("attempt", "backoff", "powertools", "stores/dynamodb", "stores/checks", "stores/expressions", "stores/renewing"),
    *("consumer/consumer", "consumer/record", "consumer/delivery_log", "consumer/queues"),
    *(
        "consumer/group_commit",
        "identity",
        "effects",
        "handlers",
        "releases",
        "envelopes",
        "lambda_consumer",
        "sqs/deferral",
        "unknown_outcome",
    ),
)
FILES = (*(f"oneslot/runtime/{name}.py" for name in _RUNTIME), "appointments/allocation.py")
"""The files that are mutated: the protocol with what is built on it, and the domain's conditions."""

EXPLORED_IN: Mapping[str, str] = {
    "oneslot/runtime/consumer/group_commit.py": GROUPS,
    "oneslot/runtime/envelopes.py": "",
    "oneslot/runtime/handlers.py": "",
    "oneslot/runtime/lambda_consumer.py": "",
    "oneslot/runtime/powertools.py": "",
    "oneslot/runtime/releases.py": "",
    "oneslot/runtime/sqs/deferral.py": "",
    "oneslot/runtime/stores/renewing.py": "",
    "oneslot/runtime/unknown_outcome.py": "",
}
"""The judge's explorations that reach a file, where they are not the quick ones; empty: none."""

TESTS = ("tests/oneslot/runtime", "tests/booking", "tests/appointments", "tests/behaviours/test_protocol_cases.py")
"""The unit tests of the core and of what is built on it. A mutant is judged by those that reach it."""

DOES_NOT_RUN = "does not run"
"""The start of the judge's answer for a mutant that broke no law but ended the explorer with an error."""

EXPLORER, UNIT_TESTS, GUARD, ALIVE = "explorer", "tests", "guard", "alive"
BY_WHOM: Mapping[str, str] = {
    EXPLORER: "caught by the explorer",
    UNIT_TESTS: "by the unit tests",
    GUARD: "explained by a named guard",
    ALIVE: "alive",
}
"""The words of each verdict, for a sentence that counts them."""


@dataclass(frozen=True)
class Verdict:
    """Who caught a mutant (`by`), and how. For GUARD, `how` names the guard that explains why it survives."""

    mutant: Mutant
    by: str
    how: str


@dataclass(frozen=True)
class Score:
    """The recorded verdicts: who catches each mutant and how, and the digests of the core's files at that time.

    Where the second is empty, judging the mutant takes longer.
    """

    core: Mapping[str, str]
    mutants: Mapping[str, tuple[str, str]]

    def by(self, who: str) -> list[str]:
        """Return the names of the mutants with this verdict."""
        return [name for name, (by, _) in self.mutants.items() if by == who]

    @property
    def counts(self) -> dict[str, int]:
        """The number of mutants with each verdict."""
        return dict(Counter(by for by, _ in self.mutants.values()))


class Workbench:
    """A copy of the core to mutate, and a server that judges it. It takes one mutant at a time."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.core = Path(self._directory.name) / "core"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "lambda_src", self.core, ignore=ignored)
        shutil.copytree(ROOT / "oneslot", self.core / "oneslot", ignore=ignored)
        # The tools read the declaration beside their package, and it must name a folder that exists.
        shutil.copy(ROOT / "oneslot.toml", self.core)
        (self.core / "lambda_src").mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", "lab.mutation.judge"],
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

    def judge(
        self, mutant: Mutant, tests: Callable[[Mutant], Sequence[str]], hint: tuple[str, str] = ("", "")
    ) -> Verdict:
        """Judge a mutant by the explorer, then by the tests, and restore the core.

        `hint` is the recorded verdict, which is tried first. `tests` is called only if no quicker way catches the mutant.
        """
        with self.mutated(mutant):
            by, how = hint
            # Only the same answer counts, because a test that no longer exists fails, too.
            if by == UNIT_TESTS and how and self.test([how]) == how:
                return Verdict(mutant, UNIT_TESTS, how)
            room = EXPLORED_IN.get(mutant.file, QUICK)
            found = self.explore(how if by == EXPLORER else "", room) if room else ""
            if found and not found.startswith(DOES_NOT_RUN):
                return Verdict(mutant, EXPLORER, found)
            # The file's own tests come first, because the survey of the others runs all tests.
            failed = self.test(own_tests(mutant.file)) or self.test(tests(mutant))
            if failed:
                return Verdict(mutant, UNIT_TESTS, failed)
            if found:
                return Verdict(mutant, EXPLORER, found)  # `differences` reports it
        guard = guard_of(mutant.name)
        return Verdict(mutant, GUARD, guard) if guard else Verdict(mutant, ALIVE, "")

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Put a mutant into the copy within a `with` block."""
        path = self.core / mutant.file
        original = path.read_text()
        path.write_text(mutant.source)
        try:
            yield
        finally:
            path.write_text(original)

    def explore(self, before: str = "", room: str = QUICK) -> str:
        """Return the breach that the explorations of this room find in the copy as it is; empty if none.

        `before` is the recorded breach; the scenario that it names is explored first.
        """
        return self._ask("explore", [room, before.rpartition("(")[2].rpartition(",")[0]])

    def simulate(self, scenarios: Sequence[str], first: int, seeds: int) -> str:
        """Return the law that the copy as it is breaks first in these scenarios under these seeds; empty if none."""
        return self._ask("simulate", [str(first), str(seeds), *scenarios])

    def test(self, tests: Sequence[str]) -> str:
        """Return the first of these unit tests that fails with the copy as it is; empty if none does."""
        return self._ask("test", tests) if tests else ""

    def survey(self) -> Survey:
        """Return what each of the unit tests reaches in the copy as it is."""
        found = self._ask("survey", TESTS)
        if not found.startswith("{"):
            raise RuntimeError(f"a unit test fails with the core as it is: {found}")
        return Survey.from_json(found)

    def _ask(self, task: str, names: Sequence[str]) -> str:
        if self._server.stdin is None or self._server.stdout is None:
            raise RuntimeError("the judge has no pipes")
        self._server.stdin.write(json.dumps({"core": str(self.core), "do": task, "with": list(names)}) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("the judge has died; run `python -m lab.mutation.judge` to see the error")
        return str(json.loads(answer))


def source_of(file: str) -> str:
    """Return the text of a file of the core, which is named from its import root."""
    return (ROOT / ("" if file.startswith("oneslot/") else "lambda_src") / file).read_text()


def own_tests(file: str) -> list[str]:
    """Return the unit tests that are named after this file of the core."""
    room, _, name = file.rpartition("/")
    stem = name.removesuffix(".py")
    found = [*ROOT.glob(f"tests/{room}/test_{stem}.py"), *sorted(ROOT.glob(f"tests/{room}/test_{stem}_*.py"))]
    return [str(path.relative_to(ROOT)) for path in found]


def all_mutants(files: Iterable[str] = FILES) -> list[Mutant]:
    """Return every mutant of the core as it is."""
    return [mutant for file in files for mutant in mutants(file, source_of(file))]


def judge_all(
    chosen: Sequence[Mutant],
    *,
    workers: int | None = None,
    on_verdict: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Judge these mutants on `workers` workbenches. `on_verdict` gets each verdict."""
    workers = workers or os.cpu_count() or 1
    benches: SimpleQueue[Workbench] = SimpleQueue()
    benches_made = [Workbench() for _ in range(workers)]
    for bench in benches_made:
        benches.put(bench)
    hints = expected().mutants
    survey: list[Survey] = []
    surveying = Lock()

    def tests(mutant: Mutant) -> Sequence[str]:
        with surveying:  # once, on a copy without mutation, when the first mutant needs it
            if not survey:
                with Workbench() as clean:
                    survey.append(clean.survey())
        return survey[0].tests_of(mutant.file, mutant.function)

    def judge(mutant: Mutant) -> Verdict:
        bench = benches.get()
        try:
            verdict = bench.judge(mutant, tests, hints.get(mutant.name, ("", "")))
        finally:
            benches.put(bench)
        on_verdict(verdict)
        return verdict

    try:
        with ThreadPoolExecutor(workers) as threads:
            return list(threads.map(judge, chosen))
    finally:
        for bench in benches_made:
            bench.__exit__(None, None, None)


def core_digests() -> dict[str, str]:
    """Return a digest of each mutated file; comments, docstrings and layout make no difference."""
    return {file: digest(source_of(file)) for file in FILES}


def expected() -> Score:
    """Return the recorded score."""
    known = json.loads(EXPECTED.read_text())
    return Score(known["core"], {name: (by, how) for name, (by, how) in known["mutants"].items()})


def record(verdicts: Iterable[Verdict]) -> None:
    """Record the verdicts as the expected score, one mutant a line."""
    score = {verdict.mutant.name: [verdict.by, verdict.how] for verdict in verdicts}
    lines = [f"  {json.dumps(name)}: {json.dumps(score[name])}" for name in sorted(score)]
    core = json.dumps(core_digests(), indent=1)
    EXPECTED.write_text(f'{{"core": {core},\n"mutants": {{\n' + ",\n".join(lines) + "\n}}\n")


def differences(verdicts: Iterable[Verdict]) -> list[str]:
    """Return the differences from the recorded score, and mutants that survive or are explained without reason."""
    known, found = expected(), list(verdicts)
    lines = []
    for verdict in found:
        name, (by, _) = verdict.mutant.name, known.mutants.get(verdict.mutant.name, ("no such mutant", ""))
        if verdict.by != by:
            lines.append(f"{name}: {verdict.by}, expected {by}")
        if verdict.by == EXPLORER and verdict.how.startswith(DOES_NOT_RUN):
            lines.append(f"{name}: {verdict.how}; that breaks no law, so it shows nothing; let the explorer continue")
        if verdict.by in (EXPLORER, UNIT_TESTS) and guard_of(name):
            lines.append(f"{name}: caught ({verdict.how}), though a guard explains why it survives")
    names = {verdict.mutant.name for verdict in found}
    lines += [f"{name}: expected, and no such mutant" for name in known.mutants if name not in names]
    return lines + [
        f"{file}: has changed since the score was recorded"
        for file, known_digest in core_digests().items()
        if known.core.get(file) != known_digest
    ]
