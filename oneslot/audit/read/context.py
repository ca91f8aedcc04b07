"""The `context.json` of a history: how long the ledger keeps a row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from oneslot.audit.errors import AuditRefused
from oneslot.audit.layout import CONTEXT
from oneslot.audit.spark.storage import Storage

NAMES = ("ledger_retention_seconds", "ledger_retention", "ledger_forgotten_before")
FOREVER = "forever"
LONGEST_SECONDS = 10**10


@dataclass(frozen=True)
class HistoryContext:
    """The retention of the ledger's rows in milliseconds; None if rows are kept forever.

    Before `forgotten_before` (epoch ms; 0 if unset) the retention was shorter, so rows from that time may be gone already.
    """

    retention_ms: int | None = None
    forgotten_before: int = 0


def read_context(storage: Storage, folder: str, end: int) -> HistoryContext:
    """Return the context of a history that ends at `end`, epoch ms. Without the file the ledger keeps every row.

    Raises AuditRefused for an invalid file.
    """
    path = f"{folder}/{CONTEXT}"
    text = storage.read_text(path)
    if text is None:
        return HistoryContext()
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise AuditRefused(f"{path} is not a JSON object. Write one, or remove it.")
    if unknown := document.keys() - NAMES:
        raise AuditRefused(f"{path}: {min(unknown)!r} is not a known name. Use {', '.join(NAMES)}.")
    seconds = document.get("ledger_retention_seconds")
    # At most three hundred years, far below where Spark's milliseconds overflow. `type`, because bool is an int in Python.
    if seconds is not None and not (type(seconds) is int and 0 < seconds <= LONGEST_SECONDS):
        raise AuditRefused(f"{path}: ledger_retention_seconds must be a whole number from 1 to {LONGEST_SECONDS}.")
    if seconds is not None and "ledger_retention" in document:
        raise AuditRefused(f"{path}: ledger_retention and ledger_retention_seconds contradict each other. Remove one.")
    if document.get("ledger_retention", FOREVER) != FOREVER:
        raise AuditRefused(
            f"{path}: ledger_retention can only be {FOREVER!r}. For a number write ledger_retention_seconds."
        )
    return HistoryContext(None if seconds is None else seconds * 1000, _forgotten_before(path, document, end))


def _forgotten_before(path: str, document: dict[str, object], end: int) -> int:
    moment = document.get("ledger_forgotten_before")
    if moment is None:
        return 0
    try:
        before = datetime.fromisoformat(str(moment))
    except ValueError:
        before = datetime.min  # noqa: DTZ901 - rejected below, as a time without a zone
    if before.tzinfo is None:
        raise AuditRefused(f"{path}: ledger_forgotten_before must be a time such as 2026-11-23T14:00:00Z.")
    if before.timestamp() * 1000 > end:
        raise AuditRefused(
            f"{path}: ledger_forgotten_before is {moment}, later than the exports, so no missing row would be found. "
            "Name the time from which the ledger kept its rows for longer."
        )
    return round(before.timestamp() * 1000)
