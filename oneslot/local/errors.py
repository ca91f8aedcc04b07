"""Errors of the local stack, as sentences that name the remedy."""

from oneslot.errors import OneslotError


class LocalRunError(OneslotError):
    """The local stack cannot be started, used or stopped."""


class AlreadyRunning(LocalRunError):
    """A local stack already runs in this state folder."""


class StaleState(LocalRunError):
    """The state folder describes a local stack whose process is gone."""


class HandlerFailed(LocalRunError):
    """The deployed function does not start."""
