"""Every number of a stage, once, and the relations between them. A contradiction is refused before any synthesis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from stacks.limits import (
    AUDIT_HOURS_AROUND,
    DELIVERY_FOLDERS,
    LOG_RETENTION_DAYS,
    MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW,
    MAXIMUM_VISIBILITY_SECONDS,
    NUMBERS,
    QUARANTINE_BYTES,
    RECEIVES_SHARE,
    TOPIC_ARN,
)

HOUR, DAY = 3_600, 86_400
"""Seconds."""

MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
"""A moment in UTC, as text."""

QUEUE_KINDS = ("standard", "fifo")
"""The values of `queue`."""

FOREVER = "forever"
"""A retention without an end, as `-c` and the consumer's environment write it."""


class ContradictorySettings(ValueError):
    """Settings that cannot all hold. The message names the two numbers and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One stage's numbers. Sizes are in bytes or MB and durations in seconds or days, as each name says.

    Raises:
        ContradictorySettings: two numbers contradict each other, or one is outside AWS's limits.
    """

    stage: str

    # The consumer. A booking takes about 50 ms of DynamoDB calls; 30 s leaves a batch room for throttling.
    lambda_timeout_seconds: int = 30
    lambda_memory_mb: int = 512
    snap_start: bool = False  # start from a snapshot of the imported function; snapshots and restores are billed
    batch_concurrency: int = 10  # records of a batch that run at once: they wait for DynamoDB, they do not compute
    candidate_slots: int = 16  # the earliest free slots among which a request chooses
    group_commit: bool = False  # commit a batch's first deliveries in one transaction (docs/performance.md)
    content_based_deduplication: bool = False  # identify a message without an id by the SHA-256 of its body

    # The event source mapping.
    batch_size: int = 10
    batching_window_seconds: int = 0
    max_concurrency: int = 8  # consumers at once: a laptop's share in `dev`

    # The queue and its dead-letter queue. `fifo` keeps the order within each message group (docs/fifo.md).
    queue: str = "standard"
    visibility_multiplier: int = 1  # times the Lambda timeout; AWS suggests 6 under heavy throttling
    max_receive_count: int = 10
    queue_retention_seconds: int = 4 * DAY
    dead_letter_retention_seconds: int = 14 * DAY
    max_message_bytes: int = 262_144  # a booking has under 1 KB; the rest of SQS's 1 MiB is kept for the reason
    dead_letter_max_message_bytes: int = 1_048_576

    # The ledger. The margin is one more stay in the queue, after a redrive, and DynamoDB's own delay in deleting.
    ledger_retention_seconds: int | None = 30 * DAY  # None, written `forever`, deletes no row
    ledger_margin_seconds: int = 7 * DAY
    ledger_forgotten_before: str = ""  # when the retention was raised: older rows may be gone (docs/deploying.md)

    # The delivery log: the audit reads it beside the ledger.
    log_retention_days: int = 30

    # Keys: AWS's own, or one of this stage's that the account may audit, rotate and withdraw.
    customer_managed_keys: bool = False

    # The SNS topic that alarms and the audit publish to, by its ARN; empty for none.
    alarm_topic_arn: str = ""

    # When to wake someone. Counts are over five minutes. A dead letter and a violated invariant have no threshold: one
    # is one too many.
    alarm_oldest_message_seconds: int = 600  # twice the time after which a standstill rings: this one is slowness
    alarm_stalled_minutes: int = 5  # a crash heals in one visibility timeout; what takes longer does not heal
    alarm_function_errors: int = 3  # the protocol handles single crashes; a fourth in five minutes is a pattern
    alarm_function_throttles: int = 10  # the mapping's own limit causes none, so ten are other functions' traffic
    alarm_failed_deliveries: int = 10  # a passing fault of a service touches a batch, which is ten
    alarm_quarantined_deliveries: int = 20  # one faulty request and its copies are a few; more are a faulty producer
    alarm_table_throttles: int = 20  # a table that splits a partition throttles a few requests, for seconds
    alarm_transaction_conflicts: int = 100  # 3 in a contended run of thousands, measured; a hundred is a hot spot

    # The nightly audit, a stack of its own.
    audit: bool = False
    audit_full_every_days: int = 7  # full exports once a week, changes on the other nights; 1 is always full
    audit_history_days: int = 35  # as far back as DynamoDB can restore; a full audit reads their delivery logs
    audit_result_days: int = 400  # a year and a month: this year's figures beside last year's
    audit_workers: int = 2  # Glue's least; under ten million requests ten, its default, would wait for each other
    audit_timeout_hours: int = 12  # of the Spark job; an audit of ten million requests takes minutes
    audit_export_hours: int = 3  # for DynamoDB: minutes for a small table, an hour or two for a very large one

    # Data outlives a deleted stack, and cannot be deleted by mistake.
    retain_data: bool = False

    def __post_init__(self) -> None:
        problem = next(_contradictions(self), None)
        if problem:
            raise ContradictorySettings(problem)

    @property
    def fifo(self) -> bool:
        """True if the queue keeps order."""
        return self.queue == "fifo"

    @property
    def visibility_timeout_seconds(self) -> int:
        """The time for which a received message stays hidden: the Lambda timeout, times the multiplier."""
        return self.lambda_timeout_seconds * self.visibility_multiplier

    @property
    def stalled_minutes(self) -> int:
        """The minutes of a standstill before its alarm: more than a crashed consumer's messages stay hidden."""
        return max(self.alarm_stalled_minutes, -(-self.visibility_timeout_seconds // 60) + 1)

    @property
    def audit_night_hours(self) -> int:
        """The longest time that a whole night's audit may take: the exports, the job, and the hours around them."""
        return self.audit_export_hours + self.audit_timeout_hours + AUDIT_HOURS_AROUND

    @property
    def audit_delivery_days(self) -> int:
        """The earlier days of the delivery log that a full audit reads: all that are kept, within the job's argument."""
        return min(self.audit_history_days - 1, DELIVERY_FOLDERS)

    @property
    def audit_missing_hours(self) -> int:
        """The hours without a verdict after which one is missing: a day, and the longest night.

        A verdict may come as soon as one night begins, and the next one a day and a whole night later. A night that fails
        notifies at once; this alarm is for one that never began or was cut off.
        """
        return DAY // HOUR + self.audit_night_hours


def _contradictions(s: Settings) -> Iterator[str]:
    """Yield one sentence for each relation that does not hold, AWS's limits first."""
    for name, (limit, whose) in NUMBERS.items():
        if (value := getattr(s, name)) not in limit:
            yield f"{name} is {value}, outside {whose} limits of {limit[0]} to {limit[-1]}; choose a number between them"
    yield from _invalid_texts(s)
    yield from _unworkable_deliveries(s)
    yield from _unsafe_retention(s)


def _invalid_texts(s: Settings) -> Iterator[str]:
    if s.queue not in QUEUE_KINDS:
        yield f"queue is {s.queue!r}; use one of: {', '.join(QUEUE_KINDS)}"
    if s.alarm_topic_arn and not re.fullmatch(TOPIC_ARN, s.alarm_topic_arn):
        yield (
            f"alarm_topic_arn is {s.alarm_topic_arn!r}, not the ARN of an SNS topic; use one such as "
            "arn:aws:sns:eu-west-2:111122223333:on-call"
        )
    if s.ledger_forgotten_before and not _is_moment(s.ledger_forgotten_before):
        yield (
            f"ledger_forgotten_before is {s.ledger_forgotten_before!r}, not a moment in UTC; use one such as "
            "2026-11-23T14:00:00Z"
        )
    if s.log_retention_days not in LOG_RETENTION_DAYS:
        choices = ", ".join(map(str, LOG_RETENTION_DAYS))
        yield f"log_retention_days is {s.log_retention_days}; CloudWatch Logs takes one of {choices}"


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return bool(re.fullmatch(MOMENT, text))


def _unworkable_deliveries(s: Settings) -> Iterator[str]:
    """Check the queue, the mapping and the function against each other, and the audit against a day."""
    if s.fifo and s.batching_window_seconds:
        yield (
            f"batching_window_seconds is {s.batching_window_seconds}, and Lambda takes no batching window with a FIFO "
            "queue; set it to 0, or use -c queue=standard"
        )
    visibility = s.visibility_timeout_seconds
    if visibility > MAXIMUM_VISIBILITY_SECONDS:
        yield (
            f"the visibility timeout would be {visibility} s ({_product(s)}), above SQS's {MAXIMUM_VISIBILITY_SECONDS} s; "
            "lower one of them"
        )
    if visibility < s.lambda_timeout_seconds + s.batching_window_seconds:
        yield (
            f"the visibility timeout of {visibility} s is shorter than lambda_timeout_seconds {s.lambda_timeout_seconds} "
            f"+ batching_window_seconds {s.batching_window_seconds}, so messages would return while a consumer has them; "
            "raise visibility_multiplier or lower batching_window_seconds"
        )
    if s.batch_size > MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW and s.batching_window_seconds < 1:
        yield (
            f"batch_size {s.batch_size} is above {MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW}, which Lambda takes only with a "
            f"batching window, and batching_window_seconds is {s.batching_window_seconds}; set the window to 1 or more"
        )
    if s.batch_concurrency > s.batch_size:
        yield (
            f"batch_concurrency {s.batch_concurrency} is above batch_size {s.batch_size}, so some threads would never "
            "have a record; lower batch_concurrency"
        )
    if s.audit_night_hours * HOUR >= DAY:
        yield (
            f"audit_export_hours {s.audit_export_hours} + audit_timeout_hours {s.audit_timeout_hours} + "
            f"{AUDIT_HOURS_AROUND} are not under 24 hours, so one night's audit could meet the next one's; lower one of them"
        )


def _product(s: Settings) -> str:
    return f"lambda_timeout_seconds {s.lambda_timeout_seconds} * visibility_multiplier {s.visibility_multiplier}"


def _unsafe_retention(s: Settings) -> Iterator[str]:
    """Check that a row, a log line and a dead letter outlive what they are needed for."""
    queue, dead, margin = s.queue_retention_seconds, s.dead_letter_retention_seconds, s.ledger_margin_seconds
    if s.alarm_oldest_message_seconds >= queue:
        yield (
            f"alarm_oldest_message_seconds {s.alarm_oldest_message_seconds} is not below queue_retention_seconds {queue}, "
            "so requests would be deleted before the alarm rings; raise queue_retention_seconds"
        )
    receives = s.max_receive_count * s.visibility_timeout_seconds
    if receives * RECEIVES_SHARE > queue:
        yield (
            f"max_receive_count {s.max_receive_count} * the visibility timeout ({_product(s)}) is {receives} s, more than "
            f"half of queue_retention_seconds {queue}, at whose end SQS silently deletes a message. Lower "
            "max_receive_count or the visibility timeout, or raise queue_retention_seconds"
        )
    if dead <= queue:
        yield (
            f"dead_letter_retention_seconds {dead} is not above queue_retention_seconds {queue}. A message's age counts "
            "from its first send, so it would expire on arrival: raise the first or lower the second"
        )
    if margin < queue:
        yield (
            f"ledger_margin_seconds {margin} is shorter than queue_retention_seconds {queue}, the time that a redriven "
            "message may wait again; raise ledger_margin_seconds"
        )
    needed, kept, logged = queue + dead + margin, s.ledger_retention_seconds, s.log_retention_days
    parts = "queue_retention_seconds + dead_letter_retention_seconds + ledger_margin_seconds"
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
    if s.audit_result_days < 2 * s.audit_full_every_days:
        yield (
            f"audit_result_days {s.audit_result_days} is less than twice audit_full_every_days {s.audit_full_every_days}, "
            "so an audit of changes could build on deleted verdicts; raise audit_result_days"
        )
    if s.dead_letter_max_message_bytes < s.max_message_bytes + QUARANTINE_BYTES:
        yield (
            f"dead_letter_max_message_bytes {s.dead_letter_max_message_bytes} is less than max_message_bytes "
            f"{s.max_message_bytes} + {QUARANTINE_BYTES} for the reason, so the largest messages could not be "
            "quarantined; lower max_message_bytes"
        )


STAGES: Mapping[str, Settings] = {
    "dev": Settings(stage="dev"),
    "prod": Settings(stage="prod", max_concurrency=50, log_retention_days=90, retain_data=True),
}
