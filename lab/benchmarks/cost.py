"""The cost of a million messages: units, requests and Lambda time, beside Powertools' idempotency and SQS FIFO.

    python -m lab.benchmarks.cost [--measure]

Units are measured: each handler has the same batches and a stand-in of its own that counts consumed capacity by
DynamoDB's rules (`standin.py`). Lambda's time is measured there too: calls take 5 ms, transactions 10 ms.
`--measure` writes the figures to `lab/results/cost.json` and the tables into `docs/understand/cost.md`; otherwise the tables
are printed from that file.

The sums: units and billed time per message times a million; one invocation, one receive and one delete for each batch
of ten; one send for each message.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab.benchmarks.batches import BATCH, between, table
from lab.benchmarks.billed_time import CONTENDERS, FINISHED, GROUPED, NEW, OURS, POWERTOOLS, Make, measure
from lab.benchmarks.handlers import effect_alone

ROOT = Path(__file__).resolve().parents[2]
FIGURES, PAGE = ROOT / "lab" / "results" / "cost.json", ROOT / "docs" / "understand" / "cost.md"
BEGIN, END = "<!-- tables of lab.benchmarks.cost -->", "<!-- end of the tables -->"
MILLION = 1_000_000
SERVICE_MS = 5.0
FIFO = "SQS FIFO, the effect without a ledger"
COMPARED: Mapping[str, Make] = {
    **{name: CONTENDERS[name] for name in (OURS, GROUPED, POWERTOOLS)},
    FIFO: lambda standin: effect_alone(standin.client()),
}


@dataclass(frozen=True, slots=True)
class Prices:
    """List prices of us-east-1 in US dollars, without the free tier. Change them to those of your region and agreement.

    Sources: https://aws.amazon.com/dynamodb/pricing/on-demand/, https://aws.amazon.com/sqs/pricing/ and
    https://aws.amazon.com/lambda/pricing/ (Arm, which the stack uses), as quoted in 2026. `million_fair_requests`
    is added to a standard queue's price for messages with a MessageGroupId, as Oneslot's have.
    """

    million_write_units: float = 0.625
    million_read_units: float = 0.125
    million_standard_requests: float = 0.40
    million_fair_requests: float = 0.10
    million_fifo_requests: float = 0.50
    million_invocations: float = 0.20
    gigabyte_second: float = 0.0000133334


@dataclass(frozen=True, slots=True)
class Measured:
    """One handler on one kind of batch: units, and milliseconds of Lambda's time, per message."""

    handler: str
    batch: str
    write_units: float
    read_units: float
    lambda_ms: float


@dataclass(frozen=True, slots=True)
class Bill:
    """A million messages: millions of units and requests, gigabyte-seconds, and dollars."""

    write_units: float
    read_units: float
    sqs_requests: float
    invocations: float
    gigabyte_seconds: float
    dollars: float


def bill(one: Measured, prices: Prices, memory_mb: int = 512) -> Bill:
    """Return the bill of a million such messages. memory_mb: the stack's `lambda_memory_mb`."""
    requests = 1 + 2 / BATCH
    invocations = 1 / BATCH
    gigabyte_seconds = one.lambda_ms / 1_000 * memory_mb / 1_024 * MILLION
    fair = prices.million_standard_requests + prices.million_fair_requests
    a_request = prices.million_fifo_requests if one.handler == FIFO else fair
    dollars = (
        one.write_units * prices.million_write_units
        + one.read_units * prices.million_read_units
        + requests * a_request
        + invocations * prices.million_invocations
        + gigabyte_seconds * prices.gigabyte_second
    )
    return Bill(one.write_units, one.read_units, requests, invocations, gigabyte_seconds, dollars)


def measured(*, service_ms: float = SERVICE_MS, runs: int = 20) -> list[Measured]:
    """Measure all. The FIFO handler gets no finished duplicates: SQS drops them within its window."""
    figures = [
        *measure(COMPARED, NEW, service_ms, runs),
        *measure({name: one for name, one in COMPARED.items() if name != FIFO}, FINISHED, service_ms, runs),
    ]
    return [
        Measured(one.handler, one.batch, one.write_units, one.read_units, round(one.billed_ms / BATCH, 3))
        for one in figures
    ]


def tables(figures: Sequence[Measured], prices: Prices) -> str:
    """Return the bills as Markdown: new requests, then finished duplicates."""
    header = ["per million messages", "WRU", "RRU", "SQS requests", "invocations", "GB-seconds", "dollars"]
    parts = []
    for kind, title in ((NEW, "New requests"), (FINISHED, "Duplicates of finished requests")):
        rows = []
        for one in (one for one in figures if one.batch == kind):
            sums = bill(one, prices)
            numbers = (sums.write_units, sums.read_units, sums.sqs_requests, sums.invocations)
            million = [f"{number:.2f} M" for number in numbers]
            rows.append([one.handler, *million, f"{sums.gigabyte_seconds:,.0f}", f"{sums.dollars:.2f}"])
        parts.append(f"{title}:\n\n{table(header, rows)}")
    return "\n".join(parts)


def read() -> list[Measured]:
    """Return the kept figures."""
    return [Measured(**one) for one in json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]]


def write(figures: Sequence[Measured]) -> None:
    """Keep the figures."""
    document = {
        "command": "python -m lab.benchmarks.cost --measure",
        "when": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "figures": [asdict(one) for one in figures],
    }
    FIGURES.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def filled(page: str) -> str:
    """Return the page with the tables of the kept figures."""
    return between(page, BEGIN, tables(read(), Prices()), END)


def main() -> None:
    """Print the tables; with `--measure`, measure, keep the figures and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure, and write docs/understand/cost.md")
    if parser.parse_args().measure:
        write(measured())
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(tables(read(), Prices()))


if __name__ == "__main__":
    main()
