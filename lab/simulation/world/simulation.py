"""One run of the whole system: a scenario's world, its numbers and its processes."""

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from lab.explore.practice import TABLES
from lab.simulation.sqs.service import SQSService
from lab.simulation.world.faults import (
    APPEND,
    APPEND_FAULTS,
    CRASH,
    CRASHING,
    KINDS,
    SUSPEND,
    TORN,
    Fault,
    Faults,
    Rates,
)
from lab.simulation.world.journal import Journal
from lab.simulation.world.kernel import START_MS, Kernel, Process
from lab.simulation.world.network import Network
from lab.simulation.world.threads import VirtualThreads
from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.expressions.values import TypedItem
from oneslot.runtime.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Plan:
    """What determines a run, together with the scenario and the code.

    Attributes:
        numbers: the scenario's own numbers (messages, processes ...), instead of those that the seed would draw.
        faults: exactly these faults; None for those that the seed draws.
        points: preempt before statements, and let faults happen there.
    """

    seed: int
    numbers: Mapping[str, int] = field(default_factory=dict)
    faults: Sequence[Fault] | None = None
    points: bool = True


class WatchedDynamoDB(InMemoryDynamoDB):
    """DynamoDB that reports each item that a write changes."""

    def __init__(self, now_ms: Callable[[], int], written: Callable[[str, str, Any, Any], None]) -> None:
        super().__init__(now_ms, TABLES)
        self._written = written

    def _store(self, table_name: str, key: str, after: TypedItem | None) -> None:
        before = self.contents.tables[table_name].get(key)
        super()._store(table_name, key, after)
        self._written(table_name, key, before, after)


