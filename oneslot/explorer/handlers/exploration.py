"""`explore`: a handler, its messages and its tables in; a verdict with the shortest counterexample out.

The levels go from what happens every day to what is rare, and stop at the first breach.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import permutations, product
from pathlib import Path
from typing import Any

from oneslot.explorer.aftermath import Aftermath
from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.encoding import to_text
from oneslot.explorer.execution.process import Program
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.handlers.aws import intercepted
from oneslot.explorer.handlers.laws import HandlerLaws, Law, View
from oneslot.explorer.handlers.modules import Code, found
from oneslot.explorer.handlers.process import AT_IMPORT, HandlerProcess, Invocation, running
from oneslot.explorer.handlers.services import AccountServices, handler_faults
from oneslot.explorer.handlers.surroundings import taken_over
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.renaming import OWN_NAME
from oneslot.explorer.scenario import Scenario, Subject
from oneslot.explorer.services.contents import Table
from oneslot.explorer.services.objects import before as objects_before
from oneslot.explorer.services.sqs.explored import DELETED
from oneslot.explorer.services.values import PARAMETERS, SECRETS
from oneslot.explorer.state import GONE, NOT_STARTED
from oneslot.explorer.system import System
from oneslot.explorer.world import STATE, SqsMessage, World, line_text

LAMBDA = {
    "AWS_ACCESS_KEY_ID": "explorer",
    "AWS_SECRET_ACCESS_KEY": "explorer",
    "AWS_REGION": "eu-west-2",
    "AWS_DEFAULT_REGION": "eu-west-2",
    "AWS_LAMBDA_FUNCTION_NAME": "explored",
    "AWS_EC2_METADATA_DISABLED": "true",
    "POWERTOOLS_TRACE_DISABLED": "true",
}
IMPORT_REMEDY = "Install what it imports here, name its folders in path, and give its variables in env."
MOST_ORDERS = 4
"""The most messages whose orders are all tried for "as if once"."""


@dataclass(frozen=True)
class Level:
    """One step from mild to wild. `apart`: no two invocations overlap."""

    name: str
    likely: str
    apart: bool
    faulty: bool


LEVELS = (
    Level("twice", "SQS delivers some messages twice, without any fault", True, False),
    Level("one fault, then again", "a crash, a timeout or a lost answer, and SQS delivers again", True, True),
    Level("at the same time", "two deliveries overlap, without any fault", False, False),
    Level("all of it", "a fault while two deliveries overlap", False, True),
)


@dataclass(frozen=True)
class Explored:
    """The figures of one level."""

    name: str
    complete: bool
    states: int
    schedules: int
    executions: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """The verdict.

    Attributes:
        holds: whether no explored schedule breaks the law.
        complete: whether all levels were explored to the end.
        verdict: one sentence.
        counterexample: the shortest path to a breach, to read; empty if there is none.
        length: the steps of that path.
        levels: the figures of each level.
        outside: outside effects that may happen more often than in a run without a fault.
    """

    handler: str
    holds: bool
    complete: bool
    verdict: str
    counterexample: str = ""
    length: int = 0
    level: str = ""
    levels: tuple[Explored, ...] = ()
    outside: tuple[str, ...] = ()
    seconds: float = 0.0
    masked: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.handler}: {self.verdict}"]
        lines += [
            f"  {one.name}: {one.states} states, {one.schedules} schedules, {one.executions} runs, {one.seconds:.1f} s"
            f"{'' if one.complete else ', not complete'}"
            for one in self.levels
        ]
        lines += [f"  may happen twice: {one}" for one in self.outside]
        return "\n".join([*lines, *([self.counterexample] if self.counterexample else [])])


@dataclass(frozen=True)
class HandlerScenario(Scenario):
    """A scenario in which Lambda ends an invocation at its timeout, so no invocation outlives it."""

    apart: bool = False
    timed: bool = True
    timeout_ms: int = 30_000
    objects: Mapping[str, Mapping[str, bytes | str]] = field(default_factory=dict)

    @property
    def world(self) -> World:
        """The world at the start, with its objects."""
        since = datetime.fromtimestamp(self.start / 1000, UTC)
        lines = [[STATE, bucket, key, to_text(held)] for bucket, key, held in objects_before(self.objects, since)]
        return World("\n".join(sorted([*super().world.text.splitlines(), *map(line_text, lines)])))

    def deleted(self, world: World) -> int:
        """Return the messages that the handler has deleted, as bits."""
        deleted = {sqs_id for container, sqs_id, _ in world.lines(STATE) if container == DELETED}
        return sum(1 << position for position, message in enumerate(self.messages) if message.sqs_id in deleted)

    def may_start(self, delivery: int, codes: Sequence[int]) -> bool:
        """Start equal deliveries in their order, and one after another on the levels without overlap."""
        kinds = self.kinds
        if delivery and kinds[delivery - 1] == kinds[delivery] and codes[delivery - 1] == NOT_STARTED:
            return False
        return not (self.apart and any(code >= 0 for code in codes))

    def may_end(self, codes: Sequence[int], travelling: bool) -> bool:
        """End whenever nothing runs: SQS promises no second delivery of what was acknowledged."""
        return not travelling and all(code in (NOT_STARTED, GONE) for code in codes)

    def times_after(self, expiries: int, running: bool) -> Sequence[int]:
        """Let a running invocation use its time up, and the visibility timeout pass when none runs."""
        if not self.timed:
            return ()
        if running:
            return () if self.apart or expiries else (1,)
        return (2,) if expiries < self.expiries else ()

    def clock(self, expiries: int) -> int:
        """Return the time (epoch ms)."""
        return self.start + (0, self.timeout_ms - 1_000, self.timeout_ms + self.visibility_ms + 1_000)[expiries]


@dataclass(frozen=True)
class HandlerSubject(Subject):
    """A handler as the explorer's subject."""

    code: Code | None = None
    timeout_ms: int = 30_000

    def program(self, messages: Sequence[SqsMessage], side_by_side: bool, delivery: int = 0) -> Program:
        """Return one invocation with these messages."""
        if self.code is None:
            raise ValueError("code: a handler's subject needs it")
        event: Any = {"Records": [message.record(position) for position, message in enumerate(messages)]}
        batch: tuple[str, ...] | None = tuple(message.sqs_id for message in messages)
        if isinstance(messages[0], Direct):
            event, batch = json.loads(messages[0].body), None
        return Invocation(self.code, json.dumps(event), delivery, self.timeout_ms, batch)


