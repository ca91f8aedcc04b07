"""A plain enumeration: every schedule alone, from its start, with the code running.

It has no pruning, symmetry, remembered behaviour or numbers for texts. It is too slow for more than a small budget. There
it is the oracle of `explorer.py`: equal schedules, violating schedules and end states.
"""

from dataclasses import dataclass, field, replace
from itertools import permutations

from oneslot.explorer.aftermath import Aftermath
from oneslot.explorer.execution.process import HandlerEnd, RunningInvocation, capture_logs
from oneslot.explorer.faults import ANSWERED, DEATH, LATER, NOW, PERFORMED, Choice
from oneslot.explorer.laws import collect, perform
from oneslot.explorer.renaming import name_of, rename, rename_lines, swap
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.state import GONE, ExploredState
from oneslot.explorer.system import System
from oneslot.explorer.world import ApiCall, World

LATE, TIME = -1, -2


@dataclass(frozen=True)
class Count:
    """The counts. `ends` are (world, expiries, faults left, acknowledged messages), equal under exchanged names."""

    schedules: int
    violating: int
    ends: frozenset[tuple[str, int, int, int]]


@dataclass
class _Schedule:
    """One schedule, run from its start. `taken` holds the number of the step that was taken each time."""

    scenario: Scenario
    subject: ExploredSubject
    world: World
    faults: int
    taken: list[int]
    expiries: int = 0
    acknowledged: int = 0
    broken: bool = False
    network: list[ApiCall] = field(default_factory=list)
    processes: list[RunningInvocation | None] = field(default_factory=list)
    over: list[bool] = field(default_factory=list)
    ways: list[int] = field(default_factory=list)

    @property
    def now(self) -> int:
        return self.scenario.clock(self.expiries)

    def run(self) -> None:
        """Take the steps in `taken`, then always the first. Note the number of possible steps in `ways`."""
        count = len(self.scenario.deliveries)
        self.processes, self.over = [None] * count, [False] * count
        self._look()
        while steps := self._steps():
            position = len(self.ways)
            choice = self.taken[position] if position < len(self.taken) else 0
            self.ways.append(len(steps))
            self._take(*steps[choice])
            self._look()
        for process in self.processes:
            if process is not None:
                process.kill()

    def _steps(self) -> list[tuple[int, int, Choice | None, ApiCall | None]]:
        """Return (delivery, strand, choice, request); no choice: invocation or deletion; LATE, TIME: no delivery."""
        steps: list[tuple[int, int, Choice | None, ApiCall | None]] = []
        for delivery, process in enumerate(self.processes):
            if self.over[delivery]:
                continue
            if process is None:
                steps.append((delivery, 0, None, None))
            elif process.outcome is not None:
                steps.append((delivery, 0, None, None))
                if self.faults and not self.scenario.ends_by_itself:
                    steps.append((delivery, 1, None, None))
            else:
                for strand, seen in sorted(process.pending.items()):
                    request = ApiCall(rename(seen.text, swap(delivery)))
                    steps.append((delivery, strand, PERFORMED, request))
                    if self.faults:
                        steps += [(delivery, strand, choice, request) for choice in self.scenario.choices(request)]
        steps += [(LATE, 0, None, request) for request in dict.fromkeys(self.network)]
        if self.expiries < self.scenario.expiries and (self.network or not all(self.over)):
            steps.append((TIME, 0, None, None))
        return steps

    def _take(self, delivery: int, strand: int, choice: Choice | None, request: ApiCall | None) -> None:
        if delivery == TIME:
            self.expiries += 1
        elif delivery == LATE and request is not None:
            self.network.remove(request)
            self._perform(request, None)
        elif choice is not None and request is not None:
            self._call(delivery, strand, choice, request)
        else:
            process = self.processes[delivery]
            messages = self.scenario.deliveries[delivery]
            if process is None:
                program = self.subject.program(
                    [self.scenario.messages[position] for position in messages], self.scenario.side_by_side
                )
                self.processes[delivery] = RunningInvocation(program, self.now + self.scenario.kinds[delivery][1])
            else:
                self.over[delivery] = True
                self.faults -= strand
                if not strand and process.outcome is not None:
                    self.acknowledged |= self._deleted(messages, process.outcome)

    def _call(self, delivery: int, strand: int, choice: Choice, request: ApiCall) -> None:
        self.faults -= choice.is_fault
        observation = choice.observation
        if choice.conflict is not None:
            observation = self._perform(request, name_of(delivery), choice.conflict)
        elif choice.performed == NOW:
            answer = self._perform(request, name_of(delivery))
            observation = observation or answer
        elif choice.performed == LATER:
            self.network.append(request)
        process = self.processes[delivery]
        if choice.seen == DEATH:
            self.over[delivery] = True
        elif choice.seen == ANSWERED and process is not None and observation is not None:
            clock = self.now + self.scenario.kinds[delivery][1]
            process.answer(strand, rename(observation, swap(delivery)), clock)
            if process.outcome is not None:
                self._ended(delivery, process.outcome)

    def _perform(self, request: ApiCall, sender: str | None, conflict: int | None = None) -> str:
        laws = self.subject.laws
        self.world, observation, breaches = perform(
            self.scenario.services, laws, self.world, request, now=self.now, sender=sender, conflict=conflict
        )
        self.broken = self.broken or bool(self.scenario.checked(breaches))
        return observation

    def _ended(self, delivery: int, outcome: HandlerEnd) -> None:
        messages = self.scenario.deliveries[delivery]
        lines = tuple(rename(line, swap(delivery)) for line in outcome.lines)
        named = replace(outcome, lines=lines)
        batch = [self.scenario.messages[position] for position in messages]
        if any(collect(self.subject.laws.at_end(self.world, batch, named))):
            self.broken = True
        if not self._deleted(messages, outcome):
            self.over[delivery] = True

    def _deleted(self, messages: tuple[int, ...], outcome: HandlerEnd) -> int:
        known = self.scenario.messages
        gone = {position for position in messages if known[position].sqs_id not in outcome.failed}
        return 0 if outcome.error else sum(1 << position for position in gone)

    def _look(self) -> None:
        messages = self.scenario.messages
        waiting = {one.message_id for bit, one in enumerate(messages) if not self.acknowledged >> bit & 1}
        requests = {one.message_id for one in messages}
        laws = self.subject.laws.in_state(self.world, waiting, requests, self.now)
        if self.scenario.checked(collect(laws)):
            self.broken = True


