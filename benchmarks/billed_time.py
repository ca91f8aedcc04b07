"""Billed time, calls and capacity units of a batch of ten: ours, the peers and the floor, from one run.

    python -m benchmarks.billed_time [--short] [--json]

Each handler gets the same batches from a stand-in whose calls take a set time (`benchmarks/standin.py`). Billed time is the
wall clock of the handler's call, as Lambda bills it; the import is not in it. The floor is what the guarantee needs if
everything that can be at once is: one read of free slots and one transaction, one after the other, three service times (a
transaction takes two), and the CPU of those two calls alone, measured in the same run with no handler around them.

The batches: ten new requests for ten practices; the same with two finished duplicates; ten for one practice; ten duplicates.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.bench_kit import (
    Handler,
    LambdaContext,
    StandIn,
    booking,
    event,
    median_ms,
    ours,
    print_figures,
    stand_in,
    table,
)
from benchmarks.peers import ledger_by_hand, powertools

SERVICE_MS = (5.0, 20.0, 2.0)
PRACTICES = [f"A8{number:04}" for number in range(10)]
BATCH = 10
NEW, DUPLICATES, BUSY, FINISHED = "ten new", "two of ten duplicates", "ten for one practice", "ten duplicates"
KINDS = (NEW, DUPLICATES, BUSY, FINISHED)
FLOOR, POWERTOOLS = "floor", "(a) Powertools"
FLOOR_PHASES = 3
"""Service times one after the other: a read, and a transaction's two."""


@dataclass(frozen=True)
class Figure:
    """One handler on one kind of batch: milliseconds and what each message cost on average."""

    handler: str
    batch: str
    service_ms: float
    billed_ms: float
    cpu_ms: float
    calls: float
    write_units: float
    read_units: float
    conflicts: int


def batches(kind: str, run: str) -> Iterator[list[dict[str, Any]]]:
    """Endless batches of a kind; of a batch with duplicates the first ten messages are to be finished before."""
    number = 0
    while True:
        ids = [f"{run}-{number}-{position}" for position in range(BATCH)]
        practices = [PRACTICES[0]] * BATCH if kind == BUSY else PRACTICES
        yield [booking(message_id, practice) for message_id, practice in zip(ids, practices, strict=True)]
        number += 1


def measure(
    standin: StandIn, name: str, make: Callable[[], Handler], kind: str, *, service_ms: float, runs: int
) -> Figure:
    """Deliver `runs` batches of a kind to a handler; the first one warms it up and is not counted."""
    standin.reset(0, PRACTICES)
    handler, context = make(), LambdaContext()
    made = batches(kind, kind.replace(" ", "-"))
    before = {DUPLICATES: 2, FINISHED: BATCH}.get(kind, 0)
    prepared = [next(made) for _ in range(runs + 1)]
    for bodies in prepared:
        if before:
            handler(event(bodies[:before]), context)
    standin.control("Time", service_ms=service_ms)
    handler(event(prepared[0]), context)
    spare_the_collector()
    standin.control("Bill")
    times, cpu = [], []
    for bodies in prepared[1:]:
        sent = event(bodies)
        started, started_cpu = time.perf_counter(), time.process_time()
        answer = handler(sent, context)
        times.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
        if answer["batchItemFailures"]:
            raise RuntimeError(f"{name} failed records of '{kind}': {answer}")
    bill = standin.control("Bill")
    messages = runs * BATCH
    return Figure(
        handler=name,
        batch=kind,
        service_ms=service_ms,
        billed_ms=median_ms(times),
        cpu_ms=median_ms(cpu),
        calls=sum(bill["calls"].values()) / messages,
        write_units=bill["writes"] / messages,
        read_units=bill["reads"] / messages,
        conflicts=bill["conflicts"],
    )


def spare_the_collector() -> None:
    """What is there is not gone through again, as in the stack's handler: nobody pays for what the benchmark holds."""
    gc.collect()
    gc.freeze()