class Direct(SqsMessage):
    """An event that is not of SQS: it is delivered as it is, and again after an exception."""


@dataclass(frozen=True)
class Numbered(SqsMessage):
    """A message with the SQS id of its position: two messages may have one body."""

    position: int = 0
    more: str = "{}"

    @property
    def sqs_id(self) -> str:
        """SQS's own id."""
        return f"sqs-{self.position}-{hashlib.sha256(self.body.encode()).hexdigest()[:8]}"

    def record(self, position: int) -> dict[str, Any]:
        """Return the record, with what the user gave of it."""
        usual = {**super().record(position), "eventSourceARN": "arn:aws:sqs:eu-west-2:000000000000:explored"}
        own = {"messageId": self.sqs_id, "receiptHandle": f"receipt-{self.sqs_id}-of-{OWN_NAME}"}
        return {**usual, "awsRegion": "eu-west-2", **json.loads(self.more), **own}


def message_of(position: int, message: Any) -> SqsMessage:
    """Return a message from a body (text, or JSON), a record of SQS (it has a `body`), or a whole event (`Records`)."""
    if isinstance(message, dict) and ("Records" in message or "detail-type" in message or "httpMethod" in message):
        return Direct(str(position), json.dumps(message))
    more = message if isinstance(message, dict) and isinstance(message.get("body"), str) else {}
    body = more.get("body", message)
    text = body if isinstance(body, str) else json.dumps(body)
    return Numbered(str(position), text, position, json.dumps(more))


def records_of(messages: Sequence[Any]) -> list[Any]:
    """Return the messages, with the records of a whole event of SQS in its place: SQS redelivers each apart."""
    return [
        one
        for message in messages
        for one in (message["Records"] if isinstance(message, dict) and _is_sqs(message.get("Records")) else [message])
    ]


def _is_sqs(records: Any) -> bool:
    return bool(records) and all("body" in record for record in records)


