"""The tables' statuses: FHIR R4's words where they are in use."""

FREE = "free"
BUSY = "busy"
"""Slot.status."""

BOOKED = "booked"
WAITLIST = "waitlist"
CANCELLED = "cancelled"
"""Appointment.status."""
