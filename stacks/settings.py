"""Every number of the stack, once, and the relations between them: a contradiction is refused before any synthesis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from stacks.limits import (
    AUDIT_EXPORT_HOURS,
    AUDIT_FULL_EVERY_DAYS,
    AUDIT_HOURS,
    AUDIT_HOURS_AROUND,
    BATCH_CONCURRENCY,
    CANDIDATE_SLOTS,
    DELIVERY_FOLDERS,
    GLUE_WORKERS,
    LAMBDA_TIMEOUT_SECONDS,
    LOG_RETENTION_DAYS,
    MAXIMUM_BATCH_SIZE,
    MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW,
    MAXIMUM_CONCURRENCY,
    MAXIMUM_MESSAGE_BYTES,
    MAXIMUM_RECEIVE_COUNT,
    MAXIMUM_VISIBILITY_SECONDS,
    MAXIMUM_WINDOW_SECONDS,
    MEMORY_MB,
    MESSAGE_RETENTION_SECONDS,
    QUARANTINE_BYTES,
    RECEIVES_SHARE,
    STORAGE_DAYS,
    TOPIC_ARN,
)

HOUR, DAY = 3_600, 86_400
"""Seconds."""

MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
"""How a moment in UTC is written."""

QUEUE_KINDS = ("standard", "fifo")
"""What `queue` can be."""

FOREVER = "forever"
"""How a retention without an end is written, here and in the consumer's environment."""


