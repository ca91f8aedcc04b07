"""AWS's limits for what a stage has beside its consumer, and the product's own bounds."""

from __future__ import annotations

from collections.abc import Mapping

TOPIC_ARN = r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}"
"""A standard SNS topic of any partition."""

MAIL = r"[^@\s]+@[^@\s]+\.[^@\s]+"
"""A mailbox, as far as a typing error shows."""

NUMBERS: Mapping[str, tuple[range, str]] = {
    # More candidates are read, paid for and hashed without making conflicts rarer.
    "candidate_slots": (range(1, 51), "one query's"),
    "monthly_budget_dollars": (range(0, 1_000_001), "the product's"),
    "backup_days": (range(1, 3_654), "the product's"),
    # A Spark job has at least two workers, one of which drives.
    "audit_workers": (range(2, 300), "Glue's"),
}
"""A setting → its range, and whose limit that is."""