class Simulation:
    """The world of one run.

    Attributes:
        journal: what happened. `breach` notes a broken law in it.
        faults: what goes wrong, and when.
        network: the way to the services.
        writers: called for each changed item (table, key, before, after).
    """

    def __init__(self, plan: Plan, set_point: Callable[[Callable[[], None]], None]) -> None:
        self.plan = plan
        self.numbers: dict[str, int] = {}
        self.writers: list[Callable[[str, str, Any, Any], None]] = []
        self._set_point = set_point
        self._random = Random(plan.seed)
        self.draw = self._random.random
        weather = _weather(Random(f"weather of {plan.seed}"))
        self.kernel = Kernel(self._random, between=(8, 40, 200)[int(self.draw() * 3)])
        self.dynamodb = WatchedDynamoDB(lambda: self.now_ms, self._item_written)
        self.sqs = SQSService(lambda: self.now_ms, self._random)
        self.journal = Journal(self.kernel)
        self.breach = self.journal.breach
        self.faults = Faults(plan.seed, weather, plan.faults)
        self.network = Network(self.kernel, self.journal, self.draw, self.faults)
        self.network.services |= {"dynamodb": self.dynamodb, "sqs": self.sqs}
        self._incarnations: Counter[str] = Counter()
        self._scenario_random = Random(f"scenario of {plan.seed}")
        self._home: tempfile.TemporaryDirectory[str] | None = None

    @property
    def now_ms(self) -> int:
        """The true time (epoch ms)."""
        return START_MS + self.kernel.now // 1000

    def number(self, name: str, low: int, high: int) -> int:
        """Draw one of the scenario's numbers. The shrinker makes it smaller."""
        drawn = self._scenario_random.randint(low, high)
        self.numbers[name] = min(high, max(low, self.plan.numbers.get(name, drawn)))
        return self.numbers[name]

    def chance(self, name: str, one_in: int) -> bool:
        """Draw whether something is so, as a number: 0 or 1."""
        drawn = int(self._scenario_random.random() * one_in < 1)
        self.numbers[name] = self.plan.numbers.get(name, drawn)
        return bool(self.numbers[name])

    def keeps(self, name: str) -> bool:
        """Return True, unless the shrinker leaves this part of the scenario out."""
        self.numbers[name] = self.plan.numbers.get(name, 1)
        return bool(self.numbers[name])

    def random_of(self, name: str) -> Random:
        """Return a source of chance for one part of the scenario, which no other part moves."""
        return Random(f"{name} of {self.plan.seed}")

    @property
    def home(self) -> Path:
        """A folder on disk that survives the processes."""
        if self._home is None:
            self._home = tempfile.TemporaryDirectory(prefix="simulation-")
        return Path(self._home.name)

    def process(self, name: str, main: Callable[[Process], None], *, wall_offset_ms: int = 0) -> Process:
        """Start a process that runs `main`. The same name again is the next incarnation: "worker", "worker.2" ..."""
        self._incarnations[name] += 1
        number = self._incarnations[name]
        process = Process(self.kernel, name if number == 1 else f"{name}.{number}", wall_offset_ms)
        self.journal.note(process.name, "starts")
        process.on_end.append(lambda: self.journal.note(process.name, "has ended"))
        if self.plan.points:
            self._plan_statement(process)
            process.set_next_point()

        def body() -> None:
            try:
                main(process)
            except Exception as error:
                self.journal.died(process.name, error)
            process.end()

        process.start(body)
        return process

    def keep_running(
        self,
        name: str,
        main: Callable[[Process], None],
        *,
        after_seconds: float = 2.0,
        wall_offset_ms: int = 0,
        done: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start a process, and start it again each time that it has ended, until `done`."""

        def start() -> None:
            process = self.process(name, main, wall_offset_ms=wall_offset_ms)
            process.on_end.append(again)

        def again() -> None:
            if not done():
                self.kernel.at(self.kernel.now + int(after_seconds * 1_000_000), start)

        start()

    def surroundings(self, process: Process) -> Surroundings:
        """Return what code in this process takes from outside."""
        numbers = iter(range(1, 1 << 30))
        prefix = crc32(process.name.encode())
        jitter = Random(f"{self.plan.seed}/{process.name}").random
        kernel, check = self.kernel, process.check

        def sleep(seconds: float) -> None:
            check()
            kernel.sleep(seconds)

        def new_id() -> str:
            return f"{prefix:08x}{next(numbers):024x}"

        return Surroundings(
            now_ms=lambda: process.now_ms,
            new_id=new_id,
            sleep=sleep,
            jitter=jitter,
            steady=lambda: process.steady,
            threads=VirtualThreads(process, self.journal.died),
            append=lambda path, data: self._append(process, path, data),
        )

    def run_for(self, seconds: float) -> None:
        """Let the world run for this long."""
        self.kernel.run_until(lambda: False, seconds)

    def run_until(self, done: Callable[[], bool], within: float) -> bool:
        """Let the world run until `done`; return False if it was not within this many seconds."""
        return self.kernel.run_until(done, within)

    def _item_written(self, table: str, key: str, before: Any, after: Any) -> None:
        for written in self.writers:
            written(table, key, before, after)

    def _plan_statement(self, process: Process) -> None:
        fault = self.faults.next_statement(process.name, process.statements)
        if fault is None:
            return

        def happen() -> None:
            self._plan_statement(process)
            if self.faults.stopped:
                return
            self.faults.met.append(fault)
            self.network.fault_met(fault, "a statement")
            if fault.name == CRASH:
                process.crash()
            process.suspend(fault.seconds, steady=fault.name == SUSPEND)

        process.plan(fault.number, happen)

    def _append(self, process: Process, path: Path, data: bytes) -> None:
        """Append to a real file, without a sync. A crash may leave a torn line."""
        process.check()
        process.calls += 1
        found = self.faults.at(process.name, APPEND, process.calls, lambda: APPEND_FAULTS)
        if found is not None:
            self.network.fault_met(found[1], f"an append to {path.name}")
            data = {TORN: data[: len(data) // 2], CRASH: data}.get(found[1].name, b"")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(data)
        self.journal.note(process.name, "append", (path.name, len(data)))
        if found is not None:
            process.crash()

    def point(self) -> Callable[[], None]:
        """Return the function that runs before each statement of an instrumented module."""
        kernel = self.kernel

        def point() -> None:
            process = kernel.process
            process.statements += 1
            if process.statements >= process.next_point:
                process.at_point()

        return point

    def end(self) -> None:
        """End every process that is left, and remove the folder."""
        self._set_point(lambda: None)
        self.kernel.end_all()
        if self._home is not None:
            self._home.cleanup()


def _weather(random: Random) -> Rates:
    """Draw which kinds of faults happen in this run, and how often; one run of eight has none, one only crashes."""
    some = [kind for kind in KINDS if random.random() * 2 < 1]
    kinds = random.choice((*([some] * 6), [], [CRASHING]))
    return Rates(kinds, calls=random.choice((8, 20, 80)), statements=random.choice((0, 2_000, 8_000)))


@contextmanager
def simulation(plan: Plan, set_point: Callable[[Callable[[], None]], None]) -> Iterator[Simulation]:
    """Run a world within a `with` block."""
    world = Simulation(plan, set_point)
    set_point(world.point())
    logging.disable()
    try:
        yield world
    finally:
        logging.disable(logging.NOTSET)
        world.end()
