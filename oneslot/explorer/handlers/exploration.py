"""`explore`: a handler, its messages and its tables in; a verdict with the shortest counterexample out.

The levels go from what happens every day to what is rare, and stop at the first breach.
"""

from __future__ import annotations

import functools
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from oneslot.explorer.aftermath import MOST_SENT, Aftermath, Delivered
from oneslot.explorer.counterexample import Move, counterexample, replay
from oneslot.explorer.execution.process import capture_logs
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.faults import PERFORMED
from oneslot.explorer.handlers.asked import Asked
from oneslot.explorer.handlers.aws import intercepted
from oneslot.explorer.handlers.effects import Left
from oneslot.explorer.handlers.given import USUAL_COPIES, Given
from oneslot.explorer.handlers.laws import HandlerLaws, Law, View, as_if_once, without_values
from oneslot.explorer.handlers.modules import RECEIVES, RECORDS, Code, found
from oneslot.explorer.handlers.process import AT_IMPORT, OWN_FAILURES, RunningHandler, running
from oneslot.explorer.handlers.program import ServerError
from oneslot.explorer.handlers.reached import ANSWERED, is_write
from oneslot.explorer.handlers.repeats import Repeats
from oneslot.explorer.handlers.scenario import (
    Direct,
    HandlerScenario,
    HandlerSubject,
    Numbered,
    batches_of,
    deliverer_of,
    group_of,
    messages_of,
)
from oneslot.explorer.handlers.services import EXPIRE, AccountServices, handler_faults
from oneslot.explorer.handlers.surroundings.chance import LOG_STREAM
from oneslot.explorer.handlers.surroundings.takeover import taken_over
from oneslot.explorer.handlers.templates.template import tables_of
from oneslot.explorer.handlers.verdict import Explored, Kind, Level, Result, levels_of, over_budget
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.services.stand_in import PARAMETERS, SECRETS
from oneslot.explorer.system import System
from oneslot.explorer.world import ApiCall

LAMBDA = {
    "AWS_ACCESS_KEY_ID": "explorer",
    "AWS_SECRET_ACCESS_KEY": "explorer",
    "AWS_SESSION_TOKEN": "explorer",
    "AWS_REGION": "eu-west-2",
    "AWS_DEFAULT_REGION": "eu-west-2",
    "AWS_LAMBDA_FUNCTION_NAME": "explored",
    "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
    "AWS_LAMBDA_LOG_GROUP_NAME": "explored",
    "AWS_LAMBDA_LOG_STREAM_NAME": LOG_STREAM,
    "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
    "AWS_EC2_METADATA_DISABLED": "true",
    "HOME": "/home/sbx_user1051",
    "LANG": "en_US.UTF-8",
    "PATH": "/var/lang/bin:/usr/local/bin:/usr/bin/:/bin:/opt/bin",
    "TZ": ":UTC",
    "POWERTOOLS_TRACE_DISABLED": "true",
    "OPENBLAS_MAIN_FREE": "1",  # without it numpy calls os.putenv when it is imported, which Python cannot see again
}
"""All variables of a handler beside its template's: Lambda, "Defined runtime environment variables". Its home is not there."""
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
UNSEEN_REMEDY = "every invocation leaves another environment. Make it within the handler"
CLIENT_ERROR = 400
MOST_DRAWN = 400
"""The most single deliveries with different random numbers that are tried for "as if once"."""
ANOTHER_TIME_MS = 4_567_890
"""From the start to a time that shares no hour, minute, second or millisecond with it, and lets no booking expire."""
DAY_MS = 24 * 60 * 60 * 1000
NO_LEVEL = "nothing is explored where messages come again after a fault alone, and faults=0. Give faults=1 or more."
ALONE = "each message is delivered once, without any fault"
_RESOURCES = ("TableName", "Bucket", "QueueUrl", "TopicArn", "FunctionName", "stateMachineArn", "StreamName")
"""The parameters that name what a call changes."""


