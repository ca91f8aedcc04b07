"""The statuses that the tables hold: FHIR R4's words, as far as they are in use, and the ledger's two."""

from __future__ import annotations

FREE = "free"
BUSY = "busy"
"""Slot.status."""

BOOKED = "booked"
WAITLIST = "waitlist"
CANCELLED = "cancelled"
"""Appointment.status."""

IN_PROGRESS = "IN_PROGRESS"
COMPLETE = "COMPLETE"
"""Ledger status; `oneslot.runtime.stores.dynamodb` writes them."""
