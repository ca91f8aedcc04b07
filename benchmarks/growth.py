"""Growth: what a message costs when there are many messages and many practices, and where the handler's CPU goes.

    python -m benchmarks.growth [--short] [--json] [--profile]

The consumer with group commit, batches of ten, in this process on the metered port (`benchmarks/standin.py`) with no network
between: so the figures are CPU without botocore (which costs about 0.8 ms a call) and counts, at 1,000 to 100,000 messages
that are already in the tables and 1 to 6,000 practices that the messages are for.

`--profile` runs the default consumer on boto3's clients against the stand-in process and prints where its CPU goes.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.bench_kit import (
    CONFIGURATION,
    LambdaContext,
    booking,
    event,
    ours,
    print_figures,
    stand_in,
    table,
    week,
)
from benchmarks.ending import ended
from benchmarks.standin import READS, WRITES, MeteredDynamoDB
from booking.compose import compose
from oneslot.runtime.stores.expressions import to_attributes

MESSAGES = (1_000, 10_000, 100_000)
PRACTICES = (1, 100, 6_000)
BATCH = 10
MEASURED = 200
"""Batches that are measured at each size."""


@dataclass(frozen=True)
class Figure:
    """What a message costs when so many are there."""

    messages: int
    practices: int
    cpu_ms: float
    calls: float
    write_units: float
    read_units: float


class Port(MeteredDynamoDB):
    """The metered port as both clients; counts calls, and times itself, which is not the handler's CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.seconds = 0.0

    def timed(self, name: str) -> Callable[..., Any]:
        """A call that is counted and timed."""
        method = getattr(self, name)

        def call(**request: Any) -> Any:
            self.calls[name] += 1
            started = time.process_time()
            try:
                return method(**request)
            finally:
                self.seconds += time.process_time() - started

        return call


class Client:
    """A client on a port."""

    def __init__(self, port: Port) -> None:
        for name in ("update_item", "transact_write_items", "batch_get_item", "get_item", "query"):
            setattr(self, name, port.timed(name))


def measure(messages: int, practices: int, batches: int = MEASURED) -> Figure:
    """Fill the tables with `messages` finished messages, then measure batches of new ones."""
    port = Port()
    names = [f"A{number:05}" for number in range(practices)]
    for name in names:
        number = max(20, BATCH * batches + 500) if practices == 1 else 60
        for slot in week(name, number):
            item = to_attributes(slot)
            port._store("slots", port.tables["slots"].key_text(item), item)
    row = {"status": "COMPLETE", "consumption_count": 1, "payload_hash": "0" * 64, "result": "{}", "claimed_by": "x"}
    for number in range(messages):
        item = to_attributes({"message_id": f"old-{number}", **row})
        port._store("ledger", port.tables["ledger"].key_text(item), item)
    client: Any = Client(port)
    consumer = compose(replace(CONFIGURATION, group_commit=True), client, client, lambda delivery: None)
    rng = random.Random(1)
    events = [
        event([booking(f"m-{batch}-{position}", rng.choice(names)) for position in range(BATCH)])
        for batch in range(batches + 5)
    ]
    for sent in events[:5]:
        consumer(sent, LambdaContext())
    port.calls.clear()
    port.units.clear()
    port.contents.tokens.clear()
    port.seconds = 0.0
    started = time.process_time()
    for sent in events[5:]:
        consumer(sent, LambdaContext())
    seconds = time.process_time() - started - port.seconds
    measured = batches * BATCH
    return Figure(
        messages=messages,
        practices=practices,
        cpu_ms=seconds * 1000 / measured,
        calls=sum(port.calls.values()) / measured,
        write_units=port.units[WRITES] / measured,
        read_units=port.units[READS] / 2 / measured,
    )


def run(short: bool) -> Iterator[Figure]:
    """Every size: messages at a hundred practices, then practices at ten thousand messages."""
    messages = MESSAGES[:2] if short else MESSAGES
    for number in messages:
        yield measure(number, 100)
    for number in PRACTICES[:2] if short else PRACTICES:
        if number != 100:
            yield measure(1_000 if short else 10_000, number)


def profile(batches: int = 50) -> str:
    """The twenty functions with the most own time, of the default consumer in one thread on boto3's clients."""
    with stand_in() as standin:
        standin.reset(0, [f"A8{number:04}" for number in range(BATCH)])
        handler = ours(standin, group_commit=False, threads=1)
        handler(event([booking("warm", "A80000")]), LambdaContext())
        profiler = cProfile.Profile(time.process_time)
        for batch in range(batches):
            sent = event([booking(f"p-{batch}-{position}", f"A8{position:04}") for position in range(BATCH)])
            profiler.runcall(handler, sent, LambdaContext())
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(20)
    return text.getvalue()


def tables(figures: Sequence[Figure]) -> str:
    """As Markdown."""
    header = ["messages there", "practices", "CPU ms/msg", "calls/msg", "WRU/msg", "RRU/msg"]
    return table(header, [list(asdict(one).values()) for one in figures])


def main() -> int:
    """Print the table, or the profile. Returns the exit status: 130 after an interrupt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="smaller sizes")
    parser.add_argument("--json", action="store_true", help="figures as lines of JSON, each as soon as it is there")
    parser.add_argument("--profile", action="store_true", help="where the CPU goes")
    options = parser.parse_args()
    if options.profile:
        print(profile())
        return 0
    return print_figures(run(options.short), tables, as_lines=options.json)


if __name__ == "__main__":
    sys.exit(ended(main))
