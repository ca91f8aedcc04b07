"""Billed time, calls and capacity units of a batch of ten, ours and Powertools, from one run.

Each handler gets the same batches, and has a stand-in of its own whose calls take a set time (`standin.py`). The handlers
take turns, batch by batch, so that a slow moment of the machine meets them all. Billed time is the wall clock of the
handler's call, as Lambda bills it, without the import.

The batches: ten new requests for ten practices; the same with two finished duplicates; ten for one practice; ten duplicates.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.benchmarks.handlers import BATCH, book, booking, ours, table
from lab.benchmarks.standin import READS, WRITES, StandIn
from lab.peers.powertools import Handler, powertools
from oneslot.runtime.sqs.lambda_event import Context, event_of

SERVICE_MS = (5.0, 20.0, 2.0)
PRACTICES = [f"A8{number:04}" for number in range(10)]
NEW, DUPLICATES, BUSY, FINISHED = "ten new", "two of ten duplicates", "ten for one practice", "ten duplicates"
KINDS = (NEW, DUPLICATES, BUSY, FINISHED)
FINISHED_BEFORE = {DUPLICATES: 2, FINISHED: BATCH}
"""How many messages of a batch are finished before it is delivered."""
GROUPED, OURS, POWERTOOLS = "ours, group commit", "ours (default)", "Powertools"
WARM_UP, RUNS = 2, 24
"""Batches before the measurement, and in it."""

Make = Callable[[StandIn], Handler]
CONTENDERS: Mapping[str, Make] = {
    GROUPED: lambda standin: ours(standin.client(), standin.client("sqs"), group_commit=True),
    OURS: lambda standin: ours(standin.client(), standin.client("sqs"), group_commit=False),
    POWERTOOLS: lambda standin: powertools(standin.client(), book),
}
"""All that are compared, by name."""


@dataclass(frozen=True)
class Figure:
    """One handler on one kind of batch: milliseconds of a batch, and what each message cost on average."""

    handler: str
    batch: str
    service_ms: float
    billed_ms: float
    cpu_ms: float
    calls: float
    write_units: float
    read_units: float


def batches(kind: str, number: int) -> list[list[dict[str, Any]]]:
    """Return `number` batches of a kind, ten bodies each."""
    practices = [PRACTICES[0]] * BATCH if kind == BUSY else PRACTICES
    return [
        [booking(f"{kind.replace(' ', '-')}-{one}-{position}", practice) for position, practice in enumerate(practices)]
        for one in range(number)
    ]


def measure(compared: Mapping[str, Make], kind: str, service_ms: float, runs: int) -> Iterator[Figure]:
    """Deliver `runs` batches of a kind to each contender, in turns. Each contender has a stand-in of its own."""
    standins = {name: StandIn(PRACTICES) for name in compared}
    handlers = {name: make(standins[name]) for name, make in compared.items()}
    every = batches(kind, WARM_UP + runs)
    for name, handler in handlers.items():
        for bodies in every if FINISHED_BEFORE.get(kind) else ():
            _deliver(name, handler, standins[name], bodies[: FINISHED_BEFORE[kind]])
        standins[name].service_ms = service_ms
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in compared}
    for number, bodies in enumerate(every):
        if number == WARM_UP:
            # Freeze, as the stack's handler does, so that no collection visits the benchmark's own objects.
            gc.collect()
            gc.freeze()
            for standin in standins.values():
                standin.calls = 0
                standin.dynamodb.units.clear()
        for name, handler in handlers.items():
            times[name].append(_deliver(name, handler, standins[name], bodies))
    for name, standin in standins.items():
        billed, cpu = (1000 * statistics.median(of_each) for of_each in zip(*times[name][WARM_UP:], strict=True))
        units = standin.dynamodb.units
        of_messages = (each / (runs * BATCH) for each in (standin.calls, units[WRITES], units[READS] / 2))
        yield Figure(name, kind, service_ms, billed, cpu, *of_messages)


def _deliver(name: str, handler: Handler, standin: StandIn, bodies: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Deliver a batch; return wall seconds, and CPU seconds without the stand-in's. Raises RuntimeError for a failed record."""
    given = event_of(*bodies)
    started, started_cpu = time.perf_counter(), time.process_time() - standin.cpu_seconds
    answer = handler(given, Context())
    took = time.perf_counter() - started, time.process_time() - standin.cpu_seconds - started_cpu
    if answer["batchItemFailures"]:
        raise RuntimeError(f"{name} failed records: {answer}")
    return took


def tables(short: bool) -> str:
    """Measure every contender on every kind of batch. Return times, then calls and units. `short`: 5 ms only, few runs."""
    service_times, runs = (SERVICE_MS[:1], 5) if short else (SERVICE_MS, RUNS)
    figures = [one for ms in service_times for kind in KINDS for one in measure(CONTENDERS, kind, ms, runs)]
    names = list(dict.fromkeys(one.handler for one in figures))
    times: dict[tuple[float, str], list[str]] = {}
    units: dict[str, list[str]] = {}
    for one in figures:
        row = times.setdefault((one.service_ms, one.batch), [f"{one.service_ms:g} ms", one.batch])
        row.append(f"{one.billed_ms:,.1f} ({one.cpu_ms:,.1f})")
        if one.service_ms == figures[0].service_ms:
            found = f"{one.calls:.2f}, {one.write_units:.2f}, {one.read_units:.2f}"
            units.setdefault(one.batch, [one.batch]).append(found)
    return (
        f"Billed ms (CPU ms):\n\n{table(['a call', 'batch', *names], times.values())}\n"
        f"Calls, WRU and RRU of a message:\n\n{table(['batch', *names], units.values())}"
    )
