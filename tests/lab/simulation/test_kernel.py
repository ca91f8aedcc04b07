"""Virtual time, and what the threads of a simulated process share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from lab.simulation.world.kernel import Kernel, Process
from lab.simulation.world.threads import VirtualThreads
from oneslot.runtime.surroundings import Empty, Full

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


def test_threads_take_turns_by_the_seed() -> None:
    orders = set()
    for seed in SEEDS:
        order: list[str] = []
        World(seed).run(lambda order=order: order.append("a"), lambda order=order: order.append("b"))  # type: ignore[misc]
        orders.add("".join(order))

    assert orders == {"ab", "ba"}


@pytest.mark.parametrize("seed", SEEDS)
def test_lock_lets_one_thread_in(seed: int) -> None:
    world, inside, most = World(seed), [0], [0]
    lock = world.threads.lock()

    def body() -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            world.kernel.sleep(1)
            inside[0] -= 1

    world.run(body, body, body)

    assert most == [1]


def test_condition_gives_its_lock_back_while_it_waits() -> None:
    world, seen = World(), list[str]()
    condition, ready = world.threads.condition(), list[int]()

    def waits() -> None:
        with condition:
            seen.append(f"ready: {condition.wait_for(lambda: bool(ready), 10)}")

    def wakes() -> None:
        world.kernel.sleep(1)
        with condition:
            ready.append(1)
            condition.notify()

    world.run(waits, wakes)

    assert seen == ["ready: True"]
    assert world.process.steady < 2


def test_queue_keeps_order_and_refuses_more_than_its_size() -> None:
    world, seen = World(), list[object]()
    queue = world.threads.queue(2)

    def body() -> None:
        queue.put(1)
        queue.put(2)
        with pytest.raises(Full):
            queue.put(3, timeout=1)
        seen.extend([queue.get(), queue.get()])
        with pytest.raises(Empty):
            queue.get(timeout=1)

    world.run(body)

    assert seen == [1, 2]


def test_executor_runs_no_more_tasks_than_it_has_threads() -> None:
    world, at_work, most, seen = World(), [0], [0], list[int]()

    def task(number: int) -> int:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        world.kernel.sleep(1)
        at_work[0] -= 1
        return number

    def body() -> None:
        with world.threads.executor(2, "tasks") as executor:
            seen.extend(executor.map(task, range(5)))

    world.run(body)

    assert seen == [0, 1, 2, 3, 4]
    assert most == [2]


def test_first_finished_future_ends_the_wait() -> None:
    world, seen = World(), list[object]()

    def body() -> None:
        with world.threads.executor(2, "tasks") as executor:
            slow, quick = executor.submit(world.kernel.sleep, 9), executor.submit(world.kernel.sleep, 1)
            done, others = world.threads.wait_for_first([slow, quick])
            seen.extend([done == {quick}, others == {slow}])

    world.run(body)

    assert seen == [True, True]


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
