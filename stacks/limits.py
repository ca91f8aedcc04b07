"""AWS's limits, from its service quotas and API references, and the product's own bounds."""

from __future__ import annotations

from collections.abc import Mapping

MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW = 10
MAXIMUM_VISIBILITY_SECONDS = 43_200

LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1_827, 3_653)
"""The retentions that CloudWatch Logs offers."""

TOPIC_ARN = r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}"
"""A standard SNS topic of any partition."""

RECEIVES_SHARE = 2
"""A message may spend at most 1/RECEIVES_SHARE of the queue's retention failing. The rest is for waiting."""

DELIVERY_FOLDERS = 100
"""The days of the delivery log that a full audit reads are one argument of its job: 80 characters each."""

AUDIT_HOURS_AROUND = 2
"""Of a night's audit: one hour for Glue to start and stop the job, one to wait for an earlier run and to notify."""

AUDIT_EXPORT_HOURS = range(1, 13)
"""Step Functions ends an execution at its 25,000th event. Polling three exports each minute makes 1,620 an hour."""

QUARANTINE_BYTES = 8_192
"""Quarantine adds three attributes to a message: under 1 KiB today."""

_RETENTION = range(60, 1_209_601)
_MESSAGE_BYTES = range(1_024, 1_048_577)
# From two nights, so that one can build on the other, to ten years.
_STORAGE_DAYS = range(2, 3_654)

NUMBERS: Mapping[str, tuple[range, str]] = {
    "lambda_timeout_seconds": (range(1, 901), "Lambda's"),
    "lambda_memory_mb": (range(128, 10_241), "Lambda's"),
    "batch_size": (range(1, 10_001), "Lambda's"),
    "batching_window_seconds": (range(301), "Lambda's"),
    "max_concurrency": (range(2, 1_001), "the event source mapping's"),
    # An environment has 1,024 file descriptors; each thread may hold a connection to DynamoDB and one to SQS.
    "batch_concurrency": (range(1, 501), "a Lambda environment's"),
    # More candidates are read, paid for and hashed without making conflicts rarer.
    "candidate_slots": (range(1, 51), "one query's"),
    "visibility_multiplier": (range(1, MAXIMUM_VISIBILITY_SECONDS + 1), "the visibility timeout's"),
    # SQS allows 1 to 1,000. Crashes and deferrals burn receives, and AWS's guide for Lambda says 5 or more.
    "max_receive_count": (range(5, 1_001), "a redrive policy's, with room for deferrals,"),
    "queue_retention_seconds": (_RETENTION, "SQS's"),
    "dead_letter_retention_seconds": (_RETENTION, "SQS's"),
    "max_message_bytes": (_MESSAGE_BYTES, "SQS's"),
    "dead_letter_max_message_bytes": (_MESSAGE_BYTES, "SQS's"),
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
