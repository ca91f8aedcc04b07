"""Billed time, calls and capacity units of a batch of ten: ours, the peers and the floors, from one run.

    python -m lab.benchmarks.billed_time [--short]

Each handler gets the same batches from a stand-in of its own whose calls take a set time (`lab/benchmarks/standin`). The
handlers take turns, batch by batch, so that a slow moment of the machine meets them all. Billed time is the wall
clock of the handler's call, as Lambda bills it, without the import.

The floor is the least that the guarantee needs: one read of free slots, then one transaction, without a handler
around them. That is three service times (a transaction takes two) and the CPU of two calls. Ten practices need ten
reads, though, whose CPU Python spends one after the other. So a second floor repeats the recorded calls of our group
by botocore alone, reads side by side.

The batches: ten new requests for ten practices; the same with two finished duplicates; ten for one practice; ten duplicates.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from botocore import xform_name

from lab.benchmarks.handlers import ledger_by_hand, ours, powertools
from lab.benchmarks.harness.batches import BATCH, CONCURRENCY, Handler, LambdaContext, booking, event
from lab.benchmarks.harness.command import print_figures, run_main, short_option
from lab.benchmarks.harness.figures import cell_text, median_ms, quartiles_ms, table
from lab.benchmarks.standin.client import StandIn, stand_in

SERVICE_MS = (5.0, 20.0, 2.0)
PRACTICES = [f"A8{number:04}" for number in range(10)]
NEW, DUPLICATES, BUSY, FINISHED = "ten new", "two of ten duplicates", "ten for one practice", "ten duplicates"
KINDS = (NEW, DUPLICATES, BUSY, FINISHED)
FINISHED_BEFORE = {DUPLICATES: 2, FINISHED: BATCH}
"""How many messages of a batch are finished before it is delivered."""
FLOOR, BARE = "floor", "the group's calls alone"
GROUPED, OURS, POWERTOOLS = "ours, group commit", "ours (default)", "(a) Powertools"
SERIAL = "ours, one after the other"
WARM_UP, RUNS = 2, 24
"""Batches before the measurement, and in it."""

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
"""A stand-in, a kind of batch and a number of batches → a function that delivers each."""


def run(service_times: Sequence[float], runs: int) -> Iterator[Figure]:
    """Measure every contender on every kind of batch."""
    for service_ms in service_times:
        for kind in KINDS:
            yield from measure(CONTENDERS, kind, service_ms, runs)


def measure(compared: Mapping[str, Contender], kind: str, service_ms: float, runs: int) -> Iterator[Figure]:
    """Deliver `runs` batches of a kind to each contender, in turns. Each contender has a stand-in of its own."""
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
            # Freeze, as the stack's handler does, so that no collection visits the benchmark's own objects.
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
    """Return `number` batches of a kind, ten bodies each."""
    practices = [PRACTICES[0]] * BATCH if kind == BUSY else PRACTICES
    return [
        [booking(f"{kind.replace(' ', '-')}-{one}-{position}", practice) for position, practice in enumerate(practices)]
        for one in range(number)
    ]


def finish(handler: Handler, kind: str, number: int) -> None:
    """Deliver the messages of `number` batches that must be finished before the measurement."""
    if before := FINISHED_BEFORE.get(kind, 0):
        for bodies in batches(kind, number):
            handler(event(bodies[:before]), LambdaContext())


def handled(make: Callable[[StandIn], Handler]) -> Contender:
    """Return a contender that is a handler. It raises RuntimeError for a failed record."""

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


def floor(standin: StandIn, kind: str, number: int) -> Deliver:
    """Make one query and one transaction of thirty items for each batch; for a batch of duplicates, one read."""
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
    """Repeat the calls of our group for each batch by botocore alone: reads side by side, then the transactions."""
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
    """Return the calls of our group for each of `number` batches, and reset the tables.

    The choice of a slot depends on the message's id alone, so the same writes succeed again.
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


CONTENDERS: Mapping[str, Contender] = {
    FLOOR: floor,
    BARE: bare,
    GROUPED: handled(lambda standin: ours(standin, group_commit=True)),
    OURS: handled(lambda standin: ours(standin, group_commit=False)),
    SERIAL: handled(lambda standin: ours(standin, group_commit=False, threads=1)),
    POWERTOOLS: handled(lambda standin: powertools(standin.client())),
    "(b) ledger by hand": handled(lambda standin: ledger_by_hand(standin.client())),
}
"""All that are compared, by name."""


def tables(figures: Sequence[Figure]) -> str:
    """Return the figures as Markdown: times, then calls and units. Figures of other contenders are left out."""
    shown = [one for one in figures if one.handler in CONTENDERS]
    known = {(one.service_ms, one.batch, one.handler): one for one in shown}
    handlers = list(dict.fromkeys(one.handler for one in shown))
    kinds = list(dict.fromkeys((one.service_ms, one.batch) for one in shown))
    first = kinds[0][0] if kinds else 0
    times = [[f"{ms:g} ms", kind, *(_times(known.get((ms, kind, name))) for name in handlers)] for ms, kind in kinds]
    units = [[kind, *(_units(known.get((ms, kind, name))) for name in handlers)] for ms, kind in kinds if ms == first]
    return (
        f"Billed ms (CPU ms):\n\n{table(['a call', 'batch', *handlers], times)}\n\n"
        f"Calls, WRU and RRU of a message, where a call takes {first:g} ms:\n\n{table(['batch', *handlers], units)}"
    )


def _times(one: Figure | None) -> str:
    return f"{cell_text(one.billed_ms)} ({cell_text(one.cpu_ms)})" if one else ""


def _units(one: Figure | None) -> str:
    if one is None:
        return ""
    units = (one.calls,) if one.handler == FLOOR else (one.calls, one.write_units, one.read_units)
    return ", ".join(f"{each:.2f}" for each in units)


def main() -> int:
    """Print the tables. Return the exit status: 130 after an interrupt."""
    short = short_option(__doc__, "5 ms only, few runs")
    return print_figures(run(SERVICE_MS[:1] if short else SERVICE_MS, 5 if short else RUNS), tables)


if __name__ == "__main__":
    sys.exit(run_main(main))
