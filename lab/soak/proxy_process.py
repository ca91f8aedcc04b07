"""The proxy from outside: start it, read its counts, end its faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from lab.soak.child import Child
from lab.soak.plan import NetworkPlan
from lab.soak.proxy import CALM, HOST


@dataclass(frozen=True)
class NetworkCounts:
    """Calls through the proxy by operation, and injected faults by kind."""

    calls: Mapping[str, int]
    injected: Mapping[str, int]

    @property
    def total_calls(self) -> int:
        """The number of calls."""
        return sum(self.calls.values())

    @property
    def total_injected(self) -> int:
        """The number of injected faults."""
        return sum(self.injected.values())


class ProxyProcess:
    """`with ProxyProcess(plan, "http://127.0.0.1:4566", folder) as proxy: ... proxy.endpoint_url`."""

    def __init__(self, plan: NetworkPlan, upstream_url: str, folder: Path) -> None:
        """upstream_url: the embedded AWS. folder: for the log."""
        port = urlsplit(upstream_url).port
        self._child = Child("lab.soak.proxy", json.dumps(plan.to_json()), str(port), log_file=folder / "proxy.log")
        self.endpoint_url = f"http://{HOST}:{self._child.read()['port']}"

    def counts(self) -> NetworkCounts:
        """Return the counts so far."""
        return NetworkCounts(**self._child.ask("counts"))

    def calm(self) -> NetworkCounts:
        """End the faults, wait until the last late request has landed, and return the counts."""
        return NetworkCounts(**self._child.ask(CALM))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.stop()
