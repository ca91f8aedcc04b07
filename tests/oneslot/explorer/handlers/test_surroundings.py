"""What the explorer takes over inside a handler, and what it leaves."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from oneslot.explorer.handlers.surroundings.takeover import taken_over

EXPLORED_MS = 1_000


def sleep_and_look() -> float:
    time.sleep(0.1)
    return time.time()


def test_another_thread_keeps_the_real_clock() -> None:
    process = SimpleNamespace(read_clock=lambda: EXPLORED_MS)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.time).result()
        running = False

        def current() -> SimpleNamespace | None:
            return process if running else None

        with taken_over(current, {}):
            submitted = pool.submit(sleep_and_look)
            running = True
            explored = time.time()
            while not submitted.done():
                continue
            running = False
        real = submitted.result()

    assert explored == EXPLORED_MS / 1000
    assert real > EXPLORED_MS
