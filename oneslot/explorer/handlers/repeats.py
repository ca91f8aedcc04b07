"""Whether a handler repeats: equal deliveries in fresh environments make equal calls, however much ran in between.

A mark outside of the handler's modules, and a time or an id that the explorer does not control, show here, wherever they
are. Without this the first run's mark would stay for all later ones, and the handler would "hold".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

from oneslot.explorer.aftermath import Delivered
from oneslot.explorer.execution.behaviour import KEEP_REMEDY
from oneslot.explorer.handlers.effects import leaves
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall

KEEPS = f"The handler keeps something outside its modules: {{difference}}. {KEEP_REMEDY}"
READS = (
    "The handler reads something that changes from run to run, which the explorer does not control: {difference}. "
    "Take it from the message, from a table, or from the standard library's clocks and random numbers."
)


@dataclass
class Repeats:
    """The deliveries of each message. `deliver` delivers the one at a position in a fresh environment, by running the code."""

    deliver: Callable[[int], Delivered]
    messages: int
    _first: dict[int, Delivered] = field(default_factory=dict)
    _names: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {name: tuple(vars(one)) for name, one in _modules()}
    )

    def check(self) -> None:
        """Deliver each message again, and compare with the first time. Raises `NotExplorable`."""
        for position in range(self.messages):
            again = self.deliver(position)
            first = self._first.setdefault(position, again)
            difference = _difference(first, again)
            if difference:
                changes = _difference(again, self.deliver(position))
                marks = "".join(f" ({mark})" for mark in self._removed_marks())
                raise NotExplorable((READS if changes else KEEPS).format(difference=difference + marks))

    def _removed_marks(self) -> list[str]:
        """Remove what libraries hold under new names, so that no later exploration finds it; return the names."""
        new = [
            (module, name)
            for title, module in _modules()
            for name in sorted(set(vars(module)).difference(self._names.get(title, vars(module))))
            if not isinstance(getattr(module, name), (ModuleType, type)) and not callable(getattr(module, name))
        ]
        for module, name in new:
            delattr(module, name)
        return [f"{module.__name__}.{name}" for module, name in new]

    def forget(self) -> None:
        """Forget the first time, because the next events are others."""
        self._first.clear()


def _modules() -> list[tuple[str, ModuleType]]:
    return [(name, one) for name, one in list(sys.modules.items()) if type(one) is ModuleType]


def _difference(first: Delivered, again: Delivered) -> str:
    """Return what is first different between two equal deliveries; empty if nothing is."""
    for one, other in zip(first.calls, again.calls, strict=False):
        if one != other:
            return _different_calls(one, other)
    if len(first.calls) != len(again.calls):
        longer = max((first, again), key=lambda one: len(one.calls))
        name, _ = longer.calls[min(len(first.calls), len(again.calls))].parts
        return f"it calls {name} only in {'the first' if longer is first else 'a later'} of equal deliveries"
    ends = [(one.outcome.failed, one.outcome.error, one.outcome.answer) for one in (first, again)]
    return "" if ends[0] == ends[1] else "equal deliveries end differently"


def _different_calls(one: ApiCall, other: ApiCall) -> str:
    (name, parameters), (other_name, others) = one.parts, other.parts
    if name != other_name:
        return f"it calls {name} in the first of equal deliveries, and {other_name} in a later one"
    found = dict(leaves(others))
    for path, value in leaves(parameters):
        if found.get(path) != value:
            then = json.dumps(found.get(path), default=repr)
            return f"{name}{path} is {json.dumps(value, default=repr):.60}, and {then:.60} in an equal delivery"
    return f"{name} has other parameters in an equal delivery"
