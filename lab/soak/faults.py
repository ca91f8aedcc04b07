"""Faults of processes, one at a time, chosen by a seed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from lab.soak.hosts import Host

BEYOND_THE_LEASE_SECONDS = 1.0
"""A frozen host sleeps this far past the lease, so that another may have taken over and be at work."""

KILLED, STALLED, FROZEN, LOST = "handler killed", "handler stalled", "host frozen", "host lost"
WEIGHTS: Mapping[str, float] = {KILLED: 0.70, STALLED: 0.10, FROZEN: 0.15, LOST: 0.05}


class Faults:
    """Injects faults in a thread, with random gaps between them, until `stop`. `done` counts them by kind."""

    def __init__(self, hosts: Sequence[Host], *, seed: int, gap_seconds: float, lease_seconds: float) -> None:
        self._hosts, self._gap_seconds = hosts, gap_seconds
        self._frozen_seconds = lease_seconds + BEYOND_THE_LEASE_SECONDS
        self._random = random.Random(f"{seed}:processes")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
        self._error: BaseException | None = None
        self.done: Counter[str] = Counter()

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def check(self) -> None:
        """Raise the error that ended the faults, if there is one: a soak without faults proves nothing."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Inject no more faults, wait for the last one, and raise as `check` does."""
        self._stopping.set()
        self._thread.join()
        self.check()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._random.expovariate(1 / self._gap_seconds)):
                (fault,) = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))
                self.done[fault] += self._inject(fault, self._random.choice(self._hosts), self._random.random())
        except BaseException as error:
            self._error = error

    def _inject(self, fault: str, host: Host, chosen: float) -> bool:
        host.check()
        injections: Mapping[str, Callable[[], bool | None]] = {
            KILLED: lambda: host.kill_handler(chosen),
            STALLED: lambda: host.stall_handler(chosen),
            FROZEN: lambda: host.freeze(self._frozen_seconds),
            LOST: host.lose,
        }
        return injections[fault]() is not False
