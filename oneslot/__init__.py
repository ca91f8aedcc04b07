"""Exactly-once effects from a queue that delivers at least once.

The names below need no third-party package. Import from its module what needs one: a ledger from `oneslot.runtime.stores`,
the SQS consumer from `oneslot.runtime.consumer`, Powertools' way from `oneslot.runtime.powertools`.
"""

from oneslot.runtime.effects import Effects, InvalidEffects, Once, Put, Unprocessable, Update, conflict
from oneslot.runtime.protocol import (
    Answer,
    Busy,
    Claim,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    Message,
    Outcome,
    Store,
    Taken,
)

__all__ = [
    "Answer",
    "Busy",
    "Claim",
    "Committed",
    "Conflict",
    "Duplicate",
    "Effects",
    "Exists",
    "Fenced",
    "InvalidEffects",
    "Message",
    "Once",
    "Outcome",
    "Put",
    "Store",
    "Taken",
    "Unprocessable",
    "Update",
    "conflict",
]
