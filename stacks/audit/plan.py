"""The data that the state machine's definition needs, and the names that it shares with the audit's job."""

from __future__ import annotations

from dataclasses import dataclass

VERDICT_FILE = "audit.json"  # oneslot.audit.write.finished.DESCRIPTION; a test compares them
AUDIT_VERSION = 6  # oneslot.audit.conclusion.VERSION; a test compares them


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """The values in the definition. The ARNs and names may be CDK tokens.

    Attributes:
        tables: the ARN of each table by the name of its folder in a history.
        full_every_days: the days from one full export to the next; the nights between export changes only.
        content_based: true if the consumer identifies messages without an id by their content.
        ledger_forgotten_before: a moment in UTC as text, or empty; `stacks.settings`.
        delivery_days: the earlier days of the delivery log that a full audit reads beside its own.
        export_seconds: the time for all exports together.
        job_seconds: the job's own timeout.
        timeout_seconds: the execution's own. No state runs after it, so it must be longer than the others together.
    """

    partition: str
    tables: dict[str, str]
    bucket: str
    key_arn: str
    job_name: str
    dead_letter_queue_url: str
    content_based: bool
    topic_arn: str
    stage: str
    full_every_days: int
    delivery_days: int
    ledger_retention_seconds: int | None
    ledger_forgotten_before: str
    patience_seconds: int
    export_seconds: int
    job_seconds: int
    timeout_seconds: int
