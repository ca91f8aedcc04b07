"""The message attributes by which a quarantined message says why it is in the dead-letter queue, and which one it was."""

from __future__ import annotations

REASON_ATTRIBUTE = "QuarantineReason"
DETAIL_ATTRIBUTE = "QuarantineDetail"
SOURCE_ATTRIBUTE = "SourceMessageId"
QUARANTINE_ATTRIBUTES = (REASON_ATTRIBUTE, DETAIL_ATTRIBUTE, SOURCE_ATTRIBUTE)
