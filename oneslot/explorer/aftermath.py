"""The end of a schedule: faults stop, messages are delivered until acknowledged, then once more; the laws are checked."""

from dataclasses import dataclass

from oneslot.explorer.execution.behaviour import COLD
from oneslot.explorer.execution.process import HandlerEnd
from oneslot.explorer.laws import collect
from oneslot.explorer.renaming import swap
from oneslot.explorer.scenario import SQS
from oneslot.explorer.state import ExploredState
from oneslot.explorer.system import System
from oneslot.explorer.world import ApiCall

REMAINS = {True: "is still in the queue", False: "still fails"}
"""What is true of a message that is never acknowledged, by whether SQS delivers it."""
MOST_SENT = 12
"""The most deliveries of what the code sends to its own queue; more would be without end."""
TRAVEL_MS = 1
"""The least time until a visible message is delivered; without it the clock would stand still."""


_Reached = tuple[int, int, int, tuple[int, ...]]
"""A state's world, expiries and acknowledged messages, and the deliveries of each message so far."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """One delivery without a fault: the world after it, its outcome, the environment that it leaves, its calls, breaches.

    `steps`: for each call the number of its request, of the caller's observation, and of the world after it.
    """

    world: int
    outcome: HandlerEnd
    node: int
    environment: int
    calls: tuple[ApiCall, ...]
    breaches: tuple[str, ...]
    steps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Redelivery:
    """One delivery of an aftermath: its message's position, its time (epoch ms), what it did, where if not in a fresh one."""

    position: int
    at: int
    delivered: Delivered
    environment: int = COLD


class Aftermath:
    """The aftermath of every end state of a system; equal states are computed once."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._known: dict[tuple[_Reached, int], tuple[str, ...]] = {}

    def __call__(self, state: ExploredState) -> tuple[str, ...]:
        """Return the laws that the aftermath of a state breaks."""
        system, reached, warm = self._system, self._reached(state), max(COLD, state.warm)
        if (reached, warm) not in self._known:
            found = self._breaches(reached, warm, []) if warm else []
            self._known[reached, warm] = tuple(found or self._breaches(reached, COLD, []))
        if state.faults < system.scenario.faults:
            return self._known[reached, warm]
        delivered = system.delivered(state.codes)
        return (
            *self._known[reached, warm],
            *collect(system.subject.laws.of_deliveries(system.worlds[state.world], delivered)),
        )

    def deliveries(self, state: ExploredState) -> list[Redelivery]:
        """Return the deliveries of the aftermath of a state, in their order."""
        reached, made = self._reached(state), list[Redelivery]()
        if state.warm <= COLD or not self._breaches(reached, state.warm, made):
            made.clear()
            self._breaches(reached, COLD, made)
        return made

    def _reached(self, state: ExploredState) -> _Reached:
        return state.world, state.expiries, state.acknowledged, self._system.receives(state.codes)

    def _breaches(self, reached: _Reached, warm: int, made: list[Redelivery]) -> list[str]:
        """`warm`: the changed environment that takes all deliveries, one after the other; `COLD` for a fresh one each."""
        world, expiries, acknowledged, received = reached
        system, scenario, laws = self._system, self._system.scenario, self._system.subject.laws
        now, first = scenario.redelivered_at(expiries), len(scenario.deliveries)
        everything = (1 << len(scenario.messages)) - 1
        acknowledged |= scenario.deleted(system.worlds[world])
        again = [0] * len(scenario.messages)
        due = True
        while due and acknowledged != everything:
            hidden, due = 0, False
            for position, receives in enumerate(again):
                waits = acknowledged >> position & 1 or scenario.earlier(position) & ~acknowledged
                if waits or receives == scenario.redeliveries:
                    continue
                due = True
                again[position] += 1
                name, count = first + len(made), received[position] + again[position]
                delivered = self.deliver(world, position, now, name, count, environment=warm)
                made.append(Redelivery(position, now, delivered, warm))
                world, warm = delivered.world, delivered.environment
                acknowledged |= system.acknowledges((position,), delivered.outcome)
                acknowledged |= scenario.deleted(system.worlds[world])
                hidden = max(hidden, _hidden_ms(delivered.calls, scenario.visibility_ms))
            if acknowledged != everything:
                now += hidden + TRAVEL_MS
        world, now, sent = self.drained(world, now, first + len(made))
        made += sent
        breaches = [breach for one in made for breach in one.delivered.breaches]
        if acknowledged != everything:
            remains = REMAINS[scenario.deliverer == SQS]
            breaches.append(
                f"{scenario.unfinished} {scenario.redeliveries} deliveries without a fault, a message {remains}"
            )
        for position in range(len(scenario.messages)) if scenario.once_more else ():
            delivered = self.deliver(world, position, now, first + len(made) + position)
            breaches += delivered.breaches
            breaches += collect(
                laws.of_duplicate(system.worlds[world], scenario.messages[position], delivered.calls, delivered.outcome)
            )
            world = delivered.world
        if scenario.ends_with is not None:
            breaches += collect(laws.at_last(system.worlds[world], scenario.ends_with))
        return [*breaches, *system.in_state(world, acknowledged, now)]

    def drained(self, world: int, now: int, name: int) -> tuple[int, int, list[Redelivery]]:
        """Deliver what the code sent to its own queue, and what that sends, until none is left, or too often.

        Return the world and the time after it, and the deliveries. `name`: the number of the first of them.
        """
        system, scenario, made, receives = self._system, self._system.scenario, list[Redelivery](), 0
        taken = system.taken(world)
        while taken is not None and len(made) < MOST_SENT:
            receives += 1
            (left, position), now = taken, now + TRAVEL_MS
            delivered = self.deliver(left, position, now, name + len(made), receives)
            made.append(Redelivery(position, now, delivered))
            world = delivered.world
            if system.acknowledges((position,), delivered.outcome) or receives == scenario.redeliveries:
                taken, receives = system.taken(world), 0
            else:
                taken, now = (world, position), now + _hidden_ms(delivered.calls, scenario.visibility_ms)
        return world, now, made

    def deliver(
        self, world: int, message: int, now: int, name: int, receives: int = 1, *, environment: int = COLD
    ) -> Delivered:
        """Deliver one message alone and without a fault, under a name of its own, in a fresh environment or this one."""
        system = self._system
        behaviour = system.behaviour((message,), name, receives)
        node = behaviour.start(now, environment)
        calls: list[ApiCall] = []
        steps: list[tuple[int, int, int]] = []
        breaches: list[str] = []
        while behaviour.nodes[node].outcome is None:
            strand, seen_request = system.next_calls(behaviour.nodes[node].pending)[0]
            request = system.renamed("request", seen_request, swap(name))
            calls.append(ApiCall(system.requests.texts[request]))
            world, observation, broken = system.apply(world, request, now, name)
            steps.append((request, observation, world))
            breaches += broken
            node = behaviour.advance(node, strand, system.renamed("observation", observation, swap(name)), now)
        outcome = behaviour.nodes[node].outcome or HandlerEnd()
        breaches += system.at_end(world, name, (message,), outcome)
        left = system.left_by(behaviour, node) if environment and not outcome.recycled else COLD
        return Delivered(world, outcome, node, left, tuple(calls), tuple(breaches), tuple(steps))


def _hidden_ms(calls: tuple[ApiCall, ...], visibility_ms: int) -> int:
    """Return how long a failed delivery hides its message: the time that it requested, else the visibility timeout."""
    hidden = visibility_ms
    for call in calls:
        operation, parameters = call.parts
        if operation == "change_message_visibility":
            hidden = int(parameters["VisibilityTimeout"]) * 1000
    return hidden
