"""The report of a run: figures, faults by kind, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.soak.proxy_process import NetworkCounts
from oneslot.evidence.gathering import Gathered
from oneslot.evidence.verdict import Verdict
from oneslot.terminal import Terminal, table


@dataclass(frozen=True)
class Report:
    """The result of one run. `seconds`: from the first message sent to the last one consumed."""

    seed: int
    messages: int
    seconds: float
    drain_seconds: float
    network: NetworkCounts
    process_faults: Mapping[str, int]
    deliveries: Mapping[str, int]  # by outcome
    redelivered: int  # requests that were claimed more than once
    exhausted: int  # messages that the redrive policy moved, because faults used up their receives
    verdict: Verdict

    @property
    def faults(self) -> int:
        """The number of injected faults."""
        return self.network.total_injected + sum(self.process_faults.values())

    @property
    def violations(self) -> int:
        """The number of breached invariants."""
        return len(self.verdict.breaches)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "seed": self.seed,
            "messages": self.messages,
            "seconds": round(self.seconds, 1),
            "messages_per_second": round(self.messages / self.seconds, 1),
            "drain_seconds": round(self.drain_seconds, 1),
            "calls": self.network.total_calls,
            "calls_by_operation": dict(self.network.calls),
            "faults": self.faults,
            "faults_by_kind": {**self.network.injected, **self.process_faults},
            "deliveries": dict(self.deliveries),
            "claimed_more_than_once": self.redelivered,
            "receives_exhausted": self.exhausted,
            "violations": self.violations,
            **self.verdict.document(),
        }

    def show(self, terminal: Terminal) -> None:
        """Show the report in the terminal."""
        faults = table("Faults injected", "kind", "times", numbers=(1,))
        for kind, times in sorted({**self.network.injected, **self.process_faults}.items()):
            faults.add_row(kind.replace("_", " "), f"{times:,}")
        faults.add_row("all", f"{self.faults:,}")
        outcomes = table("Deliveries", "outcome", "number", numbers=(1,))
        for outcome, number in sorted(self.deliveries.items()):
            outcomes.add_row(outcome, f"{number:,}")
        counts = table("Result", "", "number", numbers=(1,))
        for name, number in asdict(self.verdict.counts).items():
            if isinstance(number, int):
                counts.add_row(name.replace("_", " "), f"{number:,}")
        counts.add_row("requests claimed more than once", f"{self.redelivered:,}")
        counts.add_row("messages whose receives ran out", f"{self.exhausted:,}")
        counts.add_row("violations", f"{self.violations:,}")
        terminal.show(faults, outcomes, counts)
        terminal.plain(
            f"{self.messages:,} messages in {self.seconds:,.0f} s ({self.messages / self.seconds:,.0f} a second), "
            f"{self.network.total_calls:,} calls, {self.faults:,} faults, {self.violations:,} violations (seed {self.seed})."
        )
        terminal.plain(self.verdict.sentence, style="bold green" if self.verdict.holds else "bold red")


def summarise(
    gathered: Gathered,
    verdict: Verdict,
    *,
    seed: int,
    messages: int,
    seconds: float,
    drain_seconds: float,
    network: NetworkCounts,
    process_faults: Mapping[str, int],
) -> Report:
    """Return the report, with the counts that the verdict does not have."""
    evidence = gathered.evidence
    return Report(
        seed=seed,
        messages=messages,
        seconds=seconds,
        drain_seconds=drain_seconds,
        network=network,
        process_faults=process_faults,
        deliveries=Counter(line["outcome"] for line in evidence.deliveries),
        redelivered=sum(row["consumption_count"] > 1 for row in evidence.ledger.values()),
        exhausted=verdict.counts.dead_letters.get("receives_exhausted", 0),
        verdict=verdict,
    )
