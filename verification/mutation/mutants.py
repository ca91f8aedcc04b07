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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from types import TracebackType

from verification.mutation.guards import guard_of
from verification.mutation.mutations import Mutant, digest, mutants
from verification.mutation.survey import Survey

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).with_name("mutants_expected.json")

QUICK, GROUPS = "quick", "groups"
"""The judge's explorations: of the ordinary way, and of group commit."""

_RUNTIME = (
    *("attempt", "backoff", "powertools", "stores/dynamodb", "stores/checks", "stores/expressions", "stores/renewing"),
    *("consumer/consumer", "consumer/record", "consumer/delivery_log", "consumer/batch", "consumer/queues"),
    *("consumer/group_commit", "identity", "effects", "handlers", "sqs/fifo"),
)
FILES = (*(f"oneslot/runtime/{name}.py" for name in _RUNTIME), "appointments/allocation.py")
"""What is spoiled: the protocol with what is built on it, and the domain's conditions."""

EXPLORED_IN: Mapping[str, str] = {
    "oneslot/runtime/consumer/group_commit.py": GROUPS,
    "oneslot/runtime/handlers.py": "",
    "oneslot/runtime/stores/renewing.py": "",
}
"""Which of the judge's explorations reach a file, where it is not the quick ones; empty: none does."""

TESTS = ("tests/oneslot/runtime", "tests/booking", "tests/appointments", "tests/behaviours/test_protocol_cases.py")
"""The unit tests of the core and of what is built on it; of each mutant those that reach what it spoils."""

DOES_NOT_RUN = "does not run"
"""How the judge begins what it says of a copy that broke no law, because the explorer itself came to no end with it."""

PROVER, UNIT_TESTS, GUARD, NOBODY = "prover", "tests", "guard", "nobody"
BY_WHOM: Mapping[str, str] = {
    PROVER: "caught by the prover",
    UNIT_TESTS: "by the unit tests",
    GUARD: "explained by a named guard",
    NOBODY: "alive",
}
"""Each in words, for a sentence that counts them."""


@dataclass(frozen=True)
class Verdict:
    """Who caught a mutant (`by`), and how; by GUARD: nobody, and the guard named in `how` explains that."""

    mutant: Mutant
    by: str
    how: str


@dataclass(frozen=True)
class Score:
    """What is checked in: who catches each mutant by what, and the digests of the core's files that this was found for.

    By what may be empty where nobody noted it: then it takes longer to judge again, no more.
    """

    core: Mapping[str, str]
    mutants: Mapping[str, tuple[str, str]]

    def by(self, who: str) -> list[str]:
        """The names of the mutants that this one catches, or explains."""
        return [name for name, (by, _) in self.mutants.items() if by == who]

    @property
    def counts(self) -> dict[str, int]:
        """How many each catches, or explains."""
        return dict(Counter(by for by, _ in self.mutants.values()))