@capture_logs()
def enumerate_schedules(scenario: Scenario, subject: ExploredSubject) -> Count:
    """Run every schedule, one by one."""
    system = System(scenario, subject)
    aftermath = Aftermath(system)
    schedules = violating = 0
    ends: set[tuple[str, int, int, int]] = set()
    taken: list[int] | None = []
    while taken is not None:
        schedule = _Schedule(scenario, subject, scenario.world, scenario.faults, taken)
        schedule.run()
        schedules += 1
        gone = (GONE,) * len(scenario.deliveries)
        number = system.world_number(schedule.world.text)
        end = ExploredState(number, schedule.expiries, schedule.faults, schedule.acknowledged, (), gone)
        violating += bool(schedule.broken or aftermath(end))
        world = anonymous(schedule.world.text, scenario)
        ends.add((world, schedule.expiries, schedule.faults, schedule.acknowledged))
        taken = _next(taken, schedule.ways)
    return Count(schedules, violating, frozenset(ends))


def anonymous(world: str, scenario: Scenario) -> str:
    """Return one world for all that differ by the names of identical deliveries: the first in the alphabet."""
    kinds = scenario.kinds
    exchanges = (
        exchange
        for exchange in permutations(range(len(kinds)))
        if all(kinds[old] == kinds[new] for old, new in enumerate(exchange))
    )
    return min(rename_lines(world, exchange) for exchange in exchanges)


def _next(taken: list[int], ways: list[int]) -> list[int] | None:
    """Return the steps that lead to the next schedule, depth first; None after the last."""
    choices = [*taken, *([0] * (len(ways) - len(taken)))]
    while choices:
        if choices[-1] + 1 < ways[len(choices) - 1]:
            choices[-1] += 1
            return choices
        choices.pop()
    return None
