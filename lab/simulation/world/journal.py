"""What happened in a run: its events in their order, the laws that it broke, and what it reached."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.simulation.world.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: when (microseconds since the start), in which process, and what."""

    at: int
    process: str
    what: str
    details: Any = None


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken law, in a sentence."""

    law: str
    detail: str


class Journal:
    """The events, for the counterexample and the trace's hash; the broken laws; and how often what happened, by name.

    `observers` are called for each call that a service performed (process, operation, parameters, answer or error).
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.events: list[Event] = []
        self.breaches: list[Breach] = []
        self.reached: Counter[str] = Counter()
        self.observers: list[Callable[[str, str, Any, Any], None]] = []

    def note(self, process: str, what: str, details: Any = None) -> None:
        """Note that something happened."""
        self.events.append(Event(self._kernel.now, process, what, details))

    def breach(self, law: str, detail: str) -> None:
        """Note a broken law."""
        self.breaches.append(Breach(law, detail))
        self.note("law", f"{law} is broken", detail)

    def died(self, name: str, error: BaseException) -> None:
        """Note that an error left a thread."""
        self.breach("Q9", f"{name}: {type(error).__name__}: {error}")
