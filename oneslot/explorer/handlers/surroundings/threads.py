"""Thread pools inside the handler: each worker is a strand, and the explorer interleaves the strands' calls."""

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future
from typing import Any

from oneslot.explorer.execution.process import StrandFuture
from oneslot.explorer.handlers.surroundings.replaced import Replacement, Running, within

WAITS = (
    "The handler waits for another thread, which the explorer cannot schedule. Use a ThreadPoolExecutor and its futures, or "
    "the strands cannot be scheduled."
)


class StrandPool:
    """The tasks of one executor: as many strands as it has workers take them in their order."""

    def __init__(self, process: Any, workers: int, prepare: Callable[[], Any]) -> None:
        self._process, self._free, self._prepare = process, workers, prepare
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.futures: list[Future[Any]] = []

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Queue a task, and start a worker for it if one is free."""
        future = StrandFuture(self._process)
        self.futures.append(future)
        self._tasks.append((future, task))
        if self._free:
            self._free -= 1
            self._process.working += 1
            self._process.start_strand(self._work)
        return future

    def _work(self) -> None:
        self._prepare()
        while self._tasks:
            future, task = self._tasks.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(task())
            except Exception as error:
                future.set_exception(error)
        self._free += 1
        self._process.working -= 1


class StrandLock:
    """A lock between strands."""

    def __init__(self, running: Running) -> None:
        self._running, self.is_held = running, False
        self._waiting: list[Any] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; wait for the strand that holds it."""
        while self.is_held:
            if not blocking:
                return False
            process = self._running()
            self._waiting.append(process.current)
            process.pause()
        self.is_held = True
        return True

    def release(self) -> None:
        """Let the next strand have it."""
        self.is_held, process = False, self._running()
        if self._waiting and process is not None:
            process.wake(self._waiting.pop(0))

    def locked(self) -> bool:
        """Return whether a strand holds it."""
        return self.is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def as_strands(running: Running) -> Iterator[Replacement]:
    """Yield what runs the thread pools of the process that `running` returns as strands."""
    executor = concurrent.futures.ThreadPoolExecutor
    for owner, name, inside in (
        (executor, "submit", _submit),
        (executor, "shutdown", _shutdown),
        (concurrent.futures, "wait", _wait),
        (concurrent.futures, "as_completed", _as_completed),
        (threading.Condition, "wait", lambda process, *_, **__: process.refuse(WAITS)),
        (asyncio.BaseEventLoop, "run_in_executor", _run_in_executor),
    ):
        yield owner, name, within(running, inside, getattr(owner, name))


def own_lock(running: Running) -> Any:
    """Return `threading.Lock`, which gives the process that `running` returns a lock between its strands."""
    return within(running, lambda process, original: StrandLock(running), threading.Lock)


def _pool(process: Any, executor: Any) -> StrandPool:
    """Return the process' own pool for an executor, which may be of the module and outlive the invocation."""
    pools: dict[int, StrandPool] = process.pools
    if id(executor) not in pools:
        prepare, arguments = getattr(executor, "_initializer", None), getattr(executor, "_initargs", ())
        prepared = (lambda: prepare(*arguments)) if prepare else lambda: None
        pools[id(executor)] = StrandPool(process, executor._max_workers, prepared)
    return pools[id(executor)]


def _submit(
    process: Any, _: Any, executor: Any, task: Callable[..., Any], /, *values: Any, **named: Any
) -> Future[Any]:
    return _pool(process, executor).submit(lambda: task(*values, **named))


def _run_in_executor(process: Any, _: Any, loop: Any, executor: Any, task: Callable[..., Any], *values: Any) -> Any:
    future = _pool(process, executor or process.default_executor).submit(lambda: task(*values))
    process.awaited.append(future)
    return asyncio.wrap_future(future, loop=loop)


def _shutdown(process: Any, _: Any, executor: Any, wait: bool = True, *, cancel_futures: bool = False) -> None:
    futures = _pool(process, executor).futures
    if cancel_futures:
        for future in futures:
            future.cancel()
    if wait:
        _wait(process, None, futures)


def _wait(
    process: Any, _: Any, fs: Iterable[Future[Any]], timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> Any:
    futures = set(fs)
    while True:
        done = {one for one in futures if one.done()}
        failed = return_when == concurrent.futures.FIRST_EXCEPTION and any(
            not one.cancelled() and one.exception() is not None for one in done
        )
        is_over = done == futures or failed or (done and return_when == FIRST_COMPLETED)
        if is_over or not process.wait_for_any(futures - done, timeout):
            return concurrent.futures._base.DoneAndNotDoneFutures(done, futures - done)


def _as_completed(
    process: Any, _: Any, fs: Iterable[Future[Any]], timeout: float | None = None
) -> Iterator[Future[Any]]:
    left = list(dict.fromkeys(fs))
    while left:
        done = [one for one in left if one.done()]
        if not done and not process.wait_for_any(left, timeout):
            raise TimeoutError(f"{len(left)} (of {len(left)}) futures unfinished")
        for one in done:
            left.remove(one)
            yield one
