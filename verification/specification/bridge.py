"""From the running system to the specification: what of its state the specification speaks of, and the steps that it allows.

A projection. The specification's consumers and the code's own variables are left out; what both have in common is the
ledger's row, the effect, the acknowledgement, and the writes that were given up and may still land.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from verification.specification.checker import Check, CheckerFailed, Model, check, specification, transitions

NO_ROW, IN_PROGRESS, COMPLETE = "none", "IN_PROGRESS", "COMPLETE"
CLAIM, COMMIT, RELEASE = "claiming", "working", "releasing"
"""The ledger's writes, by the place of the consumer that sends them, as the specification has it."""

_ROW = re.compile(r'\[by \|-> (\d+), live \|-> (\w+), status \|-> "(\w+)"\]')


class AbstractState(NamedTuple):
    """What the specification and the system have in common.

    live: the row is claimed, and its lease has not ended. effects: appointments, or busy slots if they are more.
    acknowledged: a message of the request was deleted. late: kinds of writes that may still land.
    """

    status: str
    live: bool
    effects: int
    acknowledged: bool = False
    late: frozenset[str] = frozenset()


class AbstractStep(NamedTuple):
    """One step. `new_owner`: it wrote another value into the fence."""

    before: AbstractState
    after: AbstractState
    new_owner: bool


def abstract_state(
    message_id: str,
    row: Mapping[str, Any] | None,
    slots: Iterable[Mapping[str, Any]],
    appointments: Iterable[Mapping[str, Any]],
    *,
    now: int,
    acknowledged: bool = False,
    late: Collection[str] = (),
) -> AbstractState:
    """Return the specification's view of one booking request, from plain rows of the tables.

    now: epoch ms; a lease that ends at this very moment is live, as the claim's condition has it.
    """
    held = sum(slot.get("appointment_id") == message_id for slot in slots)
    made = sum(appointment["appointment_id"] == message_id for appointment in appointments)
    status = NO_ROW if row is None else row["status"]
    live = row is not None and status == IN_PROGRESS and row["lease_until"] >= now
    return AbstractState(status, live, max(held, made), acknowledged, frozenset(late))


def kind_of_write(operation: str, request: Mapping[str, Any]) -> str | None:
    """Return which of the ledger's writes a call is (boto3's method name and parameters); None for any other call."""
    if operation == "transact_write_items":
        return COMMIT
    if operation != "update_item":
        return None
    return CLAIM if "claimed_by = " in request["UpdateExpression"] else RELEASE


@dataclass(frozen=True)
class Allowed:
    """What the specification allows, as far as the projection shows it."""

    states: frozenset[AbstractState]
    steps: frozenset[AbstractStep]

    def objections(self, steps: Iterable[AbstractStep]) -> list[AbstractStep]:
        """Return the steps that are none of the specification's; standing still is always allowed."""
        return sorted(
            {step for step in steps if step not in self.steps and (step.before != step.after or step.new_owner)},
            key=repr,
        )


def allowed(model: Model) -> Allowed:
    """Visit the whole specification, and project it. Raises `CheckerFailed` if it does not hold itself."""
    found: Check = check(specification(), model, dot=True)
    if not found.holds:
        raise CheckerFailed(f"The specification does not hold: {found.violated}.\n{found.trace}")
    states: set[AbstractState] = set()
    steps: set[AbstractStep] = set()
    for before, after in transitions(found.dot):
        one, other = _project(before, model), _project(after, model)
        states |= {one, other}
        steps.add(AbstractStep(one, other, _owner(before) != _owner(after)))
    return Allowed(frozenset(states), frozenset(steps))


def _project(variables: Mapping[str, str], model: Model) -> AbstractState:
    row = _ROW.fullmatch(variables["row"])
    if row is None:
        raise CheckerFailed(f"The checker spells the ledger's row in a way unknown here: {variables['row']}")
    return AbstractState(
        status=row[3],
        live=row[2] == "true",
        effects=int(variables["effects"]),
        acknowledged=len(re.findall(r"m\d+", variables["queue"])) < model.messages,
        late=frozenset(re.findall(r'write \|-> "(\w+)"', variables["network"])),
    )


def _owner(variables: Mapping[str, str]) -> str:
    row = _ROW.fullmatch(variables["row"])
    return row[1] if row else ""
