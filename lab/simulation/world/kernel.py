"""Virtual time, the processes that live in it, and the order in which their threads run.

Time stands still while code runs, and jumps to the next timer when every thread waits. All choices come from one seed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any, cast

from greenlet import GreenletExit

from oneslot.explorer.execution.scheduler import Scheduler, Strand

MICROSECONDS = 1_000_000
START_MS = int(datetime(2026, 11, 20, 8, 0, tzinfo=UTC).timestamp() * 1000)
"""The wall clock's time at the start of each simulation (epoch ms): three days before the practice's first slot."""

NEVER = 1 << 60


class Task(Strand):
    """A thread of a simulated process."""

    __slots__ = ("process",)

    def __init__(self, process: Process, body: Callable[[], None]) -> None:
        super().__init__(body)
        self.process = process


class Waiter:
    """A thread that waits, at most until a timer fires. Only the first wake counts."""

    __slots__ = ("_kernel", "_task", "done")

    def __init__(self, kernel: Kernel, task: Strand) -> None:
        self._kernel = kernel
        self._task = task
        self.done = False

    def wake(self, value: Any = True) -> None:
        """Wake the thread with a value."""
        if not self.done:
            self.done = True
            self._kernel.wake(self._task, value)

    def expire(self) -> None:
        """Wake the thread with False: its time is up."""
        self.wake(False)


class Kernel(Scheduler):
    """The clock (`now`, microseconds since the start), the timers, and a random choice among the threads that are ready.

    `between` is the mean number of statements between two preemptions. `turns` counts how often a thread went on.
    """

    def __init__(self, random: Random, between: float) -> None:
        super().__init__()
        self.now = 0
        self.turns = 0
        self.between = between
        self._draw = random.random
        self._timers: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self.processes: list[Process] = []
        self.process = self.outside = Process(self, "the world", 0)

    def at(self, when: int, act: Callable[[], object]) -> None:
        """Call `act` at a time in microseconds."""
        heapq.heappush(self._timers, (max(when, self.now), next(self._numbers), act))

    def wait(self, waiters: list[Waiter], seconds: float | None) -> bool:
        """Pause the running thread until its place in `waiters` is woken (True) or `seconds` have passed (False)."""
        waiter = Waiter(self, cast("Strand", self.current))
        waiters.append(waiter)
        if seconds is not None:
            # At least one microsecond: a rest that rounds to nothing would be waited for again and again.
            self.at(self.now + max(1, math.ceil(seconds * MICROSECONDS)), waiter.expire)
        woken = bool(self.pause())
        if not woken and waiter in waiters:
            waiters.remove(waiter)
        return woken

    def sleep(self, seconds: float) -> None:
        """Pause the running thread for this long."""
        self.wait([], max(0.0, seconds))

    def preempt(self) -> None:
        """Let another thread run, if one is ready."""
        if self._ready:
            self.wake(cast("Strand", self.current))
            self.pause()

    def distance(self) -> int:
        """Return the number of statements until the next preemption."""
        return int(-self.between * math.log(1.0 - self._draw()))

    def take(self) -> tuple[Strand, tuple[Any, ...]] | None:
        """Choose among the threads that are ready, and leave out those of paused and of ended processes."""
        ready = self._ready
        while ready:
            index = int(self._draw() * len(ready)) if len(ready) > 1 else 0
            ready[index], ready[-1] = ready[-1], ready[index]
            taken = ready.pop()
            process = cast("Task", taken[0]).process
            if process.ended:
                continue
            if process.paused_until > self.now:
                self.at(process.paused_until, lambda taken=taken: ready.append(taken))  # type: ignore[misc]
                continue
            self.process = process
            self.turns += 1
            return taken
        self.process = self.outside
        return None

    def run_until(self, done: Callable[[], bool], within: float) -> bool:
        """Run until `done`, which is asked whenever every thread waits; False if that takes more than `within` seconds."""
        end = self.now + int(within * MICROSECONDS)
        while True:
            self.run()
            if done():
                return True
            if not self._timers or self._timers[0][0] > end:
                self.now = end
                return False
            self.now, _, act = heapq.heappop(self._timers)
            act()

    def end_all(self) -> None:
        """End every process, and what waits at the services."""
        self._timers.clear()
        for process in self.processes:
            process.on_end.clear()
            process.end()


class Process:
    """A simulated process of the operating system. Its threads end with it, at whatever they do.

    Attributes:
        wall_offset: milliseconds by which its host's clock is wrong.
        statements: statements that its threads have begun.
        next_point: the statement before which `at_point` has something to do.
        calls: attempts at API calls, and appends to files.
    """

    def __init__(self, kernel: Kernel, name: str, wall_offset: int) -> None:
        self.kernel = kernel
        self.name = name
        self.wall_offset = wall_offset
        self.ended = False
        self.paused_until = 0
        self.statements = 0
        self.next_point = NEVER
        self.calls = 0
        self.tasks: dict[Task, None] = {}
        self.on_end: list[Callable[[], None]] = []
        self._planned = NEVER
        self._act: Callable[[], None] = lambda: None
        self._not_counted = 0
        kernel.processes.append(self)

    @property
    def now_ms(self) -> int:
        """Its wall clock (epoch ms)."""
        return START_MS + self.kernel.now // 1000 + self.wall_offset

    @property
    def steady(self) -> float:
        """Its steady clock (seconds), which does not count the time in which its host was suspended."""
        return (self.kernel.now - self._not_counted) / MICROSECONDS

    def check(self) -> None:
        """Raise `GreenletExit` in a thread of a process that has ended."""
        if self.ended:
            raise GreenletExit

    def start(self, body: Callable[[], None]) -> Task:
        """Start a thread."""
        self.check()

        def run() -> None:
            try:
                body()
            finally:
                self.tasks.pop(task, None)

        task = Task(self, run)
        self.tasks[task] = None
        self.kernel.start(task)
        return task

    def set_next_point(self) -> None:
        """Choose the next statement before which to let another thread run, or the one of the planned fault."""
        self.next_point = min(self.statements + self.kernel.distance() + 1, max(self.statements + 1, self._planned))

    def plan(self, statement: int, act: Callable[[], None]) -> None:
        """Call `act` in the thread that begins this statement, by its number in the process; once."""
        self._planned, self._act = statement, act

    def at_point(self) -> None:
        """Do what is due before this statement: end, meet the planned fault, or let another thread run."""
        self.check()
        if self.statements >= self._planned:
            act, self._planned = self._act, NEVER
            act()
        else:
            self.kernel.preempt()
        self.check()
        self.set_next_point()

    def crash(self) -> None:
        """End every thread at once. Called by one of them, it does not return."""
        self.end()
        self.check()

    def end(self) -> None:
        """End every thread but the one that calls."""
        if self.ended:
            return
        self.ended = True
        self.next_point = 0
        for task in list(self.tasks):
            if task is not self.kernel.current:
                task.kill()
        for act in self.on_end:
            act()

    def suspend(self, seconds: float, *, steady: bool) -> None:
        """Stop every thread for this long. With `steady`, the steady clock stands still in the meantime."""
        length = int(seconds * MICROSECONDS)
        self.paused_until = max(self.paused_until, self.kernel.now + length)
        if steady:
            self._not_counted += length
        if isinstance(self.kernel.current, Task) and self.kernel.current.process is self:
            self.kernel.sleep(seconds)
