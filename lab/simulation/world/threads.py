"""Threads, locks and queues in virtual time, with the interface of `oneslot.runtime.surroundings`."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from lab.simulation.world.kernel import Process, Waiter
from oneslot.runtime.surroundings import Empty, Executor, Full, Future, Threads


class _Shared:
    """What threads of one process share: it can be waited for."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._kernel = process.kernel
        self._waiters: list[Waiter] = []

    def _wait(self, seconds: float | None) -> bool:
        return self._kernel.wait(self._waiters, seconds)

    def _until(self, ready: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until this is so, at most these seconds; return whether it is."""
        end = None if seconds is None else self._process.steady + seconds
        while not ready():
            left = None if end is None else end - self._process.steady
            if left is not None and left <= 0:
                return False
            self._wait(left)
        return True

    def _wake(self, number: int) -> None:
        """Wake this many of the threads that wait."""
        while self._waiters and number:
            waiter = self._waiters.pop(0)
            number -= not waiter.done
            waiter.wake()


class _Lock(_Shared):
    """A lock. Of the threads that wait, the first one gets it."""

    _is_held = False

    def __enter__(self) -> bool:
        self._process.check()
        self._until(lambda: not self._is_held, None)
        self._is_held = True
        return True

    def __exit__(self, *_: object) -> None:
        self._process.check()
        self._is_held = False
        self._wake(1)


class _Condition(_Shared):
    """A condition variable. No simulated code takes its lock twice."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._lock = _Lock(process)

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        self._process.check()
        return self._until(predicate, timeout)

    def notify(self, n: int = 1) -> None:
        self._process.check()
        self._wake(n)

    def notify_all(self) -> None:
        self.notify(len(self._waiters))

    def _wait(self, seconds: float | None) -> bool:
        self._lock.__exit__()
        woken = super()._wait(seconds)
        self._lock.__enter__()
        return woken


class _Event(_Shared):
    """A flag."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._is_set = False

    def set(self) -> None:
        self._process.check()
        self._is_set = True
        self._wake(len(self._waiters))

    def is_set(self) -> bool:
        self._process.check()
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        self._process.check()
        if not self._is_set:
            self._wait(timeout)
        return self._is_set


class _Queue(_Shared):
    """A queue between threads."""

    def __init__(self, process: Process, size: int) -> None:
        super().__init__(process)
        self._size = size
        self._items: deque[Any] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._process.check()
        if self._size and not self._until(lambda: len(self._items) < self._size, timeout if block else 0):
            raise Full
        self._items.append(item)
        self._wake(len(self._waiters))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._process.check()
        if not self._until(lambda: bool(self._items), timeout if block else 0):
            raise Empty
        item = self._items.popleft()
        if self._size:
            self._wake(len(self._waiters))
        return item


class _Thread(_Shared):
    """A thread that was started. An error that leaves it is a breach: `died` gets it."""

    def __init__(
        self, process: Process, target: Callable[[], None], name: str, died: Callable[[str, BaseException], None]
    ) -> None:
        super().__init__(process)
        self._alive = True

        def body() -> None:
            try:
                target()
            except Exception as error:
                died(f"{process.name}: {name}", error)
            finally:
                self._alive = False
                if not process.ended:
                    self._wake(len(self._waiters))

        process.start(body)

    def join(self, timeout: float | None = None) -> None:
        self._process.check()
        if self._alive:
            self._wait(timeout)

    def is_alive(self) -> bool:
        self._process.check()
        return self._alive


class _Future(Future[Any]):
    """A future whose `result` waits in virtual time. `number` is its hash, so that sets of futures have one order."""

    def __init__(self, process: Process, number: int) -> None:
        super().__init__()
        self._process = process
        self._number = number

    def __hash__(self) -> int:
        return self._number

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises what the task raised."""
        _wait_for(self._process, [self], timeout)
        return super().result(0)


class _Executor(Executor):
    """An executor of at most `workers` threads, started as they are needed."""

    def __init__(self, threads: VirtualThreads, workers: int, name: str) -> None:
        self._threads = threads
        self._tasks = threads.queue()
        self._workers = workers
        self._name = name
        self._numbers = itertools.count()
        self._started: list[_Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = _Future(self._threads.process, next(self._numbers))
        self._tasks.put(lambda: _fulfil(future, lambda: fn(*args, **kwargs)))
        if len(self._started) < self._workers:
            self._started.append(self._threads.start(self._work, f"{self._name}-{len(self._started)}"))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for _ in self._started:
            self._tasks.put(None)
        for thread in self._started if wait else ():
            thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


class VirtualThreads(Threads):
    """`Threads` of a simulated process."""

    def __init__(self, process: Process, died: Callable[[str, BaseException], None]) -> None:
        self.process = process
        self._died = died

    def start(self, target: Callable[[], None], name: str) -> _Thread:
        """See `Threads`."""
        return _Thread(self.process, target, name, self._died)

    def lock(self) -> _Lock:
        """See `Threads`."""
        return _Lock(self.process)

    def condition(self) -> _Condition:
        """See `Threads`."""
        return _Condition(self.process)

    def event(self) -> _Event:
        """See `Threads`."""
        return _Event(self.process)

    def queue(self, size: int = 0) -> _Queue:
        """See `Threads`."""
        return _Queue(self.process, size)

    def executor(self, workers: int, name: str) -> Executor:
        """See `Threads`."""
        return _Executor(self, workers, name)

    def wait_for_first(
        self, futures: Collection[Future[Any]], timeout: float | None = None
    ) -> tuple[set[Future[Any]], set[Future[Any]]]:
        """See `Threads`."""
        if futures and not any(future.done() for future in futures):
            _wait_for(self.process, futures, timeout)
        done = {future for future in futures if future.done()}
        return done, set(futures) - done


def _fulfil(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)


def _wait_for(process: Process, futures: Collection[Future[Any]], timeout: float | None) -> None:
    """Wait until one of these is done, at most `timeout` seconds."""
    process.check()
    if timeout == 0 or any(future.done() for future in futures):
        return
    waiters: list[Waiter] = []

    def wake(_: Future[Any]) -> None:
        if waiters and not process.ended:
            waiters[0].wake()

    for future in futures:
        future.add_done_callback(wake)
    process.kernel.wait(waiters, timeout)
