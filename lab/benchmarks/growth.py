"""Growth: the cost of a message beside many messages and many practices, and a profile of the handler's CPU.

    python -m lab.benchmarks.growth [--short] [--json] [--profile]

The consumer with group commit takes batches of ten in this process, on the metered port (`lab/benchmarks/standin`),
without a network. So the figures are counts, and CPU without botocore, which costs about 0.8 ms a call. The tables
hold 1,000 to 100,000 messages, and the new messages are for 1 to 6,000 practices.

`--profile` runs the default consumer on boto3's clients against the stand-in process and prints a profile of its CPU.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from booking.consumer import appointments_consumer
from lab.benchmarks.handlers import ours
from lab.benchmarks.harness.batches import BATCH, ENVIRONMENT, LambdaContext, booking, event, week
from lab.benchmarks.harness.command import measurement_parser, print_figures, run_main
from lab.benchmarks.harness.figures import table
from lab.benchmarks.standin.client import stand_in
from lab.benchmarks.standin.metered_dynamodb import READS, WRITES, MeteredDynamoDB
from oneslot.runtime.stores.expressions import to_attributes

MESSAGES = (1_000, 10_000, 100_000)
PRACTICES = (1, 100, 6_000)
MEASURED = 200
"""Batches measured at each size."""


@dataclass(frozen=True)
class Figure:
    """The cost of a message with `messages` in the tables, for `practices`."""

    messages: int
    practices: int
    cpu_ms: float
    calls: float
    write_units: float
    read_units: float


class Port(MeteredDynamoDB):
    """The metered port as both clients. It counts calls and its own CPU seconds, which are not the handler's."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.seconds = 0.0

    def timed(self, name: str) -> Callable[..., Any]:
        """Return the port's method, counted and timed."""
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
        port.seed("slots", map(to_attributes, week(name, number)))
    row = {"status": "COMPLETE", "consumption_count": 1, "payload_hash": "0" * 64, "result": "{}", "claimed_by": "x"}
    port.seed("ledger", (to_attributes({"message_id": f"old-{number}", **row}) for number in range(messages)))
    client: Any = Client(port)
    environment = {**ENVIRONMENT, "GROUP_COMMIT": "true"}
    consumer = appointments_consumer(environment, lambda delivery: None, dynamodb=client, sqs=client, executor=None)
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
    """Measure every size: messages at a hundred practices, then practices at ten thousand messages."""
    messages = MESSAGES[:2] if short else MESSAGES
    for number in messages:
        yield measure(number, 100)
    for number in PRACTICES[:2] if short else PRACTICES:
        if number != 100:
            yield measure(1_000 if short else 10_000, number)


def profile(batches: int = 50) -> str:
    """Return the twenty functions with the most own time, of the default consumer in one thread on boto3's clients."""
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
    """Return the figures as Markdown."""
    header = ["messages there", "practices", "CPU ms/msg", "calls/msg", "WRU/msg", "RRU/msg"]
    return table(header, [list(asdict(one).values()) for one in figures])


def main() -> int:
    """Print the table, or the profile. Return the exit status: 130 after an interrupt."""
    parser = measurement_parser(__doc__, short="smaller sizes")
    parser.add_argument("--profile", action="store_true", help="print a profile of the CPU instead")
    options = parser.parse_args()
    if options.profile:
        print(profile())
        return 0
    return print_figures(run(options.short), tables, as_lines=options.json)


if __name__ == "__main__":
    sys.exit(run_main(main))
