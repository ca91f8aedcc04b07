"""The plan of faults. Every choice follows from the seed, so a run can be repeated but for the machine's timing. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class NetworkFault(StrEnum):
    """A fault of one call between the handler and AWS."""

    RESET = "reset"  # the connection breaks before the service sees the request
    DROPPED = "response_dropped"  # the service has acted, and its answer is lost
    LATE = "landed_late"  # the request reaches the service after the client's timeout and its retry
    SLOW = "slow"
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"
    CONFLICT = "transaction_conflict"


class ProcessFault(StrEnum):
    """A fault of processes. A host is a poller together with its handlers."""

    KILLED = "handler_killed"  # kill -9 of one handler, wherever it is
    STALLED = "handler_stalled"  # SIGSTOP; the invocation's timeout ends it
    FROZEN = "host_frozen"  # SIGSTOP of a whole host past the lease, then SIGCONT
    LOST = "host_lost"  # kill -9 of a poller, with every batch in its hands


NETWORK_SHARES: Mapping[NetworkFault, float] = {
    NetworkFault.RESET: 0.002,
    NetworkFault.DROPPED: 0.003,
    NetworkFault.LATE: 0.0005,  # rare, because the client waits 3 s for each
    NetworkFault.SLOW: 0.002,
    NetworkFault.THROTTLED: 0.002,
    NetworkFault.SERVER_ERROR: 0.001,
    NetworkFault.CONFLICT: 0.002,
}
"""The share of calls with each fault: about one call in eighty, so about one batch in three."""

PROCESS_WEIGHTS: Mapping[ProcessFault, float] = {
    ProcessFault.KILLED: 0.70,
    ProcessFault.STALLED: 0.10,
    ProcessFault.FROZEN: 0.15,
    ProcessFault.LOST: 0.05,
}


@dataclass(frozen=True)
class NetworkPlan:
    """The fault of each call, by its operation and its number among the calls of that operation.

    `script` names single calls, e.g. `{("TransactWriteItems", 1): DROPPED}`, and wins over `shares`.
    """

    seed: int
    shares: Mapping[NetworkFault, float] = field(default_factory=dict)
    script: Mapping[tuple[str, int], NetworkFault] = field(default_factory=dict)

    def fault(self, operation: str, number: int) -> NetworkFault | None:
        """Return the fault of the `number`-th call (from 1) of this operation, e.g. "UpdateItem"; None for most."""
        if scripted := self.script.get((operation, number)):
            return scripted
        drawn = random.Random(f"{self.seed}:{operation}:{number}").random()
        for fault, share in self.shares.items():
            drawn -= share
            if drawn < 0:
                return fault
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        script = [[operation, number, fault] for (operation, number), fault in self.script.items()]
        return {"seed": self.seed, "shares": dict(self.shares), "script": script}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> NetworkPlan:
        """Read what `to_json` wrote."""
        return cls(
            document["seed"],
            {NetworkFault(name): share for name, share in document["shares"].items()},
            {(operation, number): NetworkFault(fault) for operation, number, fault in document["script"]},
        )


@dataclass(frozen=True)
class Disturbance:
    """One process fault, `at` seconds after the start.

    `host` and `handler` pick the processes with numbers from 0 to 1, because their count is known only at that time.
    """

    at: float
    fault: ProcessFault
    host: float
    handler: float


def disturbances(seed: int, mean_gap_seconds: float) -> Iterator[Disturbance]:
    """Yield process faults without end, with exponential gaps of this mean between them."""
    rng = random.Random(f"{seed}:processes")
    at = 0.0
    while True:
        at += rng.expovariate(1 / mean_gap_seconds)
        (fault,) = rng.choices(list(PROCESS_WEIGHTS), list(PROCESS_WEIGHTS.values()))
        yield Disturbance(at, fault, rng.random(), rng.random())