def explore(
    handler: str, *, progress: Callable[[str, int, int], None] = lambda level, states, waiting: None, **options: Any
) -> Result:
    """Explore an unmodified handler. `options` are the attributes of `Given`, by their names.

    Raises `NotExplorable`, naming what the explorer does not have and the remedy, and `TypeError` for an unknown name.
    """
    return explore_given(Given(handler, **options), progress)


def explore_given(
    given: Given, progress: Callable[[str, int, int], None] = lambda level, states, waiting: None
) -> Result:
    """Explore an unmodified handler, as `explore` does."""
    return exploration_of(given, progress).run()


def exploration_of(
    given: Given, progress: Callable[[str, int, int], None] = lambda level, states, waiting: None
) -> Exploration:
    """Return the exploration of a handler, before its first delivery."""
    ledger = (given.env or {}).get("ONESLOT_LEDGER_TABLE")  # where Oneslot counts its claims and keeps their leases
    own = {f"{ledger}.{name}" for name in ("consumption_count", "lease_until")} if ledger else set()
    code = found(given.handler, given.folders)
    splits = given.reports_failures or given.bisects
    records = messages_of(given.messages, given.event, fifo=given.fifo, splits=splits)
    batch = given.batch if given.event is None else len(records)
    tables = tables_of(given.tables)
    groups = set(map(group_of, records))
    values = {PARAMETERS: given.parameters, SECRETS: given.secrets}
    return Exploration(
        code=code,
        laws=HandlerLaws(
            tables,
            _laws(given.law),
            {*given.ignore, *own},
            given.acknowledges_only_finished,
            given.answers_equal,
            left=Left(together=batch > 1),
        ),
        scenario=HandlerScenario(
            name=given.handler,
            sentence="its messages, as their source delivers them",
            messages=records,
            deliveries=tuple(
                one for one in batches_of(records, batch) for _ in range(1 if given.fifo else given.copies)
            ),
            tables=tables,
            services=AccountServices(
                tables,
                given.answers or {},
                {kind: value for kind, value in values.items() if value is not None},
                depends_on_time=code.note_clock,
            ),
            before=given.rows or {},
            objects=given.objects or {},
            faults=given.faults,
            choices=functools.partial(handler_faults, ordered=any(groups), names=code.names),
            fifo=given.fifo,
            queue=given.queue,
            expires=EXPIRE if any(table.time_to_live for table in tables.values()) else None,
            deliverer=deliverer_of(records),
            timeout_ms=given.timeout * 1000,
            visibility_ms=given.visibility * 1000,
            redeliveries=given.receives,
            reports_failures=given.reports_failures,
        ),
        environment={**LAMBDA, "LAMBDA_TASK_ROOT": str(code.roots[0]), **(given.env or {})},
        possible=levels_of(fifo=given.fifo, groups=len(groups)),
        budget=given.budget,
        progress=progress,
    )


def refuse_import(code: Code, error: str) -> None:
    """Raise `NotExplorable`, with the remedy, if the handler's module failed, or one that the handler imports."""
    kind = error.removeprefix(f"{AT_IMPORT}: ").partition(":")[0]
    if error.startswith(AT_IMPORT) or kind in IMPORT_REMEDIES:
        remedy = IMPORT_REMEDIES.get(kind, _FOUND_BY)
        lists = [root / "requirements.txt" for root in code.roots if (root / "requirements.txt").is_file()]
        if kind == "ModuleNotFoundError" and lists:
            remedy = f"Run `pip install -r {lists[0]}`."
        raise NotExplorable(f"{code.name} fails {error}. {remedy}")


def _laws(law: Law | Sequence[Law] | None) -> Sequence[Law]:
    if law is None:
        return (as_if_once,)
    return (law,) if callable(law) else tuple(law)


@dataclass
class SingleDeliveries:
    """Deliveries without a fault, until each message is acknowledged: their positions, and the view after each.

    `is_clean`: whether no delivery that failed has changed anything.
    """

    positions: list[int] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    is_clean: bool = True


