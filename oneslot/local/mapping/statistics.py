"""The poller's counters, for `watch` and `status`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from oneslot.runtime.surroundings import Surroundings


@dataclass(frozen=True)
class Statistics:
    """A snapshot. All are totals since the poller was created, but `in_flight`, which is current."""

    records: int = 0  # messages received and handed to the function
    deleted: int = 0  # messages deleted after success
    delete_refused: int = 0  # deletions that SQS refused or did not confirm; it may redeliver those
    failed: int = 0  # messages left to their visibility timeout
    function_errors: int = 0  # invocations that ended as a whole: exception, timeout, crash, invalid answer
    throttles: int = 0  # batches that no process took before their visibility timeout
    in_flight: int = 0  # messages in the function's hands now
    last_error: str = ""  # the class of the last error, never its text, which may hold personal data

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot as a JSON object, keyed by field name."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Statistics:
        """Read what `to_json` wrote; unknown keys are ignored, so an older reader can read a newer file."""
        names = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in names})


class StatisticsCounter:
    """Counters of the poller's threads. Safe to use from many threads."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._lock = surroundings.threads.lock()
        self._current = Statistics()

    def add(self, *, last_error: str | None = None, **changes: int) -> None:
        """Add each number to the field of its name. `in_flight` also takes negative ones."""
        with self._lock:
            added = {name: getattr(self._current, name) + change for name, change in changes.items()}
            error = self._current.last_error if last_error is None else last_error
            self._current = replace(self._current, last_error=error, **added)

    def snapshot(self) -> Statistics:
        """Return the current numbers."""
        with self._lock:
            return self._current
