"""A worker's log: one JSON line for each event, and its counters as a CloudWatch metric line once a minute."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from oneslot.runtime.surroundings import Surroundings

NAMESPACE = "Oneslot"


def write_line(line: str) -> None:
    """Write one line to standard output."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class WorkerLog:
    """Counts events and writes them. It never gets a message's content, only the ids of SQS."""

    def __init__(self, write: Callable[[str], None] = write_line, surroundings: Surroundings | None = None) -> None:
        self._write = write
        self._surroundings = surroundings or Surroundings()
        self._lock = self._surroundings.threads.lock()
        self._counts: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()

    def count(self, **numbers: int) -> None:
        """Add to counters."""
        with self._lock:
            self._counts.update(numbers)

    @property
    def counts(self) -> dict[str, int]:
        """The counters since the start."""
        with self._lock:
            return dict(self._counts)

    def event(self, event: str, **details: Any) -> None:
        """Write one line about the worker."""
        self.line("worker", event=event, time=self._surroundings.now_ms(), **details)

    def line(self, message: str, **details: Any) -> None:
        """Write one line."""
        line = json.dumps({"message": message, **details})
        with self._lock:
            self._write(line)

    def metrics(self, **gauges: float) -> None:
        """Write the counts since the last call, and `gauges`, as one line in CloudWatch's embedded metric format."""
        with self._lock:
            since = {name: self._counts[name] - self._reported[name] for name in sorted(self._counts)}
            self._reported = Counter(self._counts)
            values = {f"Worker{name.title().replace('_', '')}": value for name, value in {**since, **gauges}.items()}
            document = {
                "_aws": {
                    "Timestamp": self._surroundings.now_ms(),
                    "CloudWatchMetrics": [
                        {
                            "Namespace": NAMESPACE,
                            "Dimensions": [["service"]],
                            "Metrics": [{"Name": name} for name in values],
                        }
                    ],
                },
                "message": "worker metrics",
                "service": "worker",
                **values,
            }
            self._write(json.dumps(document))