class ContradictorySettings(ValueError):
    """The settings cannot all hold. The message names the two numbers and what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One stage's numbers. Sizes are in bytes or MB and durations in seconds or days, as each name says."""

    stage: str

    # The consumer. A booking takes about 50 ms of DynamoDB calls; 30 s leaves a batch room for throttling.
    lambda_timeout_seconds: int = 30
    lambda_memory_mb: int = 512
    snap_start: bool = (
        False  # Lambda starts from a picture of the imported function; kept pictures and restores are billed
    )
    batch_concurrency: int = 10  # records of a batch that run at once: they wait for DynamoDB, they do not compute
    candidate_slots: int = 16  # the earliest free slots among which a request chooses
    group_commit: bool = (
        False  # a batch's first deliveries in one transaction and without a claim (docs/performance.md)
    )
    content_based_deduplication: bool = False  # a message without an id is identified by the SHA-256 of its body

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

    # The ledger. The margin is one more stay in the queue, after a redrive, and DynamoDB's own delay. None, written
    # `forever`, deletes no row: a copy is then known however late it comes.
    ledger_retention_seconds: int | None = 30 * DAY
    ledger_margin_seconds: int = 7 * DAY
    ledger_forgotten_before: str = (
        ""  # when its retention was raised: rows of before that may be gone (docs/deploying.md)
    )

    # The delivery log: the audit reads it beside the ledger.
    log_retention_days: int = 30

    # Keys: AWS's own, or one of this stage's that the account may audit, rotate and withdraw.
    customer_managed_keys: bool = False

    # Whom alarms and the audit tell: the ARN of an SNS topic, or none.
    alarm_topic_arn: str = ""

    # When to wake someone. Counts are over five minutes. A dead letter and a violated invariant have no threshold: one is
    # one too many.
    alarm_oldest_message_seconds: int = 600  # twice the time after which a standstill is told: this one is slowness
    alarm_stalled_minutes: int = 5  # a crash heals in one visibility timeout; what takes longer does not heal by itself
    alarm_function_errors: int = 3  # single crashes are what the protocol is for; a fourth in five minutes is a pattern
    alarm_function_throttles: int = 10  # the mapping's own limit causes none, so ten are somebody else's traffic
    alarm_failed_deliveries: int = 10  # a passing fault of a service touches a batch, which is ten
    alarm_quarantined_deliveries: int = 20  # one faulty request and its copies are a few; more are a faulty producer
    alarm_table_throttles: int = 20  # a table that splits a partition throttles a few requests, for seconds
    alarm_transaction_conflicts: int = 100  # 3 in a contended run of thousands, measured; a hundred is a hot spot

    # The nightly audit, a stack of its own.
    audit: bool = False
    audit_full_every_days: int = 7  # full exports once a week, changes on the other nights; 1 is always full
    audit_history_days: int = 35  # as far back as DynamoDB itself could restore; a full audit reads their delivery logs
    audit_result_days: int = 400  # a year and a month: this year's figures beside last year's
    audit_workers: int = 2  # Glue's least; ten, its default, would wait for each other on less than 10 million requests
    audit_timeout_hours: int = 12  # of the Spark job; an audit of ten million requests takes minutes
    audit_export_hours: int = 3  # for DynamoDB: minutes for a small table, an hour or two for a very large one

    # What outlives a deleted stack, and what cannot be deleted by mistake.
    retain_data: bool = False

    def __post_init__(self) -> None:
        problem = next(_contradictions(self), None)
        if problem:
            raise ContradictorySettings(problem)

    @property
    def fifo(self) -> bool:
        """Whether the queue keeps order."""
        return self.queue == "fifo"

    @property
    def visibility_timeout_seconds(self) -> int:
        """How long a received message stays hidden: the Lambda timeout, times the multiplier."""
        return self.lambda_timeout_seconds * self.visibility_multiplier

    @property
    def audit_night_hours(self) -> int:
        """How long a whole night's audit may take: the exports, the job, and what is around them."""
        return self.audit_export_hours + self.audit_timeout_hours + AUDIT_HOURS_AROUND

    @property
    def audit_delivery_days(self) -> int:
        """How many earlier days of the delivery log a full audit reads: all that are kept, and no more than can be named."""
        return min(self.audit_history_days - 1, DELIVERY_FOLDERS)

    @property
    def audit_missing_hours(self) -> int:
        """After how many hours without a verdict one is missing: a day after the last one, and as long as a night may take.

        No fewer would be honest: one night's verdict may come as soon as it begins, and the next one's a day later and after
        all of its time. A night that fails is told at once by notification; this is for one that never began or was cut off.
        """
        return DAY // HOUR + self.audit_night_hours

    @property
    def stalled_minutes(self) -> int:
        """After how many minutes nothing finished is a standstill: never before a crashed consumer's messages return."""
        return max(self.alarm_stalled_minutes, -(-self.visibility_timeout_seconds // 60) + 1)


def _contradictions(s: Settings) -> Iterator[str]:
    """One sentence for each relation that does not hold, limits of AWS first."""
    yield from _outside_limits(s)
    if s.queue not in QUEUE_KINDS:
        yield f"queue is {s.queue!r}; use one of: {', '.join(QUEUE_KINDS)}"
    if s.fifo and s.batching_window_seconds:
        yield (
            f"batching_window_seconds is {s.batching_window_seconds}, and Lambda takes no batching window with a FIFO "
            "queue; set it to 0, or use -c queue=standard"
        )
    visibility = s.visibility_timeout_seconds
    if visibility > MAXIMUM_VISIBILITY_SECONDS:
        yield (
            f"the visibility timeout would be {visibility} s (lambda_timeout_seconds {s.lambda_timeout_seconds} * "
            f"visibility_multiplier {s.visibility_multiplier}), above SQS's {MAXIMUM_VISIBILITY_SECONDS} s; "
            "lower one of them"
        )
    if visibility < s.lambda_timeout_seconds + s.batching_window_seconds:
        yield (
            f"the visibility timeout of {visibility} s is shorter than lambda_timeout_seconds {s.lambda_timeout_seconds} "
            f"+ batching_window_seconds {s.batching_window_seconds}, so messages would return while they are worked on; "
            "raise visibility_multiplier or lower batching_window_seconds"
        )
    if s.batch_size > MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW and s.batching_window_seconds < 1:
        yield (
            f"batch_size {s.batch_size} is above {MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW}, which Lambda takes only with a "
            f"batching window, and batching_window_seconds is {s.batching_window_seconds}; set the window to 1 or more"
        )
    if s.batch_concurrency > s.batch_size:
        yield (
            f"batch_concurrency {s.batch_concurrency} is above batch_size {s.batch_size}, so threads would never have "
            "a record; lower batch_concurrency"
        )
    if s.audit_night_hours * HOUR >= DAY:
        yield (
            f"audit_export_hours {s.audit_export_hours} + audit_timeout_hours {s.audit_timeout_hours} + "
            f"{AUDIT_HOURS_AROUND} for what is around them are not under 24 hours, so that one night's audit could meet "
            "the next one's; lower one of them"
        )
    yield from _unsafe_retention(s)


def _outside_limits(s: Settings) -> Iterator[str]:
    limits = (
        ("lambda_timeout_seconds", LAMBDA_TIMEOUT_SECONDS, "Lambda's"),
        ("lambda_memory_mb", MEMORY_MB, "Lambda's"),
        ("visibility_multiplier", range(1, MAXIMUM_VISIBILITY_SECONDS + 1), "the visibility timeout's"),
        ("batch_size", range(1, MAXIMUM_BATCH_SIZE + 1), "Lambda's"),
        ("batching_window_seconds", range(MAXIMUM_WINDOW_SECONDS + 1), "Lambda's"),
        ("batch_concurrency", BATCH_CONCURRENCY, "a Lambda environment's"),
        ("max_concurrency", MAXIMUM_CONCURRENCY, "the event source mapping's"),
        ("candidate_slots", CANDIDATE_SLOTS, "one query's"),
        ("max_receive_count", MAXIMUM_RECEIVE_COUNT, "a redrive policy's, with room for deferrals,"),
        ("queue_retention_seconds", MESSAGE_RETENTION_SECONDS, "SQS's"),
        ("dead_letter_retention_seconds", MESSAGE_RETENTION_SECONDS, "SQS's"),
        ("max_message_bytes", MAXIMUM_MESSAGE_BYTES, "SQS's"),
        ("dead_letter_max_message_bytes", MAXIMUM_MESSAGE_BYTES, "SQS's"),
        ("audit_full_every_days", AUDIT_FULL_EVERY_DAYS, "point-in-time recovery's"),
        ("audit_history_days", STORAGE_DAYS, "the product's"),
        ("audit_result_days", STORAGE_DAYS, "the product's"),
        ("audit_workers", GLUE_WORKERS, "Glue's"),
        ("audit_timeout_hours", AUDIT_HOURS, "one night's"),
        ("audit_export_hours", AUDIT_EXPORT_HOURS, "one execution's"),
    )
    for name, limit, whose in limits:
        value = getattr(s, name)
        if value not in limit:
            yield f"{name} is {value}, outside {whose} limits of {limit[0]} to {limit[-1]}; choose a number between them"
    if s.alarm_topic_arn and not re.fullmatch(TOPIC_ARN, s.alarm_topic_arn):
        yield (
            f"alarm_topic_arn is {s.alarm_topic_arn!r}, which is no ARN of an SNS topic; give one such as "
            "arn:aws:sns:eu-west-2:111122223333:on-call, or leave it out"
        )
    if s.ledger_forgotten_before and not _is_moment(s.ledger_forgotten_before):
        yield (
            f"ledger_forgotten_before is {s.ledger_forgotten_before!r}, which is no moment in UTC; give one such as "
            "2026-11-23T14:00:00Z, or leave it out"
        )
    if s.log_retention_days not in LOG_RETENTION_DAYS:
        choices = ", ".join(map(str, LOG_RETENTION_DAYS))
        yield f"log_retention_days is {s.log_retention_days}, which CloudWatch Logs does not have; use one of {choices}"


def _is_moment(text: str) -> bool:
    """Written in full, as everyone who reads it later takes it: the command line, the audit, and its state machine."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return bool(re.fullmatch(MOMENT, text))


def _unsafe_retention(s: Settings) -> Iterator[str]:
    if s.alarm_oldest_message_seconds >= s.queue_retention_seconds:
        yield (
            f"alarm_oldest_message_seconds {s.alarm_oldest_message_seconds} is not below queue_retention_seconds "
            f"{s.queue_retention_seconds}, so requests would be deleted before the alarm rings; raise queue_retention_seconds"
        )
    receives = s.max_receive_count * s.visibility_timeout_seconds
    if receives * RECEIVES_SHARE > s.queue_retention_seconds:
        yield (
            f"max_receive_count {s.max_receive_count} * the visibility timeout of {s.visibility_timeout_seconds} s "
            f"(lambda_timeout_seconds {s.lambda_timeout_seconds} * visibility_multiplier {s.visibility_multiplier}) is "
            f"{receives} s, more than half of queue_retention_seconds {s.queue_retention_seconds}; the other half is for "
            "waiting, and SQS silently deletes a request that is still failing when the retention ends, in place of moving "
            "it to the dead-letter queue: lower max_receive_count or the visibility timeout, or raise "
            "queue_retention_seconds"
        )
    if s.dead_letter_retention_seconds <= s.queue_retention_seconds:
        yield (
            f"dead_letter_retention_seconds {s.dead_letter_retention_seconds} is not above queue_retention_seconds "
            f"{s.queue_retention_seconds}; a message's age counts from its first send, so it would leave the dead-letter "
            "queue on arrival: raise the first or lower the second"
        )
    if s.ledger_margin_seconds < s.queue_retention_seconds:
        yield (
            f"ledger_margin_seconds {s.ledger_margin_seconds} is shorter than queue_retention_seconds "
            f"{s.queue_retention_seconds}, the time that a redriven message may wait again; raise ledger_margin_seconds"
        )
    needed = s.queue_retention_seconds + s.dead_letter_retention_seconds + s.ledger_margin_seconds
    kept = s.ledger_retention_seconds
    if kept is not None and kept < needed:
        yield (
            f"ledger_retention_seconds {kept} is shorter than {needed} (queue_retention_seconds "
            f"{s.queue_retention_seconds} + dead_letter_retention_seconds {s.dead_letter_retention_seconds} + "
            f"ledger_margin_seconds {s.ledger_margin_seconds}), so a duplicate could outlive the row that stops it; "
            f"raise ledger_retention_seconds to {needed}, or use {FOREVER}"
        )
    if kept is not None and s.log_retention_days * DAY < kept:
        yield (
            f"log_retention_days {s.log_retention_days} is shorter than ledger_retention_seconds {kept} ({kept // DAY} "
            "days), so the audit would miss deliveries of requests that it still sees; raise log_retention_days"
        )
    if kept is None and s.log_retention_days * DAY < needed:
        yield (
            f"log_retention_days {s.log_retention_days} is shorter than {needed} s (queue_retention_seconds + "
            "dead_letter_retention_seconds + ledger_margin_seconds), so the audit would miss deliveries of requests that "
            "can still come again; raise log_retention_days"
        )
    if s.audit_result_days < 2 * s.audit_full_every_days:
        yield (
            f"audit_result_days {s.audit_result_days} is less than twice audit_full_every_days {s.audit_full_every_days}, "
            "so an audit of changes could build on verdicts that are deleted already; raise audit_result_days"
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
