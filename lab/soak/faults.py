"""Faults of processes, one at a time, chosen by a seed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from lab.soak.hosts import Host

BEYOND_THE_LEASE_SECONDS = 1.0
"""A frozen host sleeps this far past the lease, so that another may have taken over and be at work."""

KILLED, FROZEN, LOST = "handler killed", "host frozen", "host lost"
WEIGHTS: Mapping[str, float] = {KILLED: 0.75, FROZEN: 0.20, LOST: 0.05}


class Faults:
    """Injects faults, with random gaps between them, until `stopping` is set. `done` counts them by kind."""

    def __init__(self, hosts: Sequence[Host], seed: int, gap_seconds: float, lease_seconds: float) -> None:
        self._hosts, self._gap_seconds = hosts, gap_seconds
        self._frozen_seconds = lease_seconds + BEYOND_THE_LEASE_SECONDS
        self._random = random.Random(f"{seed}:processes")
        self.stopping = threading.Event()
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        """Inject faults. Raises `OneslotError` if a host has ended: a soak without faults proves nothing."""
        while not self.stopping.wait(self._random.expovariate(1 / self._gap_seconds)):
            (fault,) = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            host, chosen = self._random.choice(self._hosts), self._random.random()
            host.check()
            if fault == KILLED:
                self.done[fault] += host.kill_handler(chosen)
                continue
            if fault == FROZEN:
                host.freeze(self._frozen_seconds)
            else:
                host.lose()
            self.done[fault] += 1
