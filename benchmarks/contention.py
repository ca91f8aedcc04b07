"""Contention: 32 consumers on one practice, and what the choice of a slot does to it.

    python -m benchmarks.contention [--short] [--json]

Each consumer is a thread that takes one request after the other from a common list, through our consumer, claim and all, on the
stand-in (`benchmarks/standin.py`), which refuses writes to items that a transaction holds. Compared: the first free slot, a
random one among the candidates, and the rendezvous hash that the product uses; with the product's 16 candidates and with 64.

Retries: transactions beyond one for each booking. Wasted: write units beyond those of bookings that meet nobody (9 each).
No livelock: every request ends, booked while slots last; else this stops with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from appointments import allocation
from appointments.schedule import FreeSlot, choose
from benchmarks.bench_kit import CONFIGURATION, LambdaContext, StandIn, booking, event, stand_in, table
from composition import compose

CONSUMERS = 32
SERVICE_MS = 5.0
PRACTICE = "A81001"
UNITS_ALONE = 9

Choice = Callable[[str, Sequence[FreeSlot]], FreeSlot]
STRATEGIES: dict[str, Choice] = {
    "first free": lambda message_id, candidates: candidates[0],
    "random": lambda message_id, candidates: random.choice(candidates),
    "rendezvous (ours)": choose,
}


@dataclass(frozen=True)
class Figure:
    """One strategy against so many free slots; times in milliseconds."""

    free_slots: int
    candidates: int
    strategy: str
    bookings: int
    retries_per_booking: float
    p50_ms: float
    p99_ms: float
    wasted: float
    seconds: float


@contextlib.contextmanager
def choosing(strategy: Choice) -> Iterator[None]:
    """Let the decision choose otherwise."""
    module = vars(allocation)
    original, module["choose"] = module["choose"], strategy
    try:
        yield
    finally:
        module["choose"] = original


def measure(standin: StandIn, name: str, free_slots: int, candidates: int, bookings: int) -> Figure:
    """As many requests as `bookings`, which may not be more than the slots."""
    standin.reset(SERVICE_MS, [PRACTICE], free_slots)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(bookings):
        waiting.put(number)
    times: list[float] = []
    failed: list[Any] = []
    client, sqs = standin.client(connections=CONSUMERS), standin.client("sqs")
    configuration = replace(CONFIGURATION, candidate_slots=candidates)

    def consume() -> None:
        consumer = compose(configuration, client, sqs, lambda delivery: None)
        while True:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            started = time.perf_counter()
            answer = consumer(event([booking(f"m-{number}", PRACTICE)]), LambdaContext())
            times.append((time.perf_counter() - started) * 1000)
            failed.extend(answer["batchItemFailures"])

    threads = [threading.Thread(target=consume) for _ in range(CONSUMERS)]
    started = time.perf_counter()
    with choosing(STRATEGIES[name]):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds = time.perf_counter() - started
    booked = sum(row["status"]["S"] == "busy" for row in standin.rows("slots"))
    if failed or booked != bookings:
        raise RuntimeError(f"{name}: {booked} of {bookings} booked, {len(failed)} failed deliveries")
    bill = standin.control("Bill")
    times.sort()
    return Figure(
        free_slots=free_slots,
        candidates=candidates,
        strategy=name,
        bookings=bookings,
        retries_per_booking=bill["calls"]["TransactWriteItems"] / bookings - 1,
        p50_ms=times[len(times) // 2],
        p99_ms=times[len(times) * 99 // 100],
        wasted=bill["writes"] / (UNITS_ALONE * bookings) - 1,
        seconds=seconds,
    )


def run(standin: StandIn, short: bool) -> list[Figure]:
    """Every strategy against every number of free slots."""
    return [
        measure(standin, name, free_slots, candidates, min(free_slots, 60 if short else 200))
        for free_slots in ((10, 100) if short else (10, 50, 200, 500))
        for candidates in (16, 64)
        for name in STRATEGIES
        if candidates == 16 or name == "rendezvous (ours)"
    ]


def tables(figures: Sequence[Figure]) -> str:
    """As Markdown."""
    header = ["free slots", "candidates", "strategy", "bookings", "retries/booking", "p50 ms", "p99 ms"]
    rows = [[*list(asdict(one).values())[:-2], f"{one.wasted:.0%}", one.seconds] for one in figures]
    return table([*header, "wasted units", "seconds"], rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="fewer slots and requests")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    with stand_in() as standin:
        figures = run(standin, options.short)
    print(json.dumps([asdict(one) for one in figures]) if options.json else tables(figures))


if __name__ == "__main__":
    main()
