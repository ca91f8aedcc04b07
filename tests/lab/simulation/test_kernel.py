"""Virtual time, what the threads of a simulated process share, and points before statements."""

from collections.abc import Callable
from importlib import import_module
from random import Random

import pytest

from lab.simulation.world.kernel import Kernel, Process
from lab.simulation.world.points import instrumented
from lab.simulation.world.threads import VirtualThreads
from oneslot.worker import job
from oneslot.worker.job import InHand

SEEDS = range(20)


class World:
    """A kernel with one process."""

    def __init__(self, seed: int = 0) -> None:
        self.kernel = Kernel(Random(seed), between=3)
        self.process = Process(self.kernel, "p", 0)
        self.died: list[str] = []
        self.threads = VirtualThreads(self.process, lambda name, error: self.died.append(f"{name}: {error}"))

    def run(self, *bodies: Callable[[], None], seconds: float = 100.0) -> None:
        """Start a thread for each body, and run until all have ended."""
        for body in bodies:
            self.threads.start(body, "thread")
        self.kernel.run_until(lambda: not self.process.tasks, seconds)


def test_crash_ends_every_thread_without_another_step() -> None:
    world, seen = World(), list[str]()
    lock = world.threads.lock()

    def holds() -> None:
        try:
            with lock:
                world.kernel.sleep(50)
        finally:
            world.threads.event().set()
            seen.append("cleaned up")

    def crashes() -> None:
        world.kernel.sleep(1)
        world.process.crash()
        seen.append("lived on")

    world.run(holds, crashes)

    assert world.process.ended
    assert seen == []


def test_suspended_host_does_not_count_the_time_on_its_steady_clock() -> None:
    world, seen = World(), list[float]()

    def body() -> None:
        world.process.suspend(30, steady=True)
        seen.extend([world.process.steady, world.process.now_ms])

    begun = world.process.now_ms
    world.run(body)

    assert seen == [pytest.approx(0, abs=0.001), pytest.approx(begun + 30_000, abs=1)]


def test_paused_process_runs_nothing() -> None:
    world, seen = World(), list[float]()

    def pauses() -> None:
        world.process.suspend(30, steady=False)

    def ticks() -> None:
        for _ in range(3):
            world.kernel.sleep(1)
            seen.append(world.process.steady)

    world.run(ticks, pauses)

    assert seen[0] >= 30


def test_point_comes_before_each_statement_that_runs() -> None:
    points: list[int] = []
    backoff = import_module("oneslot.runtime.surroundings")

    with instrumented([backoff]) as modules:
        modules.set_point(lambda: points.append(1))
        raised = None
        try:
            backoff.retry(int, ValueError("x"), lambda _: False, backoff)
        except ValueError as error:
            raised = error

    assert raised is not None
    assert len(points) == 2  # `while` and `raise`


def test_classes_stay_the_same_objects_and_get_their_code_back() -> None:
    before, code = job.InHand, InHand.add.__code__

    with instrumented([job]):
        within = InHand.add.__code__
        held = InHand.__new__(InHand)

    assert within is not code
    assert job.InHand is before
    assert isinstance(held, InHand)
    assert InHand.add.__code__ is code
    assert "__point__" not in vars(job)
