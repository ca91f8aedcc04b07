"""Billed time, calls and capacity units of a batch of ten: ours, the peers and the floors, from one run.

    python -m benchmarks.billed_time [--short] [--json]

Each handler gets the same batches from a stand-in of its own whose calls take a set time (`benchmarks/standin.py`). They take
turns, batch by batch, so that all meet the machine when it is slow. Billed time is the wall clock of the handler's call, as
Lambda bills it; the import is not in it.

The floor is what the guarantee needs if everything that can be at once is: one read of free slots and one transaction, one
after the other, three service times (a transaction takes two), and the CPU of those two calls alone, with no handler around
them. Ten practices need ten reads, though, whose CPU Python spends one after the other. So there is a second floor for whoever
makes them by botocore's client: the very calls that our group makes for these batches, recorded and made again by it alone,
reads side by side. The setting `queries_together` goes round the client.

What ours gains by the setting `one_core` is measured beside the floors and the peer held to one core in the same way, on Linux
only. The stand-in then has the other core of a machine with two.

The batches: ten new requests for ten practices; the same with two finished duplicates; ten for one practice; ten duplicates.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from botocore import xform_name

from benchmarks.bench_kit import (
    CONCURRENCY,
    Handler,
    LambdaContext,
    StandIn,
    booking,
    event,
    median_ms,
    ours,
    print_figures,
    quartiles_ms,
    stand_in,
    table,
)
from benchmarks.ending import ended
from benchmarks.peers import ledger_by_hand, powertools

SERVICE_MS = (5.0, 20.0, 2.0)
PRACTICES = [f"A8{number:04}" for number in range(10)]
BATCH = 10
NEW, DUPLICATES, BUSY, FINISHED = "ten new", "two of ten duplicates", "ten for one practice", "ten duplicates"
KINDS = (NEW, DUPLICATES, BUSY, FINISHED)
FINISHED_BEFORE = {DUPLICATES: 2, FINISHED: BATCH}
"""How many of a batch's messages are finished before it comes."""
FLOOR, BARE = "floor", "the group's calls alone"
GROUPED, OURS, POWERTOOLS = "ours, group commit", "ours (default)", "(a) Powertools"
TOGETHER = "ours, group commit, queries together"
ONE_CORE = ", one core"
"""What is added to the name of a contender that is held to one core."""
WARM_UP, RUNS = 2, 24
"""Batches that are not counted, and those that are."""

Deliver = Callable[[int], None]
"""Delivers the batch of this number."""
Call = tuple[str, dict[str, Any]]
"""The client's method, and its parameters."""


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
    quartiles_ms: tuple[float, float]
    """Of billed time: a quarter of the batches took less than the first, a quarter more than the second."""


Contender = Callable[[StandIn, str, int], Deliver]
"""Something to compare: a stand-in of its own, a kind of batch and how many → how to deliver each."""


def run(service_times: Sequence[float], runs: int) -> Iterator[Figure]:
    """Every contender on every kind of batch."""
    for service_ms in service_times:
        for kind in KINDS:
            yield from measure(CONTENDERS, kind, service_ms, runs)


def measure(compared: Mapping[str, Contender], kind: str, service_ms: float, runs: int) -> Iterator[Figure]:
    """Deliver `runs` batches of a kind to each contender, in turns."""
    with contextlib.ExitStack() as stack:
        standins = {name: stack.enter_context(stand_in()) for name in compared}
        yield from _measure(compared, standins, kind, service_ms, runs)


