"""A model of the queue, Lambda's scaling, the tables' limits and the bill, second by second.

Limits and prices are those of AWS's public pages (`SOURCES`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

SOURCES = {
    "scaling": "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html",
    "account concurrency": "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
    "in flight": "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html",
    "partition": "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html",
    "new table": "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html",
    "prices": "https://aws.amazon.com/dynamodb/pricing/on-demand/, /lambda/pricing/, /sqs/pricing/",
}

# Demand. NHS telephone demand, Mondays 8 to 10: 480 requests a second at 08:00, decaying with a 20-minute constant.
PEAK_PER_SECOND = 480.0
DECAY_SECONDS = 1_200.0
HORIZON_SECONDS = 4 * 3_600
# Appointments in General Practice 2025-26: 376,117,728 in England, 648,456 at the largest practice.
LARGEST_PRACTICE_SHARE = 648_456 / 376_117_728

# Lambda's event source mapping
FIRST_BATCHES, MORE_BATCHES_A_MINUTE, MOST_BATCHES = 5, 300, 1_250
# With provisioned pollers: ten batches each, from the first second
BATCHES_PER_POLLER, MORE_BATCHES_A_MINUTE_POLLED, MOST_BATCHES_POLLED = 10, 1_000, 20_000
ACCOUNT_CONCURRENCY = 1_000  # a new account's default quota, for all its functions together
# SQS
MOST_IN_FLIGHT = 120_000
# DynamoDB on demand: a table that never had more; then twice its highest peak, half an hour later
NEW_TABLE_WRITES, PARTITION_WRITES = 4_000, 1_000
DOUBLING_SECONDS = 1_800

# Units of one fresh booking, by DynamoDB's rules: 1 for each KB written, twice that in a transaction; 1 for each 4 KB read
# consistently. Every item is under 1 KB. Taking a slot removes it from the index too: one more write, counted as transactional.
LEDGER_WRITES, SLOT_WRITES, APPOINTMENT_WRITES = 1 + 2, 2 + 2, 2
CANDIDATE_BYTES = 150  # a free slot's entry in the index, which holds keys only
# A duplicate is one refused conditional write.
DUPLICATE_WRITES = 1

# US dollars, list prices of us-east-1 since November 2024, without the free tier; other regions differ
DOLLARS_PER_WRITE, DOLLARS_PER_READ = 0.625e-6, 0.125e-6
DOLLARS_PER_SQS_REQUEST = 0.50e-6  # a standard queue's 0.40, and 0.10 for fair queues: every message has a group
DOLLARS_PER_INVOCATION, DOLLARS_PER_GB_SECOND = 0.20e-6, 0.0000166667


@dataclass(frozen=True)
class Morning:
    """The arrivals: `peak` messages a second at 08:00, of which the share `duplicates` are copies of answered requests.

    `largest_practice` is the share of the busiest practice: its slots are one partition.
    """

    name: str
    peak: float = PEAK_PER_SECOND
    duplicates: float = 0.0
    largest_practice: float = LARGEST_PRACTICE_SHARE


@dataclass(frozen=True)
class Setup:
    """The deployment. `batch_ms` is the time of a full batch, `warm_writes` a table's warm throughput in writes a second.

    `pollers` are provisioned ones, which run before the rush; 0 is Lambda's own scaling. `maximum_writes` is a table's
    maximum on-demand throughput, in writes a second.
    """

    batch_ms: float
    max_concurrency: int | None = None
    account_concurrency: int = ACCOUNT_CONCURRENCY
    batch_size: int = 10
    memory_mb: int = 512
    candidates: int = 16
    warm_writes: int = NEW_TABLE_WRITES
    maximum_writes: float = math.inf
    pollers: int = 0


@dataclass
class Outcome:
    """The result of a morning. Times in seconds.

    `limits` has the seconds for which each limit held the queue back; `worst` is the longest. `longest_wait` is the queue's
    length divided by the rate at that moment. `over_after` is None if the queue is not empty after four hours.
    """

    messages: float = 0.0
    peak_backlog: float = 0.0
    longest_wait: float = 0.0
    over_after: float | None = None
    peak_concurrency: float = 0.0
    peak_in_flight: float = 0.0
    peak_writes: float = 0.0
    peak_partition_writes: float = 0.0
    limits: dict[str, int] = field(default_factory=dict)
    dollars: float = 0.0

    @property
    def worst(self) -> str | None:
        """The limit that held the queue back longest; None if none did."""
        return max(self.limits, key=lambda name: self.limits[name]) if self.limits else None


def arrivals(morning: Morning, second: int) -> float:
    """Return the messages that arrive in this second."""
    return morning.peak * math.exp(-second / DECAY_SECONDS)


def concurrency(setup: Setup, busy_seconds: int) -> tuple[int, str]:
    """Return the batches that may run after `busy_seconds`, and the limit that binds."""
    first, more, most = (
        (setup.pollers * BATCHES_PER_POLLER, MORE_BATCHES_A_MINUTE_POLLED, MOST_BATCHES_POLLED)
        if setup.pollers
        else (FIRST_BATCHES, MORE_BATCHES_A_MINUTE, MOST_BATCHES)
    )
    allowed = {
        "account concurrency": setup.account_concurrency,
        "the mapping's maximum": most,
        "Lambda's scaling": first + more * busy_seconds // 60,
    }
    if setup.max_concurrency is not None:
        allowed["max_concurrency"] = setup.max_concurrency
    name = min(allowed, key=lambda limit: allowed[limit])
    return allowed[name], name


def simulate(morning: Morning, setup: Setup) -> Outcome:
    """Simulate a morning, second by second, until the queue is empty or four hours have passed."""
    out, backlog, busy, held = Outcome(), 0.0, 0, defaultdict[str, int](int)
    table_limit, highest, done, invocations = float(setup.warm_writes), 0.0, 0.0, 0.0
    fresh = 1 - morning.duplicates
    slot_writes = fresh * SLOT_WRITES
    ledger_writes = fresh * LEDGER_WRITES + morning.duplicates * DUPLICATE_WRITES
    for second in range(HORIZON_SECONDS):
        came = arrivals(morning, second)
        backlog += came
        batches, by = concurrency(setup, busy)
        ceilings = {
            by: batches * setup.batch_size * 1000 / setup.batch_ms,
            "in flight": MOST_IN_FLIGHT * 1000 / setup.batch_ms,
            "a table's writes": min(table_limit, setup.maximum_writes) / max(slot_writes, ledger_writes),
            "one practice's partition": PARTITION_WRITES / max(1e-9, slot_writes * morning.largest_practice),
        }
        limit = min(ceilings, key=lambda name: ceilings[name])
        taken = min(backlog, ceilings[limit])
        if taken < backlog:
            held[limit] += 1
        backlog -= taken
        done += taken
        running = taken * setup.batch_ms / 1000 / setup.batch_size
        # Lambda adds pollers as long as messages are left.
        busy = busy + 1 if backlog > 0 or running > 0.8 * batches else max(0, busy - 1)
        invocations += taken / setup.batch_size
        highest = max(highest, taken * max(slot_writes, ledger_writes))
        if second and second % DOUBLING_SECONDS == 0:
            table_limit = max(table_limit, 2 * highest)
        out.peak_backlog = max(out.peak_backlog, backlog)
        out.longest_wait = max(out.longest_wait, backlog / max(taken, 1e-9) if backlog >= 1 else 0.0)
        out.peak_concurrency = max(out.peak_concurrency, running)
        out.peak_in_flight = max(out.peak_in_flight, running * setup.batch_size)
        out.peak_writes = highest
        out.peak_partition_writes = max(out.peak_partition_writes, taken * slot_writes * morning.largest_practice)
        if backlog >= 1:
            out.over_after = float(second + 1)
    out.messages, out.limits = done + backlog, dict(held)
    if backlog >= 1:
        out.over_after = None
    elif out.over_after is None:
        out.over_after = 0.0
    out.dollars = bill(done, invocations, fresh, setup)
    return out


def search_reads(candidates: int) -> int:
    """Return the read units of one search of `candidates` free slots."""
    return max(1, math.ceil(candidates * CANDIDATE_BYTES / 4_096))


def bill(messages: float, invocations: float, fresh: float, setup: Setup) -> float:
    """Return the morning's cost in US dollars: tables, queue and function, without logs, alarms and transfer."""
    writes = fresh * (LEDGER_WRITES + SLOT_WRITES + APPOINTMENT_WRITES) + (1 - fresh) * DUPLICATE_WRITES
    reads = fresh * search_reads(setup.candidates)
    seconds = invocations * setup.batch_ms / 1000
    return (
        messages * (writes * DOLLARS_PER_WRITE + reads * DOLLARS_PER_READ + DOLLARS_PER_SQS_REQUEST)
        + invocations * (2 * DOLLARS_PER_SQS_REQUEST + DOLLARS_PER_INVOCATION)
        + seconds * setup.memory_mb / 1024 * DOLLARS_PER_GB_SECOND
    )
