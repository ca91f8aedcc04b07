"""Contention: 32 consumers on one practice, by three ways to choose a slot.

    python -m lab.benchmarks.contention [--short] [--json]

Each consumer is a thread that takes one batch after another from a common list, through our consumer, on the stand-in
(`lab/benchmarks/standin`), which refuses writes to items that a transaction holds. Compared are the first free slot, a
random one among the candidates, and the rendezvous hash that the product uses, with the product's 16 candidates and
with 64. By default a consumer takes one request at a time. With group commit the requests are dealt out evenly, two
to ten in a batch, because a single one would go the default way.

Retries: cancelled transactions for each booking. Wasted: the write units of cancelled transactions for each booking;
one without contention costs 9, in a group 8. Times are of a delivery, from the call of the consumer to its answer. No
livelock: every request ends, booked while slots last; otherwise the benchmark stops with an error.
"""

from __future__ import annotations

import contextlib
import queue
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from appointments.allocation import choose
from appointments.messages import BookRequest
from booking import slot_search
from booking.consumer import appointments_consumer
from lab.benchmarks.harness.batches import BATCH, ENVIRONMENT, LambdaContext, booking, event
from lab.benchmarks.harness.command import measurement_parser, print_figures, run_main
from lab.benchmarks.harness.figures import cell_text, table
from lab.benchmarks.standin.client import StandIn, stand_in

CONSUMERS = 32
SERVICE_MS = 5.0
PRACTICE = "A81001"
SLOTS = (10, 100, 500)
MOST_BOOKINGS = 200
DEFAULT, GROUPED = "default", "group commit"

Choice = Callable[[BookRequest, Sequence[str]], str]
OURS = "rendezvous (ours)"
STRATEGIES: dict[str, Choice] = {
    "first free": lambda request, candidates: candidates[0],
    "random": lambda request, candidates: random.choice(candidates),
    OURS: choose,
}


@dataclass(frozen=True)
class Figure:
    """One strategy on `free_slots`; times in milliseconds."""

    way: str
    free_slots: int
    candidates: int
    strategy: str
    bookings: int
    retries_per_booking: float
    p50_ms: float
    p99_ms: float
    wasted_units: float
    seconds: float


@contextlib.contextmanager
def choosing(strategy: Choice) -> Iterator[None]:
    """Let the decision choose by another strategy within the block."""
    module = vars(slot_search)
    original, module["choose"] = module["choose"], strategy
    try:
        yield
    finally:
        module["choose"] = original


def measure(standin: StandIn, way: str, name: str, *, free_slots: int, candidates: int, bookings: int) -> Figure:
    """Measure `bookings` requests, at most one for each free slot."""
    standin.reset(SERVICE_MS, [PRACTICE], free_slots)
    waiting: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
    size = min(BATCH, max(2, bookings // CONSUMERS)) if way == GROUPED else 1
    for first in range(0, bookings, size):
        waiting.put(range(first, min(first + size, bookings)))
    times: list[float] = []
    failed: list[Any] = []
    client, sqs = standin.client(connections=CONSUMERS), standin.client("sqs")
    grouped = str(way == GROUPED).lower()
    environment = {**ENVIRONMENT, "CANDIDATE_SLOTS": str(candidates), "GROUP_COMMIT": grouped}

    def consume() -> None:
        consumer = appointments_consumer(environment, lambda delivery: None, dynamodb=client, sqs=sqs, executor=None)
        while True:
            try:
                numbers = waiting.get_nowait()
            except queue.Empty:
                return
            started = time.perf_counter()
            answer = consumer(event([booking(f"m-{number}", PRACTICE) for number in numbers]), LambdaContext())
            times.append((time.perf_counter() - started) * 1000)
            failed.extend(answer["batchItemFailures"])

    started = time.perf_counter()
    with choosing(STRATEGIES[name]), ThreadPoolExecutor(CONSUMERS) as consumers:
        try:
            for done in as_completed([consumers.submit(consume) for _ in range(CONSUMERS)]):
                done.result()
        finally:  # after an error or an interrupt no consumer takes another batch
            with contextlib.suppress(queue.Empty):
                while True:
                    waiting.get_nowait()
    seconds = time.perf_counter() - started
    booked = sum(row["status"]["S"] == "busy" for row in standin.rows("slots"))
    if failed or booked != bookings:
        raise RuntimeError(f"{way}, {name}: {booked} of {bookings} booked, {len(failed)} failed deliveries")
    bill = standin.control("Bill")
    times.sort()
    return Figure(
        way=way,
        free_slots=free_slots,
        candidates=candidates,
        strategy=name,
        bookings=bookings,
        retries_per_booking=bill["cancelled"] / bookings,
        p50_ms=times[len(times) // 2],
        p99_ms=times[len(times) * 99 // 100],
        wasted_units=bill["cancelled_writes"] / bookings,
        seconds=seconds,
    )


def run(standin: StandIn, short: bool) -> Iterator[Figure]:
    """Measure both ways and every strategy on every number of free slots."""
    for free_slots in SLOTS[:2] if short else SLOTS:
        for way in (DEFAULT, GROUPED):
            for candidates in (16, 64):
                for name in STRATEGIES if candidates == 16 else (OURS,):
                    bookings = min(free_slots, MOST_BOOKINGS // 4 if short else MOST_BOOKINGS)
                    yield measure(standin, way, name, free_slots=free_slots, candidates=candidates, bookings=bookings)


def tables(figures: Sequence[Figure]) -> str:
    """Return retries, p99 in ms and wasted WRU of a booking as Markdown, a column for each choice of a slot."""
    choices = list(dict.fromkeys((one.strategy, one.candidates) for one in figures))
    known = {(one.way, one.free_slots, one.strategy, one.candidates): one for one in figures}
    rows = [
        [way, free, *(_figures(known.get((way, free, *choice))) for choice in choices)]
        for way, free in dict.fromkeys((one.way, one.free_slots) for one in figures)
    ]
    return table(["way", "free slots", *(f"{strategy}, of {most}" for strategy, most in choices)], rows)


def _figures(one: Figure | None) -> str:
    shown = (one.retries_per_booking, one.p99_ms, one.wasted_units) if one else ()
    return ", ".join(map(cell_text, shown))


def main() -> int:
    """Print the table. Return the exit status: 130 after an interrupt."""
    options = measurement_parser(__doc__, short="fewer slots and requests").parse_args()
    with stand_in() as standin:
        return print_figures(run(standin, options.short), tables, as_lines=options.json)


if __name__ == "__main__":
    sys.exit(run_main(main))
