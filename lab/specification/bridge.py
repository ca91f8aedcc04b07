"""A projection of the running system on the specification: the common part of their states, and the allowed steps.

Common to both are the ledger's row, the effect, the acknowledgement, and the writes that may still land. The specification's
consumers and the code's own variables are left out.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.specification.checker import Check, CheckerFailed, Model, check, specification, transitions

NO_ROW, IN_PROGRESS, COMPLETE = "none", "IN_PROGRESS", "COMPLETE"
CLAIM, COMMIT, RELEASE = "claiming", "working", "releasing"
"""The ledger's writes, named in the specification by the place of the consumer that sends them."""

_ROW = re.compile(r'\[by \|-> (\d+), live \|-> (\w+), status \|-> "(\w+)"\]')


class AbstractState(NamedTuple):
    """The common part of a state of the specification and of the system.

    live: the row is claimed and its lease has not ended. effects: appointments, or busy slots if there are more.
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

    now: epoch ms. A lease that ends at this moment is live, as in the claim's condition.
    """
    held = sum(slot.get("appointment_id") == message_id for slot in slots)
    made = sum(appointment["appointment_id"] == message_id for appointment in appointments)
    status = NO_ROW if row is None else row["status"]
    live = row is not None and status == IN_PROGRESS and row["lease_until"] >= now
    return AbstractState(status, live, max(held, made), acknowledged, frozenset(late))


def kind_of_write(operation: str, request: Mapping[str, Any]) -> str | None:
    """Return the ledger's write that a call is (boto3's method name and parameters); None for any other call."""
    if operation == "transact_write_items":
        return COMMIT
    if operation != "update_item":
        return None
    return CLAIM if "claimed_by = " in request["UpdateExpression"] else RELEASE


@dataclass(frozen=True)
class Allowed:
    """The states and steps of the specification, projected."""

    states: frozenset[AbstractState]
    steps: frozenset[AbstractStep]

    def objections(self, steps: Iterable[AbstractStep]) -> list[AbstractStep]:
        """Return the steps that the specification does not allow. A step without a change is always allowed."""
        return sorted(
            {step for step in steps if step not in self.steps and (step.before != step.after or step.new_owner)},
            key=repr,
        )


def allowed(model: Model) -> Allowed:
    """Visit the whole specification and project it. Raises `CheckerFailed` if it does not hold."""
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
        raise CheckerFailed(f"The checker writes the ledger's row in an unknown form: {variables['row']}")
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
