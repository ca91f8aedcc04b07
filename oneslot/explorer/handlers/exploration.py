"""`explore`: a handler, its messages and its tables in; a verdict with the shortest counterexample out.

The levels go from what happens every day to what is rare, and stop at the first breach.
"""

import functools
import gc
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any
from unittest import mock

import boto3

from oneslot.explorer.aftermath import Delivered
from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.faults import PERFORMED
from oneslot.explorer.handlers.asked import Asked, At
from oneslot.explorer.handlers.aws import EXPIRE, AccountServices, handler_faults, intercepted
from oneslot.explorer.handlers.effects import Left, leaves
from oneslot.explorer.handlers.faultless import Faultless
from oneslot.explorer.handlers.given import USUAL_COPIES, Given
from oneslot.explorer.handlers.laws import HandlerLaws, as_if_once, without_values
from oneslot.explorer.handlers.modules import found
from oneslot.explorer.handlers.process import running
from oneslot.explorer.handlers.scenario import HandlerScenario, batches_of, deliverer_of, group_of, messages_of
from oneslot.explorer.handlers.surroundings.chance import LOG_STREAM
from oneslot.explorer.handlers.surroundings.environment import sealed
from oneslot.explorer.handlers.surroundings.takeover import taken_over
from oneslot.explorer.handlers.templates.template import tables_of
from oneslot.explorer.handlers.verdict import Explored, Kind, Level, Result, levels_of, over_budget
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.services.account import services
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
UNSEEN_REMEDY = "every invocation leaves another environment. Make it within the handler"
NO_LEVEL = "nothing is explored where messages come again after a fault alone, and faults=0. Give faults=1 or more."
_RESOURCES = ("TableName", "Bucket", "QueueUrl", "TopicArn", "FunctionName", "stateMachineArn", "StreamName")
"""The parameters that name what a call changes."""
FORKS = sys.platform == "linux"
"""Elsewhere a fork may crash in the system's own libraries, so the exploration runs in this process."""

Progress = Callable[[str, int, int], None]
"""Hears of a level, of its states so far, and of those that wait."""


def explore(handler: str, *, progress: Progress = lambda *_: None, **options: Any) -> Result:
    """Explore an unmodified handler. `options` are the attributes of `Given`, by their names.

    Raises `NotExplorable`, naming what the explorer does not have and the remedy, and `TypeError` for an unknown name.
    """
    return exploration_of(Given(handler, **options), progress).run()


def forked(function: Callable[..., Any], *arguments: Any) -> tuple[Connection, BaseProcess]:
    """Start a function in a fork of this process. The connection receives what it returns or raises.

    A fork finds boto3 and the explorer imported, and no other handler's traces.
    """
    _read_files()
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(writer, function, arguments), daemon=True)
    with warnings.catch_warnings():
        # Python warns of a process with threads. They end in the fork, which needs none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    writer.close()
    return reader, process


def explore_apart(handler: str, **options: Any) -> Result:
    """Explore as `explore` does, and raise what it raises, in a fork of this process.

    A law runs in the fork, so that what it changes outside of its world is lost.
    """
    if not FORKS:
        return explore(handler, **options)
    reader, process = forked(functools.partial(explore, handler, **options))
    try:
        ended = reader.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process that explored {handler} ended with status {process.exitcode}") from None
    process.join()
    if isinstance(ended, Exception):
        raise ended
    return ended  # type: ignore[no-any-return]


@functools.cache
def _read_files() -> None:
    """Read the files of botocore that every client needs, which each fork would read again."""
    with suppress(NotExplorable), mock.patch.dict(os.environ, LAMBDA, clear=True), intercepted(lambda: None):
        boto3.Session().client("dynamodb")
        services()