def tables_of(tables: Any) -> dict[str, Table]:
    """Return tables from a mapping of names to a key, a (partition key, sort key) or a `Table`, or from bare strings."""
    pairs = (
        tables.items() if isinstance(tables, Mapping) else [(str(one).partition(":")[0], str(one)) for one in tables]
    )
    made = {}
    for name, keys in pairs:
        parts = keys.partition(":")[2].split("/") if isinstance(keys, str) and ":" in keys else keys
        made[name] = keys if isinstance(keys, Table) else Table(*([parts] if isinstance(parts, str) else parts))
    return made


def explore(
    handler: str,
    *,
    messages: Sequence[Any],
    tables: Any = (),
    law: Law | None = None,
    ignore: Collection[str] = (),
    env: Mapping[str, str] | None = None,
    answers: Mapping[str, Any] | None = None,
    rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    objects: Mapping[str, Mapping[str, bytes | str]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    secrets: Mapping[str, Any] | None = None,
    path: str | Path | Sequence[str | Path] = ".",
    copies: int = 2,
    faults: int = 1,
    budget: float = 60,
    timeout: int = 30,
    visibility: int = 30,
    acknowledges_only_finished: bool = False,
    progress: Callable[[str, int, int], None] = lambda level, states, waiting: None,
) -> Result:
    """Explore an unmodified handler.

    Args:
        handler: "app.handler", below `path`.
        messages: bodies, records of SQS or whole events.
        tables: the tables of DynamoDB: {"orders": "order_id"}, {"orders": ("customer", "order_id")} or ["orders:order_id"].
        law: a function of the end; without one, the tables must be as if each message was delivered once.
        ignore: "table.attribute" of counters that may differ.
        env: environment variables, set before the import.
        answers: answers of operations without a stand-in: {"athena.start_query_execution": {...}}, or functions of
            the parameters.
        rows: the rows that exist before, by table, in plain values.
        objects: the objects that exist before, by bucket and key.
        parameters, secrets: values of Systems Manager's parameters and of secrets, by name.
        copies, faults: the deliveries of each message, and the most faults of a schedule.
        budget: seconds for all levels.
        path: the folder of the handler; a list if it has layers.
        timeout, visibility: the function's timeout and the queue's visibility timeout, in seconds.

    Raises `NotExplorable`, naming what the explorer does not have and the remedy.
    """
    code = found(handler, [Path(one) for one in ([path] if isinstance(path, str | Path) else path)])
    messages = records_of(messages)
    return _Exploration(
        code=code,
        laws=HandlerLaws(tables_of(tables), law, ignore, acknowledges_only_finished),
        scenario=HandlerScenario(
            name=handler,
            sentence="its messages, delivered by SQS",
            messages=tuple(message_of(position, one) for position, one in enumerate(messages)),
            deliveries=tuple((position,) for position in range(len(messages)) for _ in range(copies)),
            tables=tables_of(tables),
            before=rows or {},
            objects=objects or {},
            faults=faults,
            expiries=2,
            choices=handler_faults,
            ends_with=(),
            once_more=False,
            unfinished="at-least-once: after",
            timeout_ms=timeout * 1000,
            visibility_ms=visibility * 1000,
        ),
        services=AccountServices(
            tables_of(tables), answers or {}, _values(parameters, secrets), depends_on_time=code.note_clock
        ),
        environment={**LAMBDA, **(env or {})},
        budget=budget,
        progress=progress,
    ).run()


def _values(parameters: Mapping[str, Any] | None, secrets: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    given = {PARAMETERS: parameters, SECRETS: secrets}
    return {kind: values for kind, values in given.items() if values is not None}


@dataclass
class _Exploration:
    code: Code
    laws: HandlerLaws
    scenario: HandlerScenario
    services: AccountServices
    environment: dict[str, str]
    budget: float
    progress: Callable[[str, int, int], None]
    levels: list[Explored] = field(default_factory=list)

    def run(self) -> Result:
        """Run without faults first, then level by level."""
        started = time.perf_counter()
        with ExitStack() as stack:
            stack.enter_context(taken_over(running, self.environment))
            stack.enter_context(intercepted(running))
            stack.enter_context(self.code.importable())
            # A library is imported once in a process. What it reads then is not what the handler reads.
            self._deliver_first()
            self.code.forget_reads()
            result = self._fails_without_faults() or self._explored(started)
        return replace(
            result,
            levels=tuple(self.levels),
            seconds=time.perf_counter() - started,
            outside=tuple(f"{effect} ({count} times)" for effect, count in sorted(self.laws.left.twice.items())),
            masked=tuple(sorted(self.laws.masks)),
        )

    @property
    def subject(self) -> HandlerSubject:
        """Return the subject. Its deliveries differ once the code has read an id or a random number."""
        return HandlerSubject(
            name=self.code.name,
            run=lambda *_: {},
            laws=self.laws,
            process=HandlerProcess,
            identified=self.code.reads_identity,
            code=self.code,
            timeout_ms=self.scenario.timeout_ms,
        )

    def _deliver_first(self) -> None:
        system = System(self.scenario, replace(self.subject, identified=True), self.services)
        Aftermath(system).deliver(system.start.world, 0, self.scenario.start, 0)

    def _fails_without_faults(self) -> Result | None:
        """Deliver each message once, in every order, with low and with high random numbers; learn what that leaves."""
        count = len(self.scenario.messages)
        orders = list(permutations(range(count))) if count <= MOST_ORDERS else [tuple(range(count))]
        for order, high in product(orders, (False, True)):
            if high and not self.code.draws:
                continue
            runs: list[list[View]] = []
            for later, name in ((0, 10), (4_567_890, 40)):
                system = System(
                    self.scenario, replace(self.subject, identified=True), replace(self.services, high=high)
                )
                world = system.start.world
                views = []
                for position in order:
                    delivered = Aftermath(system).deliver(world, position, self.scenario.start + later, name + position)
                    world = delivered.world
                    if not system.acknowledges((position,), delivered.outcome):
                        error = delivered.outcome.error or "it reports the message as failed"
                        if error.startswith(AT_IMPORT):
                            raise NotExplorable(f"{self.code.name} fails {error}. {IMPORT_REMEDY}")
                        text = f"fails when nothing goes wrong, at message {position + 1}: {error}"
                        return Result(self.code.name, False, False, text, level="once")
                    views.append(View(system.worlds[world], self.scenario.tables))
                runs.append(views)
            self.laws.learn(order, *runs)
        self.laws.settle()
        return None

    def _explored(self, started: float) -> Result:
        names: list[str] = []
        for level in LEVELS:
            if level.faulty and not self.scenario.faults:
                continue
            left = self.budget - (time.perf_counter() - started)
            result = self._level(level, left) if left > 0 else None
            if result is not None and not result.holds:
                return result
            if result is None or not result.complete:
                done = f"complete: {', '.join(names)}" if names else "no level is complete"
                return Result(
                    self.code.name, True, False, f'budget over at level "{level.name}"; {done}', level=level.name
                )
            names.append(level.name)
        return Result(self.code.name, True, True, "holds at every level")

    def _level(self, level: Level, seconds: float) -> Result:
        started = time.perf_counter()
        while True:
            knows = (self.code.reads_identity, self.code.reads_clock)
            scenario = replace(
                self.scenario,
                apart=level.apart,
                faults=self.scenario.faults if level.faulty else 0,
                timed=self.code.reads_clock,
            )
            explorer = Explorer(scenario, self.subject, self.services)
            ends = time.perf_counter() + seconds
            explored = explorer.run(
                True, functools.partial(self.progress, level.name), functools.partial(_is_over, ends)
            )
            if knows == (self.code.reads_identity, self.code.reads_clock):
                break
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
            return Result(self.code.name, True, explored.complete, "holds", level=level.name)
        breach = explored.breaches[0]
        kept = counterexample(explorer.system, breach)
        shown = replay(kept, scenario, self.subject, self.services)
        verdict = f'breaks at level "{level.name}" ({level.likely}): {"; ".join(dict.fromkeys(breach.laws))}'
        return Result(self.code.name, False, False, verdict, "\n".join(shown.lines), len(kept.moves), level.name)


def _is_over(ends: float) -> bool:
    return time.perf_counter() > ends
