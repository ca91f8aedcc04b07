"""Warm handler processes of one function, shared by the poller's threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from oneslot.local.mapping.handler_process import Answered, FunctionError, HandlerProcess, Outcome, Throttled
from oneslot.local.mapping.installation import Installation


@dataclass
class HandlerPool:
    """At most `size` warm processes. Safe to use from many threads."""

    installation: Installation
    size: int
    _free: list[HandlerProcess] = field(default_factory=list)
    _all: set[HandlerProcess] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def warm(self, count: int) -> FunctionError | None:
        """Start up to `count` processes and wait until each has imported the handler; return the first error, if any.

        The first one starts alone and writes the modules' bytecode, which saves the others a third of their start.
        """
        missing = min(count, self.size) - len(self._all)
        return (self._start(1) or self._start(missing - 1)) if missing > 0 else None

    def _start(self, count: int) -> FunctionError | None:
        with self._changed:
            started = [HandlerProcess(self.installation) for _ in range(count)]
            self._all.update(started)
        errors = [process.wait_until_ready() for process in started]
        for process, error in zip(started, errors, strict=True):
            self._return(process, usable=error is None)
        return next((error for error in errors if error is not None), None)

    def invoke(self, event: dict[str, Any], *, request_id: str) -> Outcome:
        """Invoke the function in a free process, or in a new one if there is room; return `Throttled` otherwise."""
        process = self._take()
        if process is None:
            return Throttled()
        usable = False
        try:
            outcome = process.invoke(
                event, request_id=request_id, timeout_seconds=self.installation.function.timeout_seconds
            )
            usable = isinstance(outcome, Answered) or outcome.kind == "exception"
            return outcome
        finally:
            self._return(process, usable=usable)

    def pids(self) -> list[int]:
        """Return the ids of the live processes, for tests that kill one."""
        with self._changed:
            return sorted(process.pid for process in self._all if process.alive)

    def close(self) -> None:
        """End every process, and with it an invocation that still runs."""
        with self._changed:
            processes, self._all, self._free = list(self._all), set(), []
        for process in processes:
            process.close(grace_seconds=1.0)

    def _take(self) -> HandlerProcess | None:
        with self._changed:
            while self._free:
                process = self._free.pop()
                if process.alive:
                    return process
                # It died while idle, so no invocation has failed.
                self._all.discard(process)
                process.close()
            if len(self._all) >= self.size:
                return None
            process = HandlerProcess(self.installation)
            self._all.add(process)
            return process

    def _return(self, process: HandlerProcess, *, usable: bool) -> None:
        with self._changed:
            if usable and process in self._all:
                self._free.append(process)
                return
            self._all.discard(process)
        process.close()
