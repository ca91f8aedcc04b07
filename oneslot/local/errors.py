"""What can go wrong with the local run, as sentences that name the remedy."""

from oneslot.errors import OneslotError


class LocalRunError(OneslotError):
    """Something the person at the terminal can act on. `str(error)` is one or more whole sentences to show as they are."""


class AlreadyRunning(LocalRunError):
    """A local stack already lives in this state folder."""


class StaleState(LocalRunError):
    """The state folder speaks of a local stack whose process is gone."""


class SynthesisFailed(LocalRunError):
    """The CDK app did not produce a cloud assembly."""


class DeploymentFailed(LocalRunError):
    """The embedded AWS did not accept the template or an asset."""


class EmbeddedAwsFailed(LocalRunError):
    """The embedded AWS did not start, or ended by itself."""


class UnsupportedMapping(LocalRunError):
    """The deployed event source mapping uses something the local poller does not do."""


class HandlerFailed(LocalRunError):
    """The deployed function does not start."""
