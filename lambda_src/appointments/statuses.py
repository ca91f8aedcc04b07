"""The tables' statuses: FHIR R4's words where they are in use, and the ledger's two."""

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
"""Ledger status, as `oneslot.runtime.protocol` defines it; repeated here, because the domain imports `effects` only."""
