"""Every setting of a stage, once, its limits, and the relations between them. A contradiction is refused before synthesis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from oneslot.cdk.numbers import (
    LIMITS,
    Numbers,
    Thresholds,
    contradictions,
    late_alarms,
    outside_limits,
    refuse,
    refused_on_fifo,
)

TOPIC_ARN = r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}"
"""A standard SNS topic of any partition."""

MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
"""A moment in UTC, as text."""

QUEUE_KINDS = ("standard", "fifo")
"""The values of `queue`."""

RANGES: Mapping[str, tuple[range, str]] = {
    **LIMITS,
    # More candidates are read, paid for and hashed without making conflicts rarer.
    "candidate_slots": (range(1, 51), "one query's"),
    # A Spark job has at least two workers, one of which drives.
    "audit_workers": (range(2, 300), "Glue's"),
}
"""A setting → its range, and whose limit that is."""

THRESHOLDS = Thresholds()
"""The alarms' limits, of every stage."""


@dataclass(frozen=True, kw_only=True)
class Settings(Numbers):
    """One stage's settings: its consumer's numbers, and those of the rest.

    Raises:
        ContradictorySettings: two numbers contradict each other, or one is outside AWS's limits.
    """

    stage: str

    # The consumer.
    snap_start: bool = False  # start from a snapshot of the imported function; snapshots and restores are billed
    gradual_deployment: bool = False  # a new version gets a tenth of the batches first, and may be rolled back
    candidate_slots: int = 16  # the earliest free slots among which a request chooses
    group_commit: bool = False  # commit a batch's first deliveries in one transaction (lab/docs/performance.md)
    content_based_deduplication: bool = False  # identify a message without an id by the SHA-256 of its body

    # The queue. `fifo` keeps the order within each message group (docs/do/keep-order.md).
    queue: str = "standard"

    # The ledger.
    ledger_forgotten_before: str = ""  # when the retention was raised: older rows may be gone (docs/do/deploy.md)

    # Keys: AWS's own, or one of this stage's that the account may audit, rotate and withdraw.
    customer_managed_keys: bool = False

    # The SNS topic that alarms and the audit publish to, by its ARN; empty for none.
    alarm_topic_arn: str = ""

    # The nightly audit, a stack of its own.
    audit: bool = False
    audit_workers: int = 2  # Glue's least; under ten million requests ten, its default, would wait for each other

    # Data outlives a deleted stack, and cannot be deleted by mistake.
    retain_data: bool = False

    def __post_init__(self) -> None:
        refuse(
            outside_limits(self, RANGES),
            _invalid_texts(self),
            late_alarms(THRESHOLDS, self),
            contradictions(self),
            refused_on_fifo(self) if self.fifo else iter(()),
        )

    @property
    def fifo(self) -> bool:
        """True if the queue keeps order."""
        return self.queue == "fifo"

    @property
    def numbers(self) -> Numbers:
        """The consumer's numbers alone."""
        return Numbers(**{field.name: getattr(self, field.name) for field in fields(Numbers)})


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


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return bool(re.fullmatch(MOMENT, text))


STAGES: Mapping[str, Settings] = {
    "dev": Settings(stage="dev"),
    "prod": Settings(
        stage="prod", max_concurrency=50, log_retention_days=90, retain_data=True, gradual_deployment=True
    ),
}