def _send(writer: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    gc.freeze()  # the fork looks for garbage among its own objects alone
    try:
        with sealed():
            returned = function(*arguments)
        writer.send(returned)
    except Exception as error:
        error.add_note(traceback.format_exc())
        writer.send(error)


def exploration_of(given: Given, progress: Progress = lambda *_: None) -> "Exploration":
    """Return the exploration of a handler, before its first delivery."""
    ledger = (given.env or {}).get("ONESLOT_LEDGER_TABLE")  # where Oneslot counts its claims and keeps their leases
    own = {f"{ledger}.{name}" for name in ("consumption_count", "lease_until")} if ledger else set()
    laws = (as_if_once,) if given.law is None else (given.law,) if callable(given.law) else tuple(given.law)
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
            laws,
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


@dataclass(kw_only=True)
class Exploration(Faultless):
    """A handler in its surroundings, and what is known of its schedules so far."""

    environment: dict[str, str]
    possible: tuple[Level, ...]
    budget: float
    progress: Progress
    levels: list[Explored] = field(default_factory=list)
    known: System | None = None
    known_with: tuple[bool, int] = (False, -1)

    def run(self) -> Result:
        """Run without faults first, then level by level."""
        started, reached = time.perf_counter(), self.code.reached

        def over() -> Result | None:
            is_over = self._possible and time.perf_counter() > started + self.budget
            return self._not_finished(self._possible[0]) if is_over else None

        with self.surrounded():
            self._check_repeats()
            # A library is imported once in a process. What it reads then is not what the handler reads.
            if not self._bears_following():
                self.firsts.clear()
            self._check_repeats()
            self._refuse_guess()
            self.code.forget_reads()
            self._learn_receives()
            self.code.is_watched = True
            self._deliver_first()
            self.code.is_watched, self.raised = False, self.code.last_words[0]
            result = self._keeps_work() or self._fails_without_faults(over) or self._explored(started)
            self._check_repeats()
        # What ran for an event that does not serve may have written nothing.
        serves = result.level != "once" and result.kind != "needs an event"
        return replace(
            result,
            written=tuple(one for place, one in reached.writes.items() if serves and place in reached.done),
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
        with taken_over(running, self.environment, self.code.roots), intercepted(running), self.code.importable():
            yield

    def deliver_made(self, scenario: HandlerScenario, asked: Asked, *, is_watched: bool) -> Delivered:
        """Deliver the first message of another scenario once, without a fault, and note what it asks of its event."""
        self.code.forget_reads()
        self.code.asked, self.code.is_watched = asked, is_watched
        try:
            return self._deliver_first(scenario, made=asked.facts.get(At.NTH, 1) - 1)
        finally:
            self.code.asked, self.code.is_watched = None, False

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
        text, missing = f"holds at every level{self._unwritten()}", reached.wanted - reached.done
        unwritten = tuple(one for place, one in reached.writes.items() if place in missing)
        remarks = [*dict.fromkeys(map(self._after, sorted(self.silent)))] if self.wrote else []
        if vain := self.code.invalid_answer:
            remarks.append(f"It reports failures in vain, and all of its batch comes again: {vain}")
        more: Any = {"unrun": reached.unrun, "unmet": reached.unmet, "unwritten": unwritten}
        return Result(self.code.name, "holds", text, remark=" ".join(remarks), **more)

    def _after(self, pair: tuple[int, int]) -> str:
        """Return that a message changes nothing after another one, and in what the two differ."""
        one, other = (dict(leaves(self.scenario.messages[position].body)) for position in pair)
        differ = [name for name in {*one, *other} if repr(one.get(name, ())) != repr(other.get(name, ()))]
        names = sorted(name.lstrip(".") or "the body" for name in differ)
        if not names:
            return "Without a fault, a second message of the same body changes nothing."
        later, earlier = (position + 1 for position in pair)
        return f"Without a fault, message {later} changes nothing after message {earlier}: they differ in {', '.join(names)}."

    @property
    def _copies(self) -> int:
        return self.scenario.deliveries.count(self.scenario.deliveries[0])

    @property
    def _possible(self) -> list[Level]:
        return [level for level in self.possible if self.scenario.faults or not level.faulty]

    def _not_finished(self, level: Level) -> Result:
        text = over_budget(self._possible, level, self._copies, self.scenario.faults)
        # What kept the explorer from finding two environments equal.
        unseen = f". {self.code.unseen}, which the explorer cannot look into: {UNSEEN_REMEDY}"
        verdict = f"{text}{self._unwritten()}{unseen if self.code.unseen else ''}"
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

    def _unwritten(self) -> str:
        """Return the end of a sentence if a message, delivered alone, writes nothing."""
        without = [str(position + 1) for position in range(len(self.scenario.messages)) if position not in self.wrote]
        if not self.wrote:
            return ", and writes nothing"
        return f", but message {' and '.join(without)} writes nothing" if without else ""

    def _level(self, level: Level, seconds: float) -> Result:
        started = time.perf_counter()
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
            explored = explorer.run(
                True, functools.partial(self.progress, level.name), lambda: time.perf_counter() > started + seconds
            )
            if knows == self._knows():
                break
        texts, calls = explorer.system.requests.texts, self.code.reached.calls
        self.code.reached.met |= {calls[text] for one in explorer.system.offered if (text := texts[one]) in calls}
        figures = (explored.complete, explored.states, explored.schedules, explored.executions)
        self.levels.append(Explored(level.name, *figures, time.perf_counter() - started))
        if not explored.breaches:
            kind: Kind = "holds" if explored.complete else "not finished"
            return Result(self.code.name, kind, kind, level=level.name)
        breach = explored.breaches[0]
        kept = counterexample(explorer.system, breach)
        self.code.is_watched = True
        shown = replay(kept, scenario, self.subject)
        made = [move for move in kept.moves if move.call]
        last = made[-1].call if made else ""
        met = next((move.call for move in reversed(made) if move.what != PERFORMED.name), last)
        at = f'at level "{level.name}" ({level.likely.format(by=scenario.deliverer)})'
        if self._copies == 1 and breach.path[-1].faults == scenario.faults:  # such as in a FIFO queue's only levels
            at = "without any fault"
        verdict = f"breaks {at}: {'; '.join(dict.fromkeys(breach.laws))}"
        return Result(
            self.code.name,
            "breaks",
            verdict,
            "\n".join(shown.lines),
            len(kept.moves),
            level.name,
            line=self.code.reached.calls.get(met, ("", ""))[1],
            short="\n".join(shown.short),
            cause=_cause(breach.laws, met),
            schedule=tuple(
                (move.delivery, move.what, ApiCall(move.call).parts[0] if move.call else "") for move in kept.moves
            ),
        )

    def _knows(self) -> tuple[bool, bool, bool, int]:
        reads = self.code.reads_identity, self.code.reads_clock, self.code.reads_receives
        return *reads, len(self.scenario.services.lagging)


def _cause(laws: Sequence[str], call: str) -> str:
    """Return what breaks, and at which call, without keys, values and lines."""
    broken = "; ".join(sorted({without_values(law) for law in laws}))
    if not call:
        return broken
    operation, parameters = ApiCall(call).parts
    resource = next((f" {parameters[name]}" for name in _RESOURCES if name in parameters), "")
    return f"{broken}; at {operation}{resource}"