@dataclass
class Exploration:
    """A handler, its scenario and its laws, and what is known of them so far."""

    code: Code
    laws: HandlerLaws
    scenario: HandlerScenario
    environment: dict[str, str]
    possible: tuple[Level, ...]
    budget: float
    progress: Callable[[str, int, int], None]
    levels: list[Explored] = field(default_factory=list)
    known: System | None = None
    known_with: tuple[bool, int] = (False, -1)
    wrote: set[int] = field(default_factory=set)
    """The messages for which a single delivery makes a write that AWS accepts."""
    silent: set[tuple[int, int]] = field(default_factory=set)
    """The messages that make none after another one, each with the other one."""
    rejected: int = 0
    """The HTTP status of a single delivery that a client takes for a mistake of its own; 0 without one."""
    raised: str = ""
    """The last exception within the handler at a single delivery, whether or not it is caught."""

    def run(self) -> Result:
        """Run without faults first, then level by level."""
        started = time.perf_counter()
        with self.surrounded():
            repeats = Repeats(lambda position: self._deliver_first(position=position), len(self.scenario.messages))
            repeats.check()
            # A library is imported once in a process. What it reads then is not what the handler reads.
            if not self._bears_following():
                repeats.forget()
            repeats.check()
            self._refuse_guess()
            self.code.forget_reads()
            self._learn_receives()
            self.raised = self._last_raised()
            result = self._fails_without_faults(started) or self._explored(started)
            repeats.check()
        return replace(
            result,
            levels=tuple(self.levels),
            seconds=time.perf_counter() - started,
            outside=tuple(f"{effect} ({count} times)" for effect, count in sorted(self.laws.left.twice.items())),
            masked=tuple(sorted(self.laws.masks.names)),
            raised=self.raised,
            reads_environment=self.code.reads_environment,
        )

    @contextmanager
    def surrounded(self) -> Iterator[None]:
        """Take over what the handler perceives."""
        with ExitStack() as stack:
            stack.enter_context(taken_over(running, self.environment, self.code.roots))
            stack.enter_context(intercepted(running))
            stack.enter_context(self.code.importable())
            yield

    def deliver_made(self, scenario: HandlerScenario, asked: Asked, *, is_watched: bool) -> Delivered:
        """Deliver the first message of another scenario once, without a fault, and note what it asks of its event."""
        self.code.forget_reads()
        self.code.asked, self.code.is_watched = asked, is_watched
        try:
            return self._deliver_first(scenario, keeps_answer=True)
        finally:
            self.code.asked, self.code.is_watched = None, False

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
            timeout_ms=self.scenario.timeout_ms,
            reports_failures=self.scenario.reports_failures,
            keeps_answer=self.laws.answers_equal,
            counts_receives=self.code.reads_receives,
        )

    def _deliver_first(
        self,
        scenario: HandlerScenario | None = None,
        position: int = 0,
        receives: int = 1,
        *,
        keeps_answer: bool = False,
    ) -> Delivered:
        scenario = scenario or self.scenario
        reports = scenario.reports_failures
        subject = replace(self.subject, identified=True, counts_receives=True, reports_failures=reports)
        subject = replace(subject, keeps_answer=True) if keeps_answer else subject
        system = System(scenario, subject)
        return Aftermath(system).deliver(system.start.world, position, self.scenario.start, position, receives)

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

    def _learn_receives(self) -> None:
        """Note that the handler reads its receive count if a first delivery with another one does other things."""
        for position in range(len(self.scenario.messages)):
            once, later = (self._deliver_first(None, position, receives) for receives in (1, 2))
            if (once.calls, once.outcome) != (later.calls, later.outcome):
                self.code.looked_up.add(RECEIVES)

    def _last_raised(self) -> str:
        self.code.is_watched = True
        self._deliver_first()
        self.code.is_watched = False
        return self.code.last_words[0]

    def _fails_without_faults(self, started: float) -> Result | None:
        """Deliver each message once, in every order, with random numbers drawn both ways; learn what that leaves."""
        count = len(self.scenario.messages)
        orders = self.scenario.orders
        learned: list[tuple[SingleDeliveries, SingleDeliveries]] = []
        for order in orders:
            for drawn_high in self._draws(count, len(orders)):
                runs: list[SingleDeliveries] = []
                for later, name in ((0, 10), (self._another_time, 10 + count * self.scenario.redeliveries + MOST_SENT)):
                    high = frozenset((name + position, number) for position, number in drawn_high)
                    once = self._delivered_once(order, self.scenario.start + later, name, high)
                    if isinstance(once, Result):
                        return once
                    runs.append(once)
                learned.append((runs[0], runs[1]))
                if self._possible and _is_over(started + self.budget):
                    return self._not_finished(self._possible[0])
        is_clean = any(first.is_clean for first, _ in learned)
        for first, second in learned:
            if first.is_clean or not is_clean:
                # A row that expires between the two times may cost the first run more deliveries: compare the last ones.
                count = min(len(first.views), len(second.views))
                self.laws.learn(first.positions[-count:], first.views[-count:], second.views[-count:])
        self.laws.settle()
        return None

    @property
    def _another_time(self) -> int:
        """From the start to another time (ms): on another day if the schedules may reach one, for dates to be masked."""
        longest = self.scenario.timeout_ms + self.scenario.visibility_ms * (self.scenario.redeliveries + 1)
        return ANOTHER_TIME_MS + (DAY_MS if longest > DAY_MS // 3 else 0)

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

        "When a Lambda function encounters an error while processing a batch, all messages in that batch become visible in
        the queue again by default" (Handling errors for an SQS event source in Lambda,
        https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html). So a handler may fail on purpose
        until another message has come.
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

    def _explored(self, started: float) -> Result:
        if not self._possible:
            raise NotExplorable(f"{self.code.name}: {NO_LEVEL}")
        for level in self._possible:
            left = self.budget - (time.perf_counter() - started)
            result = self._level(level, left) if left > 0 else None
            if result is not None and result.kind == "breaks":
                return result
            if result is None or result.kind == "not finished":
                return self._not_finished(level)
        return self._completed()

    def _completed(self) -> Result:
        """Return the verdict once every level is complete: without a write, the handler holds only if it has none."""
        reached, why = self.code.reached, ""
        if places := reached.unwritten:
            why = f"without a fault it does not write: {', '.join(places)}"
        elif passed_by := reached.passed_by:
            why = f"no delivery runs {', '.join(passed_by)}"
        elif self.rejected and not self.wrote:
            why = f"it answers {self.rejected}"
        if why:
            after = f", after {self.raised.partition(': An error occurred (')[0]}" if self.raised else ""
            why, places = f"is not judged, because {why}{after}", () if self.rejected else places
            return Result(self.code.name, "needs an event", why, unwritten=places)
        text, done = f"holds at every level{self._unwritten()}", reached.done
        written = tuple(one for place, one in reached.writes.items() if place in done)
        unwritten = tuple(one for place, one in reached.writes.items() if place in reached.wanted - done)
        silent = [f"message {one + 1} changes nothing after message {other + 1}" for one, other in sorted(self.silent)]
        named: Any = {
            "remark": f"Without a fault, {', '.join(silent)}." if silent else "",
            "unrun": reached.unrun,
            "unmet": reached.unmet,
            "written": written,
            "unwritten": unwritten,
        }
        return Result(self.code.name, "holds", text, **named)

    @property
    def _copies(self) -> int:
        return self.scenario.deliveries.count(self.scenario.deliveries[0])

    @property
    def _possible(self) -> list[Level]:
        return [level for level in self.possible if self.scenario.faults or not level.faulty]

    def _not_finished(self, level: Level) -> Result:
        text = over_budget(self._possible, level, self._copies, self.scenario.faults)
        verdict = f"{text}{self._unwritten()}{self._unseen()}"
        return Result(self.code.name, "not finished", verdict, level=level.name, remedy=self._smaller())

    def _smaller(self) -> str:
        """Return what would complete the next level."""
        scenario = self.scenario
        possible = {
            "fewer messages": len(scenario.messages) > 1,
            "copies=2": self._copies > USUAL_COPIES,
            "faults=1": scenario.faults > 1,
        }
        others = [one for one, is_so in possible.items() if is_so]
        return f"To complete the next level, raise the budget{', or give ' if others else ''}{', '.join(others)}."

    def _unseen(self) -> str:
        """Return a sentence about what kept the explorer from finding two environments equal."""
        return f". {self.code.unseen}, which the explorer cannot look into: {UNSEEN_REMEDY}" if self.code.unseen else ""

    def _unwritten(self) -> str:
        """Return the end of a sentence if a message, delivered alone, writes nothing."""
        without = [str(position + 1) for position in range(len(self.scenario.messages)) if position not in self.wrote]
        if not self.wrote:
            return ", and writes nothing"
        return f", but message {' and '.join(without)} writes nothing" if without else ""

    def _level(self, level: Level, seconds: float) -> Result:
        started = time.perf_counter()
        over = functools.partial(_is_over, started + seconds)
        while True:
            knows = self._knows()
            scenario = replace(
                self.scenario,
                apart=level.apart,
                faults=self.scenario.faults if level.faulty else 0,
                timed=self.code.reads_clock,
            )
            # What is known of other subjects, and of worlds that keep less of the last writes, does not serve.
            known = self.known if (knows[0], knows[-1]) == self.known_with else None
            explorer = Explorer(scenario, self.subject, known)
            self.known, self.known_with = explorer.system, (knows[0], knows[-1])
            explored = explorer.run(True, functools.partial(self.progress, level.name), over)
            if knows == self._knows():
                break
        texts, calls = explorer.system.requests.texts, self.code.reached.calls
        self.code.reached.met |= {calls[text] for one in explorer.system.offered if (text := texts[one]) in calls}
        self.levels.append(
            Explored(
                level.name,
                explored.complete,
                explored.states,
                explored.schedules,
                explored.executions,
                time.perf_counter() - started,
            )
        )
        if not explored.breaches:
            kind: Kind = "holds" if explored.complete else "not finished"
            return Result(self.code.name, kind, kind, level=level.name)
        breach = explored.breaches[0]
        kept = counterexample(explorer.system, breach)
        self.code.is_watched = True
        shown = replay(kept, scenario, self.subject)
        met = _met_call(kept.moves)
        is_alone = self._copies == 1 and not level.faulty
        likely = ALONE if is_alone else level.likely.format(by=scenario.deliverer)
        verdict = f'breaks at level "{level.name}" ({likely}): {"; ".join(dict.fromkeys(breach.laws))}'
        return Result(
            self.code.name,
            "breaks",
            verdict,
            "\n".join(shown.lines),
            len(kept.moves),
            level.name,
            line=self.code.line_of(met) if met else "",
            short="\n".join(shown.short),
            cause=_cause(breach.laws, met),
            schedule=tuple((move.delivery, move.what, _operation(move.call)) for move in kept.moves),
        )

    def _knows(self) -> tuple[bool, bool, bool, int]:
        reads = self.code.reads_identity, self.code.reads_clock, self.code.reads_receives
        return *reads, len(self.scenario.services.lagging)


def _met_call(moves: Sequence[Move]) -> str:
    """Return the call that the fault met, or else the path's last; empty if it has none."""
    calls = [move for move in moves if move.call]
    met = [move for move in calls if move.what != PERFORMED.name]
    return (met or calls)[-1].call if calls else ""


def _cause(laws: Sequence[str], call: str) -> str:
    """Return what breaks, and at which call, without keys, values and lines."""
    broken = "; ".join(sorted({without_values(law) for law in laws}))
    if not call:
        return broken
    operation, parameters = ApiCall(call).parts
    resource = next((f" {parameters[name]}" for name in _RESOURCES if name in parameters), "")
    return f"{broken}; at {operation}{resource}"


def _operation(call: str) -> str:
    return ApiCall(call).parts[0] if call else ""


def _is_over(ends: float) -> bool:
    return time.perf_counter() > ends
