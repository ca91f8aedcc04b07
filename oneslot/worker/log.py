"""What a worker says: one JSON line for each event, and its numbers as a CloudWatch metric line now and then."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from oneslot.runtime.stores.expressions import error_code

NAMESPACE = "Oneslot"


def name_of(error: BaseException) -> str:
    """The class of an error, or the code of a service's own. Never its text, which may quote a value."""
    return (error_code(error) if isinstance(error, ClientError) else "") or type(error).__name__


def write_line(line: str) -> None:
    """To standard output, whole."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class WorkerLog:
    """Counts events and writes them. Nothing of a message's content, only SQS's own ids, ever gets here."""

    def __init__(self, write: Callable[[str], None] = write_line) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self.broken = False
        """Whether a line could not be written: nobody hears this worker any more. Its work is not disturbed by that."""

    def count(self, **numbers: int) -> None:
        """Add to counters."""
        with self._lock:
            self._counts.update(numbers)

    @property
    def counts(self) -> dict[str, int]:
        """All counters since the start."""
        with self._lock:
            return dict(self._counts)

    def event(self, event: str, **details: Any) -> None:
        """Write one line about the worker, at once."""
        self.line("worker", event=event, time=time.time_ns() // 1_000_000, **details)

    def line(self, message: str, **details: Any) -> None:
        """Write one line, at once."""
        line = json.dumps({"message": message, **details})
        with self._lock:
            self._say(line)

    def metrics(self, **gauges: float) -> None:
        """Write what was counted since the last time, and `gauges` as they are, in CloudWatch's embedded metric format."""
        with self._lock:
            since = {name: self._counts[name] - self._told[name] for name in sorted(self._counts)}
            self._told = Counter(self._counts)
            values = {_capitals(name): value for name, value in {**since, **gauges}.items()}
            document = {
                "_aws": {
                    "Timestamp": time.time_ns() // 1_000_000,
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
            self._say(json.dumps(document))

    def _say(self, line: str) -> None:
        try:
            self._write(line)
        except (OSError, ValueError):  # its reader has gone, the disk is full; it was closed
            self.broken = True


def _capitals(name: str) -> str:
    return "Worker" + "".join(word.capitalize() for word in name.split("_"))