def floor(standin: StandIn, kind: str, service_ms: float, runs: int) -> Figure:
    """One query and one transaction of thirty items, bare: `FLOOR_PHASES` service times and their CPU. Duplicates: a read."""
    standin.reset(service_ms, PRACTICES)
    client = standin.client()
    times, cpu = [], []
    spare_the_collector()
    for run in range(runs + 1):
        rows = [{"message_id": {"S": f"{run}-{position}"}, "text": {"S": "x" * 500}} for position in range(3 * BATCH)]
        started, started_cpu = time.perf_counter(), time.process_time()
        if kind == FINISHED:
            keys = [{"message_id": row["message_id"]} for row in rows[:BATCH]]
            client.batch_get_item(RequestItems={"ledger": {"Keys": keys}})
        else:
            client.query(
                TableName="slots",
                IndexName="free_slots",
                KeyConditionExpression="practice = :practice AND free_key BETWEEN :first AND :last",
                ExpressionAttributeValues={":practice": {"S": PRACTICES[0]}, ":first": {"S": "A"}, ":last": {"S": "Z"}},
                Limit=16,
            )
            client.transact_write_items(TransactItems=[{"Put": {"TableName": "ledger", "Item": row}} for row in rows])
        times.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
    bill = standin.control("Bill")
    return Figure(
        FLOOR,
        kind,
        service_ms,
        median_ms(times[1:]),
        median_ms(cpu[1:]),
        sum(bill["calls"].values()) / (runs + 1) / BATCH,
        0.0,
        0.0,
        0,
    )


def handlers(standin: StandIn) -> dict[str, Callable[[], Handler]]:
    """All that are compared, by name."""
    return {
        POWERTOOLS: lambda: powertools(standin.client()),
        "(b) ledger by hand": lambda: ledger_by_hand(standin.client()),
        "ours, one after the other": lambda: ours(standin, group_commit=False, threads=1),
        "ours (default)": lambda: ours(standin, group_commit=False),
        "ours, group commit": lambda: ours(standin, group_commit=True),
    }


def run(standin: StandIn, service_times: Sequence[float], runs: int) -> Iterator[Figure]:
    """Every handler and the floor on every kind of batch."""
    for service_ms in service_times:
        for kind in KINDS:
            yield floor(standin, kind, service_ms, runs)
            for name, make in handlers(standin).items():
                yield measure(standin, name, make, kind, service_ms=service_ms, runs=runs)


def tables(figures: Sequence[Figure]) -> str:
    """The figures as Markdown, a table for each service time."""
    header = [
        "batch",
        "handler",
        "billed ms",
        "x less than (a)",
        "x floor",
        "CPU ms",
        "calls/msg",
        "WRU/msg",
        "RRU/msg",
    ]
    parts = []
    for service_ms in dict.fromkeys(figure.service_ms for figure in figures):
        known = {(one.batch, one.handler): one for one in figures if one.service_ms == service_ms}
        rows = [
            [
                kind,
                name,
                one.billed_ms,
                known[kind, POWERTOOLS].billed_ms / one.billed_ms if (kind, POWERTOOLS) in known else "",
                one.billed_ms / known[kind, FLOOR].billed_ms,
                one.cpu_ms,
                one.calls,
                one.write_units if name != FLOOR else "",
                one.read_units if name != FLOOR else "",
            ]
            for (kind, name), one in known.items()
        ]
        parts.append(f"Calls that take {service_ms:g} ms, transactions {2 * service_ms:g} ms:\n\n{table(header, rows)}")
    return "\n\n".join(parts)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="5 ms only, few runs")
    parser.add_argument("--json", action="store_true", help="figures as lines of JSON, each as soon as it is there")
    options = parser.parse_args()
    with stand_in() as standin:
        figures = run(standin, SERVICE_MS[:1] if options.short else SERVICE_MS, 5 if options.short else 12)
        print_figures(figures, tables, as_lines=options.json)


if __name__ == "__main__":
    main()
