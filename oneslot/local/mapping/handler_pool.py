"""Warm handler processes of one function, shared by the poller's threads."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from oneslot.local.mapping.handler_process import Answered, FunctionError, HandlerProcess, Outcome, Throttled
from oneslot.local.mapping.installation import Installation
from oneslot.runtime.surroundings import Lock, Surroundings

_STATUSES = {"timeout": "timeout", "exception": "error"}


class Environment(Protocol):
    """An execution environment of Lambda, as `HandlerProcess` is one."""

    @property
    def pid(self) -> int: ...

    @property
    def alive(self) -> bool: ...

    def wait_until_ready(self) -> FunctionError | None: ...

    def invoke(self, event: dict[str, Any], *, request_id: str, timeout_seconds: float) -> Answered | FunctionError: ...

    def close(self, grace_seconds: float = 0.0) -> None: ...


@dataclass
class HandlerPool:
    """At most `size` warm processes. Safe to use from many threads."""

    installation: Installation
    size: int
    surroundings: Surroundings = field(default_factory=Surroundings)
    make: Callable[[Installation], Environment] = HandlerProcess
    _free: list[Environment] = field(default_factory=list)
    _all: dict[Environment, None] = field(default_factory=dict)
    _lock: Lock = field(init=False)

    def __post_init__(self) -> None:
        self._lock = self.surroundings.threads.lock()

    def warm(self, count: int) -> FunctionError | None:
        """Start up to `count` processes and wait until each has imported the handler; return the first error, if any.

        The first one starts alone and writes the modules' bytecode, which saves the others a third of their start.
        """
        missing = min(count, self.size) - len(self._all)
        return (self._start(1) or self._start(missing - 1)) if missing > 0 else None

    def _start(self, count: int) -> FunctionError | None:
        with self._lock:
            started = [self.make(self.installation) for _ in range(count)]
            self._all.update(dict.fromkeys(started))
        errors = [process.wait_until_ready() for process in started]
        for process, error in zip(started, errors, strict=True):
            self._return(process, usable=error is None)
        return next((error for error in errors if error is not None), None)

    def invoke(self, event: dict[str, Any]) -> Outcome:
        """Invoke the function in a free process, or in a new one if there is room; return `Throttled` otherwise."""
        process = self._take()
        if process is None:
            return Throttled()
        usable = False
        try:
            request_id, started = self.surroundings.new_id(), self.surroundings.steady()
            outcome = process.invoke(
                event, request_id=request_id, timeout_seconds=self.installation.function.timeout_seconds
            )
            usable = isinstance(outcome, Answered) or outcome.kind == "exception"
            if isinstance(outcome, FunctionError):
                self._report(outcome, request_id, self.surroundings.steady() - started)
            return outcome
        finally:
            self._return(process, usable=usable)

    def pids(self) -> list[int]:
        """Return the ids of the live processes, for tests that kill one."""
        with self._lock:
            return sorted(process.pid for process in self._all if process.alive)

    def close(self) -> None:
        """End every process, and with it an invocation that still runs."""
        with self._lock:
            processes, self._all, self._free = list(self._all), {}, []
        for process in processes:
            process.close(grace_seconds=1.0)

    def _take(self) -> Environment | None:
        with self._lock:
            while self._free:
                process = self._free.pop()
                if process.alive:
                    return process
                # It died while idle, so no invocation has failed.
                self._all.pop(process, None)
                process.close()
            if len(self._all) >= self.size:
                return None
            process = self.make(self.installation)
            self._all[process] = None
            return process

    def _return(self, process: Environment, *, usable: bool) -> None:
        with self._lock:
            if usable and process in self._all:
                self._free.append(process)
                return
            self._all.pop(process, None)
        process.close()

    def _report(self, error: FunctionError, request_id: str, seconds: float) -> None:
        """Log a failed invocation as Lambda's JSON log does, because a killed handler cannot."""
        now = datetime.fromtimestamp(self.surroundings.now_ms() / 1000, UTC)
        line = {
            "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "type": "platform.report",
            "record": {
                "requestId": request_id,
                "status": _STATUSES.get(error.kind, "failure"),
                "errorType": error.error_type,
                "metrics": {"durationMs": round(seconds * 1000, 3)},
            },
        }
        self.surroundings.append(self.installation.log_file, json.dumps(line).encode() + b"\n")
