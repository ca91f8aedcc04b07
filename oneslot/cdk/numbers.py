"""Every number of a consumer, once, and the relations between them. A contradiction is refused before any synthesis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

HOUR, DAY = 3_600, 86_400
"""Seconds."""

FOREVER = "forever"
"""A retention without an end, as `-c` and the consumer's environment write it."""


MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW = 10
MAXIMUM_VISIBILITY_SECONDS = 43_200
MAXIMUM_CONCURRENCY_WITHOUT_POLLERS = 1_000

CONSUMERS_PER_POLLER = 10
"""The invocations at once of one provisioned poller."""

NEW_TABLE_WRITES = 4_000
"""The writes a second that a new table takes."""

FEWEST_RECEIVES = 5
"""SQS allows one. Crashes and deferrals burn receives, and AWS's guide for Lambda says 5 or more."""

RECEIVES_SHARE = 2
"""A message may spend at most 1/RECEIVES_SHARE of the queue's retention failing. The rest is for waiting."""

LONGEST_ALARM_MINUTES = 1_440
"""CloudWatch evaluates one day of minutes at most."""

LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1_827, 3_653)
"""The retentions that CloudWatch Logs offers."""

MARGIN_SECONDS = 7 * DAY
"""The least time that a ledger row outlives both retentions: DynamoDB deletes late, and operators redrive late."""

_RETENTION = range(60, 1_209_601)

LIMITS: Mapping[str, tuple[range, str]] = {
    "lambda_timeout_seconds": (range(1, 901), "Lambda's"),
    "lambda_memory_mb": (range(128, 10_241), "Lambda's"),
    "batch_size": (range(1, 10_001), "Lambda's"),
    "batching_window_seconds": (range(301), "Lambda's"),
    "max_concurrency": (range(2, 20_001), "the event source mapping's"),
    "provisioned_pollers": (range(201), "the event source mapping's"),
    "table_warm_writes": (range(1_000_001), "the product's"),
    "table_maximum_writes": (range(1_000_001), "the product's"),
    "visibility_multiplier": (range(1, MAXIMUM_VISIBILITY_SECONDS + 1), "the visibility timeout's"),
    "max_receive_count": (range(FEWEST_RECEIVES, 1_001), "a redrive policy's, with room for deferrals,"),
    "longest_lease_seconds": (range(1, MAXIMUM_VISIBILITY_SECONDS - 899), "a deferral's"),
    "longest_retry_delay_seconds": (range(MAXIMUM_VISIBILITY_SECONDS - 899), "a deferral's"),
    "queue_retention_seconds": (_RETENTION, "SQS's"),
    "dead_letter_retention_seconds": (_RETENTION, "SQS's"),
}
"""A number → its range, and whose limit that is: from AWS's service quotas and API references."""


class ContradictorySettings(ValueError):
    """Settings that cannot all hold. The message names the subject, the cause and the remedy."""


def refuse(*problems: Iterator[str]) -> None:
    """Raise `ContradictorySettings` with the first of these sentences, if there is one."""
    for sentence in itertools.chain(*problems):
        raise ContradictorySettings(sentence)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The numbers of one consumer. Sizes are in bytes or MB and durations in seconds or days, as each name says.

    Raises:
        ContradictorySettings: two numbers contradict each other, or one is outside AWS's limits.
    """

    # The function. A message takes about 50 ms of DynamoDB calls; 30 s leaves a batch room for throttling.
    lambda_timeout_seconds: int = 30
    lambda_memory_mb: int = 512

    # The event source mapping.
    batch_size: int = 10
    batching_window_seconds: int = 0
    max_concurrency: int = 8  # consumers at once: a laptop's share
    provisioned_pollers: int = 0  # pollers that always run, for a rush that begins at once; 0 is Lambda's own scaling

    # The queue and its dead-letter queue.
    visibility_multiplier: int = 1  # times the Lambda timeout; AWS suggests 6 under heavy throttling
    max_receive_count: int = 10
    longest_lease_seconds: int = 900  # of any consumer; raise it to the --limit of workers that share the queue
    longest_retry_delay_seconds: int = 0  # after a failure 1 s, doubled up to this; 0 waits for the visibility timeout
    queue_retention_seconds: int = 4 * DAY
    dead_letter_retention_seconds: int = 14 * DAY

    # The ledger.
    ledger_retention_seconds: int | None = 30 * DAY  # None, written `forever`, deletes no row

    # The tables, on demand, each in writes a second. 0 leaves AWS's own: 4,000 for a new table, 40,000 at most.
    table_warm_writes: int = 0  # for a rush that a new table would throttle; AWS bills it once, and never lowers it
    table_maximum_writes: int = 0  # an upper bound of the bill: above it DynamoDB throttles

    # The delivery log.
    log_retention_days: int = 30

    def __post_init__(self) -> None:
        refuse(outside_limits(self, LIMITS), contradictions(self))

    @property
    def most_pollers(self) -> int:
        """The provisioned pollers that reach `max_concurrency`."""
        return -(-self.max_concurrency // CONSUMERS_PER_POLLER)

    @property
    def deferral_variables(self) -> dict[str, str]:
        """The environment variables by which the consumer defers messages."""
        names = ("max_receive_count", "longest_lease_seconds", "longest_retry_delay_seconds")
        return {f"ONESLOT_{name.upper()}": str(getattr(self, name)) for name in names}

    @property
    def visibility_timeout_seconds(self) -> int:
        """The time for which a received message stays hidden: the Lambda timeout, times the multiplier."""
        return self.lambda_timeout_seconds * self.visibility_multiplier


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When an alarm wakes someone. Counts are over five minutes.

    A dead letter has no threshold: one is one too many.
    """

    alarm_oldest_message_seconds: int = 600  # slowness; the alarm `stalled` is for a standstill
    alarm_failed_deliveries: int = 10  # a passing fault of a service touches a batch, which is ten
    alarm_quarantined_deliveries: int = 20  # one faulty request and its copies are a few; more are a faulty producer
    alarm_transaction_conflicts: int = 100  # 3 in a contended run of thousands, measured; a hundred is a hot spot


