"""AWS's limits for what a stage has beside its consumer, and the product's own bounds."""

from __future__ import annotations

from collections.abc import Mapping

TOPIC_ARN = r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}"
"""A standard SNS topic of any partition."""

MAIL = r"[^@\s]+@[^@\s]+\.[^@\s]+"
"""A mailbox, as far as a typing error shows."""

DELIVERY_FOLDERS = 100
"""The days of the delivery log that a full audit reads are one argument of its job: 80 characters each."""

AUDIT_HOURS_AROUND = 2
"""Of a night's audit: one hour for Glue to start and stop the job, one to wait for an earlier run and to notify."""

AUDIT_EXPORT_HOURS = range(1, 13)
"""Step Functions ends an execution at its 25,000th event. Polling three exports each minute makes 1,620 an hour."""

# From two nights, so that one can build on the other, to ten years.
_STORAGE_DAYS = range(2, 3_654)

NUMBERS: Mapping[str, tuple[range, str]] = {
    # An environment has 1,024 file descriptors; each thread may hold a connection to DynamoDB and one to SQS.
    "batch_concurrency": (range(1, 501), "a Lambda environment's"),
    # More candidates are read, paid for and hashed without making conflicts rarer.
    "candidate_slots": (range(1, 51), "one query's"),
    "monthly_budget_dollars": (range(0, 1_000_001), "the product's"),
    "backup_days": (range(1, 3_654), "the product's"),
    # Changes are exported out of point-in-time recovery, which keeps 35 days.
    "audit_full_every_days": (range(1, 31), "point-in-time recovery's"),
    "audit_history_days": (_STORAGE_DAYS, "the product's"),
    "audit_result_days": (_STORAGE_DAYS, "the product's"),
    # A Spark job has at least two workers, one of which drives.
    "audit_workers": (range(2, 300), "Glue's"),
    "audit_timeout_hours": (range(1, 21), "one night's"),
    "audit_export_hours": (AUDIT_EXPORT_HOURS, "one execution's"),
}
"""A setting → its range, and whose limit that is."""
