"""A handler without a fault: what single deliveries leave and fail with, and whether equal ones repeat.

The schedules are compared with what they leave. A handler does not repeat if it leaves a mark outside of its modules, or
reads a time or an id that the explorer does not control: equal deliveries in fresh environments then make other calls,
however much ran in between. Without that check the first run's mark would stay for all later ones, and the handler would
"hold".
"""

import json
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from types import ModuleType
from typing import Any

from oneslot.explorer.aftermath import MOST_SENT, Aftermath, Delivered
from oneslot.explorer.execution.behaviour import COLD, KEEP_REMEDY
from oneslot.explorer.execution.process import capture_logs
from oneslot.explorer.handlers.effects import leaves
from oneslot.explorer.handlers.laws import HandlerLaws, View, as_if_once
from oneslot.explorer.handlers.modules import RECEIVES, RECORDS, Code
from oneslot.explorer.handlers.process import AT_IMPORT, OWN_FAILURES, RunningHandler
from oneslot.explorer.handlers.program import ServerError
from oneslot.explorer.handlers.reached import ANSWERED, is_write
from oneslot.explorer.handlers.scenario import Direct, HandlerScenario, HandlerSubject, Numbered
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.services.objects import BUCKET
from oneslot.explorer.system import System
from oneslot.explorer.world import ApiCall, from_text

_FOUND_BY = "Its folders are those of path=, and its variables those of env=."
IMPORT_REMEDIES = {
    **dict.fromkeys(
        ("SyntaxError", "IndentationError", "TabError"),
        f"Python {platform.python_version()} cannot read the file. Correct it, or explore with the function's Python.",
    ),
    **dict.fromkeys(("ImportError", "ModuleNotFoundError"), f"Install what it imports here. {_FOUND_BY}"),
}
"""What helps by the exception that an import raises; `_FOUND_BY` for any other."""
UNREAD = "It read no Records. If its event is not of SQS, give it whole with event=..."
CLIENT_ERROR = 400
MOST_DRAWN = 400
"""The most single deliveries with different random numbers that are tried for "as if once"."""
ANOTHER_TIME_MS = 4_567_890
"""From the start to a time that shares no hour, minute, second or millisecond with it, and lets no booking expire."""
MOST_WARM = 12
"""The deliveries in one environment among which one writes what earlier ones kept: batches often have ten entries."""
KEPT = (
    "keeps work in memory: only invocation {number} in one environment calls {called}. Lambda may end the environment before, "
    "and the work is lost. Write before you return"
)
DAY_MS = 24 * 60 * 60 * 1000
KEEPS = f"The handler keeps something outside its modules: {{difference}}. {KEEP_REMEDY}"
READS = (
    "The handler reads something that changes from run to run, which the explorer does not control: {difference}. "
    "Take it from the message, from a table, or from the standard library's clocks and random numbers."
)


def refuse_import(code: Code, error: str) -> None:
    """Raise `NotExplorable`, with the remedy, if the handler's module failed, or one that the handler imports."""
    kind = error.removeprefix(f"{AT_IMPORT}: ").partition(":")[0]
    if error.startswith(AT_IMPORT) or kind in IMPORT_REMEDIES:
        remedy = IMPORT_REMEDIES.get(kind, _FOUND_BY)
        lists = [root / "requirements.txt" for root in code.roots if (root / "requirements.txt").is_file()]
        if kind == "ModuleNotFoundError" and lists:
            remedy = f"Run `pip install -r {lists[0]}`."
        raise NotExplorable(f"{code.name} fails {error.rstrip('.')}. {remedy}")


@dataclass
class SingleDeliveries:
    """Deliveries without a fault, until each message is acknowledged: their positions, and the view after each.

    `is_clean`: whether no delivery that failed has changed anything.
    """

    positions: list[int] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    is_clean: bool = True