def _measure(
    compared: Mapping[str, Contender], standins: Mapping[str, StandIn], kind: str, service_ms: float, runs: int
) -> Iterator[Figure]:
    contenders = {name: make(standins[name], kind, WARM_UP + runs) for name, make in compared.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for name in contenders:
        standins[name].control("Time", service_ms=service_ms)
    for number in range(WARM_UP + runs):
        if number == WARM_UP:
            # What is there is not gone through again, as in the stack's handler: nobody pays for what the benchmark holds.
            gc.collect()
            gc.freeze()
            for name in contenders:
                standins[name].control("Bill")
        for name, deliver in contenders.items():
            started, started_cpu = time.perf_counter(), time.process_time()
            deliver(number)
            times[name].append(time.perf_counter() - started)
            cpu[name].append(time.process_time() - started_cpu)
    for name in contenders:
        bill = standins[name].control("Bill")
        yield Figure(
            handler=name,
            batch=kind,
            service_ms=service_ms,
            billed_ms=median_ms(times[name][WARM_UP:]),
            quartiles_ms=quartiles_ms(times[name][WARM_UP:]),
            cpu_ms=median_ms(cpu[name][WARM_UP:]),
            calls=sum(bill["calls"].values()) / (runs * BATCH),
            write_units=bill["writes"] / (runs * BATCH),
            read_units=bill["reads"] / (runs * BATCH),
            conflicts=bill["conflicts"],
        )


def batches(kind: str, number: int) -> list[list[dict[str, Any]]]:
    """So many batches of a kind, ten bodies each."""
    practices = [PRACTICES[0]] * BATCH if kind == BUSY else PRACTICES
    return [
        [booking(f"{kind.replace(' ', '-')}-{one}-{position}", practice) for position, practice in enumerate(practices)]
        for one in range(number)
    ]


def finish(handler: Handler, kind: str, number: int) -> None:
    """Let the handler have those messages of so many batches that are to be finished before."""
    if before := FINISHED_BEFORE.get(kind, 0):
        for bodies in batches(kind, number):
            handler(event(bodies[:before]), LambdaContext())


def handled(make: Callable[[StandIn], Handler]) -> Contender:
    """A contender that is a handler. One that fails a record raises RuntimeError."""

    def contender(standin: StandIn, kind: str, number: int) -> Deliver:
        standin.reset(0, PRACTICES)
        handler, events = make(standin), [event(bodies) for bodies in batches(kind, number)]
        finish(handler, kind, number)

        def deliver(batch: int) -> None:
            answer = handler(events[batch], LambdaContext())
            if answer["batchItemFailures"]:
                raise RuntimeError(f"{type(handler).__name__} failed records of '{kind}': {answer}")

        return deliver

    return contender


def on_one_core(make: Contender) -> Contender:
    """A contender whose threads stay on one core, this one for the time of its turns, as the handler's with `one_core`."""

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        if sys.platform != "linux":
            raise OSError("threads are held to a core on Linux only")
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(before)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def contender(standin: StandIn, kind: str, number: int) -> Deliver:
        with held():  # a thread is born with its first work, and stays where its maker was
            deliver = make(standin, kind, number)

        def on_its_core(batch: int) -> None:
            with held():
                deliver(batch)

        return on_its_core

    return contender


def floor(standin: StandIn, kind: str, number: int) -> Deliver:
    """One query and one transaction of thirty items for each batch, bare. Of duplicates alone: a read."""
    standin.reset(0, PRACTICES)
    client = standin.client()

    def deliver(batch: int) -> None:
        rows = [{"message_id": {"S": f"{batch}-{one}"}, "text": {"S": "x" * 500}} for one in range(3 * BATCH)]
        if kind == FINISHED:
            keys = [{"message_id": row["message_id"]} for row in rows[:BATCH]]
            client.batch_get_item(RequestItems={"ledger": {"Keys": keys}})
            return
        client.query(
            TableName="slots",
            IndexName="free_slots",
            KeyConditionExpression="practice = :practice AND free_key BETWEEN :first AND :last",
            ExpressionAttributeValues={":practice": {"S": PRACTICES[0]}, ":first": {"S": "A"}, ":last": {"S": "Z"}},
            ProjectionExpression="free_key",
            Limit=16,
        )
        client.transact_write_items(TransactItems=[{"Put": {"TableName": "ledger", "Item": row}} for row in rows])

    return deliver


def bare(standin: StandIn, kind: str, number: int) -> Deliver:
    """The calls that our group makes for each batch, by botocore alone: reads side by side, then what is written."""
    recorded = record(standin, kind, number)
    client, executor = standin.client(), ThreadPoolExecutor(CONCURRENCY)

    def call(one: Call) -> None:
        name, request = one
        getattr(client, name)(**request)

    def deliver(batch: int) -> None:
        reads = [one for one in recorded[batch] if one[0] != "transact_write_items"]
        writes = [one for one in recorded[batch] if one[0] == "transact_write_items"]
        others = [executor.submit(call, one) for one in reads[1:]]
        call(reads[0])
        for other in others:
            other.result()
        for one in writes:
            call(one)

    return deliver


def record(standin: StandIn, kind: str, number: int) -> list[list[Call]]:
    """The calls of our group for each of so many batches; the tables are then as they were before the first.

    A choice of slots depends on the message's id alone, so what was written once can be written again.
    """
    calls: list[Call] = []

    def keep(params: dict[str, Any], model: Any, **_: Any) -> None:
        calls.append((xform_name(model.name), dict(params)))

    client = standin.client()
    client.meta.events.register("provide-client-params.dynamodb", keep)
    standin.reset(0, PRACTICES)
    handler = ours(standin, group_commit=True, client=client)
    finish(handler, kind, number)
    recorded = []
    for bodies in batches(kind, number):
        calls.clear()
        handler(event(bodies), LambdaContext())
        recorded.append(list(calls))
    standin.reset(0, PRACTICES)
    finish(handler, kind, number)
    return recorded


_FREE: Mapping[str, Contender] = {
    FLOOR: floor,
    BARE: bare,
    GROUPED: handled(lambda standin: ours(standin, group_commit=True)),
    TOGETHER: handled(lambda standin: ours(standin, group_commit=True, queries_together=True)),
    OURS: handled(lambda standin: ours(standin, group_commit=False)),
    "ours, one after the other": handled(lambda standin: ours(standin, group_commit=False, threads=1)),
    POWERTOOLS: handled(lambda standin: powertools(standin.client())),
    "(b) ledger by hand": handled(lambda standin: ledger_by_hand(standin.client())),
}
HELD = (FLOOR, BARE, GROUPED, TOGETHER, POWERTOOLS) if sys.platform == "linux" else ()
"""Those that are measured on one core, too."""
CONTENDERS: Mapping[str, Contender] = {**_FREE, **{name + ONE_CORE: on_one_core(_FREE[name]) for name in HELD}}
"""All that are compared here, by name."""


def tables(figures: Sequence[Figure]) -> str:
    """The figures as Markdown, a table for each service time."""
    header = [
        "batch",
        "handler",
        "billed ms",
        "quartiles",
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
                f"{one.quartiles_ms[0]:,.1f} to {one.quartiles_ms[1]:,.1f}",
                known[kind, POWERTOOLS].billed_ms / one.billed_ms if (kind, POWERTOOLS) in known else "",
                one.billed_ms / known[kind, FLOOR].billed_ms,
                one.cpu_ms,
                one.calls,
                one.write_units if not name.startswith(FLOOR) else "",
                one.read_units if not name.startswith(FLOOR) else "",
            ]
            for (kind, name), one in known.items()
        ]
        parts.append(f"Calls that take {service_ms:g} ms, transactions {2 * service_ms:g} ms:\n\n{table(header, rows)}")
    return "\n\n".join(parts)


def main() -> int:
    """Print the tables. Returns the exit status: 130 after an interrupt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="5 ms only, few runs")
    parser.add_argument("--json", action="store_true", help="figures as lines of JSON, each as soon as it is there")
    options = parser.parse_args()
    figures = run(SERVICE_MS[:1] if options.short else SERVICE_MS, 5 if options.short else RUNS)
    return print_figures(figures, tables, as_lines=options.json)


if __name__ == "__main__":
    sys.exit(ended(main))
