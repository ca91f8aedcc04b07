"""Strands: greenlets that take turns in one thread, one at a time.

An invocation under exploration is made of strands, and so is every thread of the simulation. A strand runs until it pauses;
the scheduler then takes the next one that is ready.
"""

from collections.abc import Callable
from contextvars import Context
from typing import Any, cast

from greenlet import GreenletExit, getcurrent, greenlet


class Strand:
    """One line of execution."""

    __slots__ = ("_greenlet",)

    def __init__(self, body: Callable[[], None]) -> None:
        self._greenlet = greenlet(body)

    @property
    def context(self) -> Context:
        """The context variables of a strand that pauses."""
        return self._greenlet.gr_context or Context()

    def kill(self) -> None:
        """Raise `GreenletExit` where the strand pauses, and return when it has ended."""
        self._greenlet.parent = getcurrent()
        self._greenlet.throw()

    def resume(self, hub: greenlet, values: tuple[Any, ...]) -> None:
        """Run the strand until it pauses or ends."""
        self._greenlet.parent = hub
        self._greenlet.switch(*values)


class Scheduler:
    """Runs strands in the order in which they became ready. A subclass may choose another order, or make a strand wait."""

    def __init__(self) -> None:
        self.current: Strand | None = None
        self._ready: list[tuple[Strand, tuple[Any, ...]]] = []
        self._hub: greenlet | None = None
        self._dead = False

    def start(self, strand: Strand) -> None:
        """Make a new strand ready."""
        self._ready.append((strand, ()))

    def wake(self, strand: Strand, value: Any = None) -> None:
        """Make a paused strand ready; its `pause` returns `value`."""
        self._ready.append((strand, (value,)))

    def pause(self) -> Any:
        """Pause the strand that runs, from inside; return the value that it is woken with."""
        if self._hub is None:
            raise RuntimeError("only a running strand can pause")
        value = self._hub.switch()
        if self._dead:
            raise GreenletExit
        return value

    def take(self) -> tuple[Strand, tuple[Any, ...]] | None:
        """Remove the next strand from those that are ready; return it with what it is woken with, or None."""
        return self._ready.pop(0) if self._ready else None

    def run(self) -> None:
        """Run until no strand is ready."""
        self._hub = cast("greenlet", getcurrent())
        while (taken := self.take()) is not None:
            self.current, values = taken
            self.current.resume(self._hub, values)
        self.current = None
