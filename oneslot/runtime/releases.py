"""Claims that a worker releases together with their message.

A worker that must stop makes the messages in work visible, and the next worker would find them busy until their leases end.
So whatever claims a message registers its release. Lambda releases no message before its handler has ended: nothing
registers there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from oneslot.runtime.surroundings import Surroundings

Release = Callable[[], object]


class Releases:
    """The claims of one message in work. Safe to use from many threads."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._lock = surroundings.threads.lock()
        self._registered: list[Release] = []
        self._called = False

    def add(self, release: Release) -> None:
        """Register a claim's release, or call it if the message was released before."""
        with self._lock:
            if not self._called:
                self._registered.append(release)
                return
        release()

    def call(self) -> list[Exception]:
        """Release every claim; return what was raised."""
        with self._lock:
            self._called = True
        errors = []
        for release in self._registered:
            try:
                release()
            except Exception as error:
                errors.append(error)
        return errors


current: ContextVar[Releases | None] = ContextVar("releases", default=None)
"""The claims of the message that the calling code works on; None outside a worker."""


def on_release(release: Release) -> None:
    """Let a worker call `release` if it makes the message in work visible while its handler runs. Elsewhere do nothing.

    Call it after a claim whose work may be fenced or may overlap: the next worker can begin before this handler has ended.
    """
    if (releases := current.get()) is not None:
        releases.add(release)
