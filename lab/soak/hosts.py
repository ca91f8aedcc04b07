"""Hosts from outside: start, freeze, kill and replace them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.soak.child import Child
from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.statistics import Statistics
from oneslot.local.processes import start_ticks

# The handlers of a thawed host run this long before its poller wakes and kills those past their deadline.
HEAD_START_SECONDS = 0.3


@dataclass(frozen=True)
class HostSettings:
    """Settings of a host. folder: for the unpacked function and the logs; it outlives the host's process."""

    connection: Connection
    mapping_id: str
    folder: Path
    processes: int


class Host:
    """One host. `lose` replaces its process, and keeps its folder."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        settings.folder.mkdir(parents=True, exist_ok=True)
        self._stalled: dict[int, int | None] = {}  # PID -> start time; together they identify a process
        self._child = self._start()

    @property
    def log_file(self) -> Path:
        """The delivery log of all handlers of this host, earlier ones included."""
        return self._settings.folder / "consumer.jsonl"

    def handlers(self) -> list[int]:
        """Return the process ids of its handlers."""
        pids: list[int] = self._child.ask("handlers")["handlers"]
        return pids

    def statistics(self) -> Statistics:
        """Return the poller's numbers, since its last start."""
        return Statistics.from_json(self._child.ask("statistics")["statistics"])

    def kill_handler(self, chosen: float) -> bool:
        """SIGKILL one handler, picked by a number from 0 to 1; False if there is none."""
        return self._signal_one(chosen, signal.SIGKILL) is not None

    def stall_handler(self, chosen: float) -> bool:
        """SIGSTOP one handler: only its invocation's deadline ends it. False if there is none."""
        pid = self._signal_one(chosen, signal.SIGSTOP)
        if pid is not None:
            self._stalled[pid] = start_ticks(pid)
        return pid is not None

    def freeze(self, seconds: float) -> None:
        """Stop poller and handlers together, like a suspended host, and continue them later."""
        handlers = self.handlers()
        everything = [self._child.pid, *handlers]
        try:
            _signal(everything, signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            _signal(handlers, signal.SIGCONT)
            time.sleep(HEAD_START_SECONDS)
            _signal([self._child.pid], signal.SIGCONT)

    def lose(self) -> None:
        """SIGKILL the poller and start a new one. Its handlers end with it, stalled ones too."""
        self._child.kill()
        self._continue_stalled()
        self._child = self._start()

    def stop(self) -> None:
        """Finish the batches in hand, and end."""
        self._child.stop()
        self._continue_stalled()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> Child:
        settings = self._settings
        child = Child(
            "lab.soak.host",
            settings.connection.endpoint_url,
            settings.connection.account,
            settings.mapping_id,
            str(settings.folder),
            str(settings.processes),
            log_file=settings.folder / "host.log",
        )
        try:
            child.read()
        except BaseException:
            child.stop()
            raise
        return child

    def _continue_stalled(self) -> None:
        """Continue the stalled handlers, because a stopped process never sees that its input has ended."""
        _signal([pid for pid, started in self._stalled.items() if start_ticks(pid) == started], signal.SIGCONT)
        self._stalled.clear()

    def _signal_one(self, chosen: float, number: signal.Signals) -> int | None:
        """Signal one handler, and return its process id; None if there is none."""
        handlers = self.handlers()
        if not handlers:
            return None
        pid = handlers[int(chosen * len(handlers))]
        _signal([pid], number)
        return pid


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
