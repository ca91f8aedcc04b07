"""Errors of the appointments' own verbs. Each has a code, as those of `oneslot.errors` have."""

from oneslot.errors import BadInput, OneslotError


class NotSeeded(OneslotError):
    """No slots were seeded from here, so `oneslot send` knows no practice."""


class SlotsOver(BadInput):
    """Every slot that was seeded last is in the past."""


class SmokeFailed(OneslotError):
    """The request of `oneslot smoke`, or its cancellation, did not end as it must."""