class Workbench:
    """A copy of the core to spoil, and a server that judges it. Not for two mutants at a time."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.core = Path(self._directory.name) / "core"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "lambda_src", self.core, ignore=ignored)
        shutil.copytree(ROOT / "oneslot", self.core / "oneslot", ignore=ignored)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", "verification.mutation.judge"],
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
        """Spoil, ask the prover, then the tests, and mend.

        `hint` is who caught it before, and how: that is tried first. `tests` are asked for only if it is not enough.
        """
        path = self.core / mutant.file
        original = path.read_text()
        path.write_text(mutant.source)
        try:
            by, how = hint
            # Nothing else counts: a test that is there no more fails as well, in its own way.
            if by == UNIT_TESTS and how and self.test([how]) == how:
                return Verdict(mutant, UNIT_TESTS, how)
            room = EXPLORED_IN.get(mutant.file, QUICK)
            found = self.explore(how if by == PROVER else "", room) if room else ""
            if found and not found.startswith(DOES_NOT_RUN):
                return Verdict(mutant, PROVER, found)
            # The file's own tests come first: to know which others reach it, all of them have to be run.
            failed = self.test(own_tests(mutant.file)) or self.test(tests(mutant))
            if failed:
                return Verdict(mutant, UNIT_TESTS, failed)
            if found:
                return Verdict(mutant, PROVER, found)  # `differences` tells it
        finally:
            path.write_text(original)
        guard = guard_of(mutant.name)
        return Verdict(mutant, GUARD, guard) if guard else Verdict(mutant, NOBODY, "")

    def explore(self, before: str = "", room: str = QUICK) -> str:
        """What the explorations of this room say of the copy as it is: empty if no law is broken.

        `before` is what they said before; the scenario that it names is explored first.
        """
        return self._ask("explore", [room, before.rpartition("(")[2].rpartition(",")[0]])

    def test(self, tests: Sequence[str]) -> str:
        """The first of these unit tests that fails with the copy as it is; empty if there is none."""
        return self._ask("test", tests) if tests else ""

    def survey(self) -> Survey:
        """What each of the unit tests reaches in the copy as it is."""
        found = self._ask("survey", TESTS)
        if not found.startswith("{"):
            raise RuntimeError(f"a unit test fails with the core as it is: {found}")
        return Survey.from_json(found)

    def _ask(self, deed: str, names: Sequence[str]) -> str:
        if self._server.stdin is None or self._server.stdout is None:
            raise RuntimeError("the judge has no pipes")
        self._server.stdin.write(json.dumps({"core": str(self.core), "do": deed, "with": list(names)}) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("the judge has died; run `python -m verification.mutation.judge` to see why")
        return str(json.loads(answer))


def source_of(file: str) -> str:
    """Return the text of a file of the core, which is named from its import root."""
    return (ROOT / ("" if file.startswith("oneslot/") else "lambda_src") / file).read_text()


def own_tests(file: str) -> list[str]:
    """The unit tests that are named after this file of the core."""
    room, _, name = file.rpartition("/")
    path = f"tests/{room}/test_{name}"
    return [path] if (ROOT / path).exists() else []


def all_mutants(files: Iterable[str] = FILES) -> list[Mutant]:
    """Every mutant of the core as it is."""
    return [mutant for file in files for mutant in mutants(file, source_of(file))]


def judge_all(
    chosen: Sequence[Mutant],
    *,
    workers: int | None = None,
    told: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Judge these mutants, some at a time; `told` hears each verdict. What caught them before is tried first."""
    workers = workers or os.cpu_count() or 1
    benches: SimpleQueue[Workbench] = SimpleQueue()
    made = [Workbench() for _ in range(workers)]
    for bench in made:
        benches.put(bench)
    hints = expected().mutants
    survey: list[Survey] = []
    surveying = Lock()

    def tests(mutant: Mutant) -> Sequence[str]:
        with surveying:  # made once, on a bench whose copy nobody spoils, when the first mutant needs it
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
        told(verdict)
        return verdict

    try:
        with ThreadPoolExecutor(workers) as threads:
            return list(threads.map(judge, chosen))
    finally:
        for bench in made:
            bench.__exit__(None, None, None)


def core_digests() -> dict[str, str]:
    """A digest of each file that is spoiled; comments, docstrings and layout make no difference."""
    return {file: digest(source_of(file)) for file in FILES}


def expected() -> Score:
    """The checked-in score."""
    known = json.loads(EXPECTED.read_text())
    return Score(known["core"], {name: (by, how) for name, (by, how) in known["mutants"].items()})


def record(verdicts: Iterable[Verdict]) -> None:
    """Check the score in, one mutant a line."""
    score = {verdict.mutant.name: [verdict.by, verdict.how] for verdict in verdicts}
    lines = [f"  {json.dumps(name)}: {json.dumps(score[name])}" for name in sorted(score)]
    core = json.dumps(core_digests(), indent=1)
    EXPECTED.write_text(f'{{"core": {core},\n"mutants": {{\n' + ",\n".join(lines) + "\n}}\n")


def differences(verdicts: Iterable[Verdict]) -> list[str]:
    """Where these verdicts differ from the checked-in score, and mutants that live or are explained without reason."""
    known, found = expected(), list(verdicts)
    lines = []
    for verdict in found:
        name, (by, _) = verdict.mutant.name, known.mutants.get(verdict.mutant.name, ("no such mutant", ""))
        if verdict.by != by:
            lines.append(f"{name}: {verdict.by}, expected {by}")
        if verdict.by == PROVER and verdict.how.startswith(DOES_NOT_RUN):
            lines.append(f"{name}: {verdict.how}; that breaks no law, and shows nothing: teach the prover to go on")
        if verdict.by in (PROVER, UNIT_TESTS) and guard_of(name):
            lines.append(f"{name}: caught ({verdict.how}), though a guard explains why it lives")
    names = {verdict.mutant.name for verdict in found}
    lines += [f"{name}: expected, and no such mutant" for name in known.mutants if name not in names]
    return lines + [
        f"{file}: not the file that the score was found for"
        for file, known_digest in core_digests().items()
        if known.core.get(file) != known_digest
    ]