@dataclass(kw_only=True)
class Faultless:
    """A handler, its scenario and its laws, and what single deliveries without a fault say of it.

    Attributes:
        wrote: the messages for which a single delivery makes a write that AWS accepts.
        rejected: the HTTP status of a single delivery that a client takes for a mistake of its own; 0 without one.
        raised: the last exception within the handler at a single delivery, whether or not it is caught.
        silent: the messages that make none after another one, each with the other one.
        changed: the rows and objects that the last first delivery changed: the table or the bucket, and the key.
        firsts: what the first delivery of each message did in a fresh environment.
        names: the names in each module before these.
    """

    code: Code
    laws: HandlerLaws
    scenario: HandlerScenario
    wrote: set[int] = field(default_factory=set)
    rejected: int = 0
    raised: str = ""
    silent: set[tuple[int, int]] = field(default_factory=set)
    changed: frozenset[tuple[str, str]] = frozenset()
    firsts: dict[int, Delivered] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def subject(self) -> HandlerSubject:
        """Return the subject. Its deliveries differ once the code has read an id or a random number."""
        return HandlerSubject(
            name=self.code.name,
            run=lambda *_: {},
            laws=self.laws,
            process=RunningHandler,
            identified=self.code.reads_identity,
            code=self.code,
            scenario=self.scenario,
            keeps_answer=self.laws.answers_equal,
            counts_receives=self.code.reads_receives,
        )

    def _deliver_first(
        self, scenario: HandlerScenario | None = None, position: int = 0, receives: int = 1, made: int | None = None
    ) -> Delivered:
        """Deliver a message once. `made`: the number of a made event, whose answer is kept."""
        scenario, keeps = scenario or self.scenario, made is not None or self.laws.answers_equal
        subject = replace(self.subject, scenario=scenario, keeps_answer=keeps, identified=True, counts_receives=True)
        system, name = System(scenario, subject), position if made is None else made
        delivered = Aftermath(system).deliver(system.start.world, position, self.scenario.start, name, receives)
        texts = [{*system.worlds[one].text.splitlines()} for one in (system.start.world, delivered.world)]
        lines = map(from_text, texts[0] ^ texts[1])
        self.changed = frozenset((at, key) for kind, at, key, _ in lines if kind == "item" or at.startswith(BUCKET))
        return delivered

    def _check_repeats(self) -> None:
        """Deliver each message again, and compare with the first time. Raises `NotExplorable`."""
        self.names = self.names or {name: tuple(vars(one)) for name, one in _modules()}
        for position in range(len(self.scenario.messages)):
            again = self._deliver_first(position=position)
            difference = _difference(self.firsts.setdefault(position, again), again)
            if difference:
                changes = _difference(again, self._deliver_first(position=position))
                marks = "".join(f" ({mark})" for mark in self._removed_marks())
                raise NotExplorable((READS if changes else KEEPS).format(difference=difference + marks))

    def _removed_marks(self) -> list[str]:
        """Remove what libraries hold under new names, so that no later exploration finds it; return the names."""
        new = [
            (module, name)
            for title, module in _modules()
            for name in sorted(set(vars(module)).difference(self.names.get(title, vars(module))))
            if not isinstance(getattr(module, name), (ModuleType, type)) and not callable(getattr(module, name))
        ]
        for module, name in new:
            delattr(module, name)
        return [f"{module.__name__}.{name}" for module, name in new]

    def _bears_following(self) -> bool:
        """Return whether the handler bears an event whose lookups are followed, and note it: some encoders do not."""
        if self._deliver_first().outcome.error is not None:
            self.code.follows = False
            self.code.follows = self._deliver_first().outcome.error is not None
        return self.code.follows

    def _refuse_guess(self) -> None:
        """Raise `NotExplorable` if the handler takes a message, as it was given, for its whole event."""
        first = self.scenario.messages[0]
        unread = replace(self.scenario, reports_failures=False)  # whatever it answers
        as_body = self._deliver_first(unread)
        if RECORDS in self.code.looked_up or not (isinstance(first, Numbered) and first.is_guess):
            return
        whole = replace(unread, messages=(Direct(first.message_id, first.body),), deliveries=((0,),))
        as_event = self._deliver_first(whole)
        if as_event.outcome.error is None and (as_body.outcome.error or as_body.calls != as_event.calls):
            raise NotExplorable(
                f"{self.code.name} reads no Records and takes message 1 for its whole event. Give it with event=..., or "
                "as text if it is the body of a message of SQS."
            )

    def _keeps_work(self) -> Result | None:
        """Deliver the first message again and again in one environment. Return the verdict if one delivery writes for others.

        It writes what none has written, and more than in a fresh environment. Lambda may end one after any invocation:
        https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html.
        """
        system, environment, done = System(self.scenario, replace(self.subject, identified=True)), COLD, set[ApiCall]()
        aftermath, world, at = Aftermath(system), system.start.world, self.scenario.start
        with suppress(NotExplorable):  # what only a later invocation calls may have no stand-in
            for name in range(MOST_WARM):
                warm = aftermath.deliver(world, 0, at, name, environment=environment)
                fresh = aftermath.deliver(world, 0, at, name) if environment else warm
                written, usual = ([one for one in each.calls if is_write(one.parts[0])] for each in (warm, fresh))
                kept = [one for one in written if one not in done and one not in usual]
                if kept and len(written) > len(usual):
                    operation, place = self.code.reached.calls.get(kept[0].text, (kept[0].parts[0], ""))
                    text = KEPT.format(number=name + 1, called=f"{operation} at {self.code.reached.named(place)}")
                    more: dict[str, Any] = {"line": place, "cause": f"keeps work in memory; at {operation}"}
                    return Result(self.code.name, "breaks", text, level="once", fails_anyway=True, **more)
                if not (warm.outcome.dirty or environment) or not system.acknowledges((0,), warm.outcome):
                    break
                done.update(written)
                world, environment = warm.world, system.left_by(system.behaviour((0,), name), warm.node)
        return None

    def _learn_receives(self) -> None:
        """Note that the handler reads its receive count if a first delivery with another one does other things."""
        for position in range(len(self.scenario.messages)):
            once, later = (self._deliver_first(None, position, receives) for receives in (1, 2))
            if (once.calls, once.outcome) != (later.calls, later.outcome):
                self.code.looked_up.add(RECEIVES)

    def _fails_without_faults(self, over: Callable[[], Result | None]) -> Result | None:
        """Deliver each message once, in every order, with random numbers drawn both ways; learn what that leaves.

        `over`: returns the verdict if the budget has ended.
        """
        count = len(self.scenario.messages)
        orders = self.scenario.orders
        # On another day if the schedules may reach one, for dates to be masked.
        longest = self.scenario.timeout_ms + self.scenario.visibility_ms * (self.scenario.redeliveries + 1)
        another_time = ANOTHER_TIME_MS + (DAY_MS if longest > DAY_MS // 3 else 0)
        learned: list[tuple[SingleDeliveries, SingleDeliveries]] = []
        for order in orders:
            for drawn_high in self._draws(count, len(orders)):
                runs: list[SingleDeliveries] = []
                for later, name in ((0, 10), (another_time, 10 + count * self.scenario.redeliveries + MOST_SENT)):
                    high = frozenset((name + position, number) for position, number in drawn_high)
                    once = self._delivered_once(order, self.scenario.start + later, name, high)
                    if isinstance(once, Result):
                        return once
                    runs.append(once)
                learned.append((runs[0], runs[1]))
                if (unfinished := over()) is not None:
                    return unfinished
        is_clean = any(first.is_clean for first, _ in learned)
        for first, second in learned:
            if first.is_clean or not is_clean:
                # A row that expires between the two times may cost the first run more deliveries: compare the last ones.
                count = min(len(first.views), len(second.views))
                self.laws.learn(first.positions[-count:], first.views[-count:], second.views[-count:])
        self.laws.settle()
        return None

    def _draws(self, messages: int, orders: int) -> Iterator[list[tuple[int, int]]]:
        """Yield each choice of the random numbers that are drawn high: the position of a message, and a number."""
        yield []
        drawn = list(product(range(messages), range(1, self.code.draws + 1)))
        if orders << len(drawn) > MOST_DRAWN:
            if as_if_once in self.laws.laws:
                raise NotExplorable(
                    f"{self.code.name} draws {len(drawn)} random numbers for {messages} messages, so single deliveries can "
                    "end in too many ways. Give fewer messages, or a law."
                )
            return
        for chosen in list(product((False, True), repeat=len(drawn)))[1:]:
            yield [one for one, is_high in zip(drawn, chosen, strict=True) if is_high]

    def _delivered_once(
        self, order: Sequence[int], now: int, name: int, high: frozenset[tuple[int, int]]
    ) -> SingleDeliveries | Result:
        """Deliver each message until it is acknowledged. Return what that leaves, or the verdict that one always fails.

        What failed becomes visible again (https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html), so
        a handler may fail on purpose until another message has come.
        """
        scenario = self.scenario
        services = replace(scenario.services, high=high, first_id=name)
        system = System(replace(scenario, services=services), replace(self.subject, identified=True))
        world, once, waiting = system.start.world, SingleDeliveries(), [(1, position) for position in order]
        while waiting:
            receives, position = waiting.pop(0)
            identity, at = (
                name + position + (receives - 1) * len(order),
                now + (receives - 1) * (scenario.visibility_ms + 1),
            )
            delivered = Aftermath(system).deliver(world, position, at, identity, receives)
            is_acknowledged = bool(system.acknowledges((position,), delivered.outcome))
            if not is_acknowledged and receives >= scenario.redeliveries:
                if not self.code.is_watched:
                    self.code.is_watched = True
                    with capture_logs():
                        return self._delivered_once(order, now, name, high)
                return self._fails(position, delivered.outcome.error)
            if not is_acknowledged:
                once.is_clean &= delivered.world == world
                waiting.insert(0 if scenario.groups[position] else len(waiting), (receives + 1, position))
            world = delivered.world
            if any(
                is_write(request.parts[0]) and system.observations.texts[observation].startswith(ANSWERED)
                for request, (_, observation, _) in zip(delivered.calls, delivered.steps, strict=True)
            ):
                self.wrote.add(position)
            elif once.positions and is_acknowledged:
                self.silent.add((position, once.positions[-1]))
            if self.code.status >= CLIENT_ERROR:
                self.rejected = self.code.status
            once.positions.append(position)
            once.views.append(View(system.worlds[world], scenario.tables, delivered.outcome.answer))
        world, _, sent = Aftermath(system).drained(world, now, name + len(order) * scenario.redeliveries)
        for one in sent:
            once.positions.append(order[-1])
            once.views.append(View(system.worlds[one.delivered.world], scenario.tables, one.delivered.outcome.answer))
        return once

    def _fails(self, position: int, error: str | None) -> Result:
        """Return the verdict on a message that fails without a fault, with the last words of its watched invocation."""
        raised, logged = self.code.last_words
        if error is None:
            error = f"it reports the message as failed{f', after {raised}' if raised else ''}"
        if error.startswith(ServerError.__name__) and raised:
            error = f"{error}, after {raised}"
        refuse_import(self.code, error)
        message = self.scenario.messages[position]
        lines = [f"Its last line of log: {logged}"] if logged else []
        if RECORDS not in self.code.looked_up and isinstance(message, Numbered) and message.is_guess:
            lines.append(UNREAD)
        text = f"fails when nothing goes wrong, at message {position + 1}: {error}"
        cause = f"fails without a fault: {error.partition(':')[0]}"
        anyway = error.startswith(OWN_FAILURES)
        return Result(self.code.name, "breaks", text, "\n".join(lines), level="once", cause=cause, fails_anyway=anyway)


def _modules() -> list[tuple[str, ModuleType]]:
    return [(name, one) for name, one in list(sys.modules.items()) if type(one) is ModuleType]


def _difference(first: Delivered, again: Delivered) -> str:
    """Return what is first different between two equal deliveries; empty if nothing is."""
    for one, other in zip(first.calls, again.calls, strict=False):
        (name, parameters), (other_name, others) = one.parts, other.parts
        if name != other_name:
            return f"it calls {name} in the first of equal deliveries, and {other_name} in a later one"
        found = dict(leaves(others))
        for path, value in leaves(parameters):
            if found.get(path) != value:
                then = json.dumps(found.get(path), default=repr)
                return f"{name}{path} is {json.dumps(value, default=repr):.60}, and {then:.60} in an equal delivery"
        if one != other:
            return f"{name} has other parameters in an equal delivery"
    if len(first.calls) != len(again.calls):
        longer = max((first, again), key=lambda one: len(one.calls))
        name, _ = longer.calls[min(len(first.calls), len(again.calls))].parts
        return f"it calls {name} only in {'the first' if longer is first else 'a later'} of equal deliveries"
    ends = [(one.outcome.failed, one.outcome.error, one.outcome.answer) for one in (first, again)]
    return "" if ends[0] == ends[1] else "equal deliveries end differently"
