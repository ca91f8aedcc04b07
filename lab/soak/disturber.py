"""Injection of a plan's process faults, each at its time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from lab.soak.hosts import Host
from lab.soak.plan import Disturbance, ProcessFault

# A frozen host sleeps this far past the lease, so that another may have taken over and be at work.
BEYOND_THE_LEASE_SECONDS = 1.0


class Disturber:
    """Injects one fault at a time in a thread, so that a freeze and a loss of one host never overlap."""

    def __init__(self, hosts: Sequence[Host], plan: Iterator[Disturbance], lease_seconds: float) -> None:
        self._hosts, self._plan, self._lease_seconds = hosts, plan, lease_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disturber", daemon=True)
        self._error: BaseException | None = None
        self.done: Counter[str] = Counter()

    def start(self) -> None:
        """Start. The plan's times count from now."""
        self._thread.start()

    def check(self) -> None:
        """Raise the error that ended the faults, if there is one."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Inject no more faults, wait for the last one, and raise as `check` does."""
        self._stopping.set()
        self._thread.join()
        self.check()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            for disturbance in self._plan:
                if self._stopping.wait(max(0.0, began + disturbance.at - time.monotonic())):
                    return
                if self._disturb(disturbance):
                    self.done[disturbance.fault] += 1
        except BaseException as error:  # a soak whose faults ended early proves nothing, so `check` must raise
            self._error = error

    def _disturb(self, disturbance: Disturbance) -> bool:
        host = self._hosts[int(disturbance.host * len(self._hosts))]
        match disturbance.fault:
            case ProcessFault.KILLED:
                return host.kill_handler(disturbance.handler)
            case ProcessFault.STALLED:
                return host.stall_handler(disturbance.handler)
            case ProcessFault.FROZEN:
                host.freeze(self._lease_seconds + BEYOND_THE_LEASE_SECONDS)
            case ProcessFault.LOST:
                host.lose()
        return True