def stalled_minutes(numbers: Numbers) -> int:
    """Return the minutes of a standstill before its alarm: `explained_minutes`, unless CloudWatch counts fewer."""
    return min(explained_minutes(numbers), LONGEST_ALARM_MINUTES)


def explained_minutes(numbers: Numbers) -> int:
    """Return the minutes of a standstill of which one failing message or one long job can be the cause.

    The two more are the first and the last minute, which such a message holds in part.
    """
    return -(-max(seconds_to_dead_letters(numbers), numbers.longest_lease_seconds) // 60) + 2


def seconds_to_dead_letters(numbers: Numbers) -> int:
    """Return the longest time in which a message that fails at each receive gets to the dead-letter queue."""
    longest = numbers.longest_retry_delay_seconds
    # 1 s, up to twice as long with its jitter, then doubled with each receive. A killed consumer costs the visibility timeout.
    delays = [min(2**receive, longest) for receive in range(1, numbers.max_receive_count + 1)] if longest else []
    waits = [max(numbers.visibility_timeout_seconds, numbers.lambda_timeout_seconds + delay) for delay in delays]
    return sum(waits) or numbers.max_receive_count * numbers.visibility_timeout_seconds


def dead_letter_age_seconds(numbers: Numbers) -> int:
    """Return the age of a dead letter at its alarm: five sevenths of what the queue keeps, so ten days of fourteen."""
    return numbers.dead_letter_retention_seconds * 5 // 7


def late_alarms(thresholds: Thresholds, numbers: Numbers) -> Iterator[str]:
    """Yield a sentence if a message would be deleted before the alarm on its age goes off."""
    age, retention = thresholds.alarm_oldest_message_seconds, numbers.queue_retention_seconds
    if age >= retention:
        yield (
            f"alarm_oldest_message_seconds {age} is not below queue_retention_seconds {retention}, so requests would be "
            "deleted before the alarm goes off; raise queue_retention_seconds"
        )


def contradictions(n: Numbers) -> Iterator[str]:
    """Yield one sentence for each relation between a consumer's numbers that does not hold."""
    if n.log_retention_days not in LOG_RETENTION_DAYS:
        choices = ", ".join(map(str, LOG_RETENTION_DAYS))
        yield f"log_retention_days is {n.log_retention_days}; CloudWatch Logs takes one of {choices}"
    yield from _unworkable_deliveries(n)
    yield from _unworkable_rush(n)
    yield from _unsafe_retention(n)


def outside_limits(numbers: object, limits: Mapping[str, tuple[range, str]]) -> Iterator[str]:
    """Yield one sentence for each of these numbers that is outside its range."""
    for name, (limit, whose) in limits.items():
        if (value := getattr(numbers, name)) not in limit:
            yield f"{name} is {value}, outside {whose} limits of {limit[0]} to {limit[-1]}; choose a number between them"


def refused_on_fifo(n: Numbers) -> Iterator[str]:
    """Yield a sentence for each number that a FIFO queue does not allow."""
    if n.batching_window_seconds:
        yield (
            f"batching_window_seconds is {n.batching_window_seconds}, and Lambda takes no batching window with a FIFO queue; "
            "set it to 0, or use a standard queue"
        )
    if n.longest_retry_delay_seconds:
        yield (
            f"longest_retry_delay_seconds is {n.longest_retry_delay_seconds}, and short retries on a FIFO queue spend "
            "a message's receives within seconds, and its group then goes on without it; set it to 0, or use a standard queue"
        )


def _unworkable_deliveries(n: Numbers) -> Iterator[str]:
    """Check the queue, the mapping and the function against each other."""
    visibility = n.visibility_timeout_seconds
    if visibility > MAXIMUM_VISIBILITY_SECONDS:
        yield (
            f"the visibility timeout would be {visibility} s ({_product(n)}), above SQS's {MAXIMUM_VISIBILITY_SECONDS} s; "
            "lower one of them"
        )
    if visibility < n.lambda_timeout_seconds + n.batching_window_seconds:
        yield (
            f"the visibility timeout of {visibility} s is shorter than lambda_timeout_seconds {n.lambda_timeout_seconds} "
            f"+ batching_window_seconds {n.batching_window_seconds}, so messages would return while a consumer has them; "
            "raise visibility_multiplier or lower batching_window_seconds"
        )
    if n.longest_lease_seconds < n.lambda_timeout_seconds:
        yield (
            f"longest_lease_seconds {n.longest_lease_seconds} is shorter than lambda_timeout_seconds "
            f"{n.lambda_timeout_seconds}, for which a consumer may rightly hold a message, so a healthy message would spend "
            "its receives waiting; raise longest_lease_seconds"
        )
    if n.batch_size > MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW and n.batching_window_seconds < 1:
        yield (
            f"batch_size {n.batch_size} is above {MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW}, which Lambda takes only with a "
            f"batching window, and batching_window_seconds is {n.batching_window_seconds}; set the window to 1 or more"
        )


def _unworkable_rush(n: Numbers) -> Iterator[str]:
    """Check the numbers for the morning rush: the mapping's pollers and the tables' writes."""
    pollers, concurrency = n.provisioned_pollers, n.max_concurrency
    if not pollers and concurrency > MAXIMUM_CONCURRENCY_WITHOUT_POLLERS:
        yield (
            f"max_concurrency {concurrency} is above {MAXIMUM_CONCURRENCY_WITHOUT_POLLERS}, which Lambda takes only with "
            "provisioned_pollers; set them to 2 or more, or lower max_concurrency"
        )
    if pollers == 1:
        yield "provisioned_pollers is 1, and Lambda takes 2 or more for a queue; raise it, or set it to 0 for none"
    if pollers > n.most_pollers:
        yield (
            f"provisioned_pollers {pollers} run {pollers * CONSUMERS_PER_POLLER} consumers at once, above max_concurrency "
            f"{concurrency}; raise max_concurrency or lower provisioned_pollers"
        )
    warm, most = n.table_warm_writes, n.table_maximum_writes
    if 0 < warm < NEW_TABLE_WRITES:
        yield (
            f"table_warm_writes is {warm}, below the {NEW_TABLE_WRITES} a second that a new table takes; raise it, or set it "
            "to 0"
        )
    if 0 < most < warm:
        yield (
            f"table_maximum_writes {most} is below table_warm_writes {warm}, so warmth would be paid for and not used; raise "
            "the first or lower the second"
        )


def _product(n: Numbers) -> str:
    return f"lambda_timeout_seconds {n.lambda_timeout_seconds} * visibility_multiplier {n.visibility_multiplier}"


def _unsafe_retention(n: Numbers) -> Iterator[str]:
    """Check that a row, a log line and a dead letter outlive what they are needed for."""
    queue, dead = n.queue_retention_seconds, n.dead_letter_retention_seconds
    margin = max(queue, MARGIN_SECONDS)  # after a redrive a message may stay in the queue once more
    receives = n.max_receive_count * n.visibility_timeout_seconds
    if receives * RECEIVES_SHARE > queue:
        yield (
            f"max_receive_count {n.max_receive_count} * the visibility timeout ({_product(n)}) is {receives} s, more than "
            f"half of queue_retention_seconds {queue}, at whose end SQS silently deletes a message. Lower "
            "max_receive_count or the visibility timeout, or raise queue_retention_seconds"
        )
    delayed = n.max_receive_count * n.longest_retry_delay_seconds
    if delayed * RECEIVES_SHARE > queue:
        yield (
            f"max_receive_count {n.max_receive_count} * longest_retry_delay_seconds {n.longest_retry_delay_seconds} is "
            f"{delayed} s, more than half of queue_retention_seconds {queue}, at whose end SQS silently deletes a message. "
            "Lower one of the first two, or raise queue_retention_seconds"
        )
    if dead <= queue:
        yield (
            f"dead_letter_retention_seconds {dead} is not above queue_retention_seconds {queue}. A message's age counts "
            "from its first send, so it would expire on arrival: raise the first or lower the second"
        )
    needed, kept, logged = queue + dead + margin, n.ledger_retention_seconds, n.log_retention_days
    parts = "queue_retention_seconds + dead_letter_retention_seconds + a margin"
    if kept is not None and kept < needed:
        yield (
            f"ledger_retention_seconds {kept} is shorter than {needed} ({parts}: {queue} + {dead} + {margin}), so a "
            f"duplicate could outlive its row; raise ledger_retention_seconds to {needed}, or use {FOREVER}"
        )
    if kept is not None and logged * DAY < kept:
        yield (
            f"log_retention_days {logged} is shorter than ledger_retention_seconds {kept} ({kept // DAY} days), so the "
            "audit would miss deliveries of requests that it still sees; raise log_retention_days"
        )
    if kept is None and logged * DAY < needed:
        yield (
            f"log_retention_days {logged} is shorter than {needed} s ({parts}), so the audit would miss deliveries of "
            "requests that can still return; raise log_retention_days"
        )
