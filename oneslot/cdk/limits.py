"""AWS's limits for a queue and its consumer, from the service quotas and API references, and the product's own bounds."""

from __future__ import annotations

from collections.abc import Mapping

MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW = 10
MAXIMUM_VISIBILITY_SECONDS = 43_200

FEWEST_RECEIVES = 5
"""SQS allows one. Crashes and deferrals burn receives, and AWS's guide for Lambda says 5 or more."""

RECEIVES_SHARE = 2
"""A message may spend at most 1/RECEIVES_SHARE of the queue's retention failing. The rest is for waiting."""

LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1_827, 3_653)
"""The retentions that CloudWatch Logs offers."""

QUARANTINE_BYTES = 8_192
"""Quarantine adds three attributes to a message: under 1 KiB today."""

_RETENTION = range(60, 1_209_601)
_MESSAGE_BYTES = range(1_024, 1_048_577)

NUMBERS: Mapping[str, tuple[range, str]] = {
    "lambda_timeout_seconds": (range(1, 901), "Lambda's"),
    "lambda_memory_mb": (range(128, 10_241), "Lambda's"),
    "batch_size": (range(1, 10_001), "Lambda's"),
    "batching_window_seconds": (range(301), "Lambda's"),
    "max_concurrency": (range(2, 1_001), "the event source mapping's"),
    "visibility_multiplier": (range(1, MAXIMUM_VISIBILITY_SECONDS + 1), "the visibility timeout's"),
    "max_receive_count": (range(FEWEST_RECEIVES, 1_001), "a redrive policy's, with room for deferrals,"),
    "queue_retention_seconds": (_RETENTION, "SQS's"),
    "dead_letter_retention_seconds": (_RETENTION, "SQS's"),
    "max_message_bytes": (_MESSAGE_BYTES, "SQS's"),
    "dead_letter_max_message_bytes": (_MESSAGE_BYTES, "SQS's"),
}
"""A number → its range, and whose limit that is."""
