"""The laws of any handler: "as if once" without a word from the user, the ready ones, and the user's own."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.execution.process import HandlerEnd
from oneslot.explorer.handlers.effects import GENERATED, Answers, Left, Masks, effects_of, leaves
from oneslot.explorer.laws import Laws
from oneslot.explorer.services.objects import BUCKET
from oneslot.explorer.world import STATE, SqsMessage, World, from_text
from oneslot.runtime.values import to_json

Rows = dict[str, list[dict[str, Any]]]


class View:
    """The end of a schedule. `world["orders"]` is a list of rows.

    Attributes:
        effects: what left the account.
        repeated: the effects that happened more often than single deliveries do them.
        objects: the contents of S3's objects, by bucket and key.
        answer: what the last delivery was answered, as JSON.
    """

    def __init__(self, world: World, tables: Mapping[str, TableSchema], answer: str = "") -> None:
        self.answer = answer
        self.tables: Rows = {name: list(world.rows[name].values()) for name in tables}
        self.effects = effects_of(world)
        self.repeated: Sequence[str] = ()
        self.objects: dict[str, dict[str, bytes]] = {}
        for container, key, value in world.lines(STATE):
            if container.startswith(BUCKET):
                self.objects.setdefault(container.removeprefix(BUCKET), {})[key] = from_text(value)["Body"]

    @property
    def rows(self) -> Rows:
        """The rows of the tables, and the objects of each bucket as rows."""
        objects: Rows = {
            f"s3://{bucket}": [{"Key": key, "Body": body.decode(errors="replace")} for key, body in held.items()]
            for bucket, held in self.objects.items()
        }
        return {**self.tables, **objects}

    def __getitem__(self, table: str) -> list[dict[str, Any]]:
        if table not in self.tables:
            raise KeyError(f"no table {table}; there are {', '.join(sorted(self.tables))}")
        return self.tables[table]


Law = Callable[[View], object]


def at_most_one(table: str, *attributes: str) -> Law:
    """Return the law that a table has at most one row for each value of these attributes."""

    def law(world: View) -> bool:
        counts = Counter(tuple(repr(row.get(name)) for name in attributes) for row in world[table])
        return all(count == 1 for count in counts.values())

    law.__doc__ = f"at most one row of {table} for each {' and '.join(attributes)}"
    return law


def at_least_one(table: str) -> Law:
    """Return the law that a table is not empty once faults have stopped."""

    def law(world: View) -> bool:
        return bool(world[table])

    law.__doc__ = f"at least one row of {table} once faults have stopped"
    return law


def as_if_once(world: View) -> bool:
    """the end is as if each message was delivered once"""
    raise NotImplementedError("the laws judge it, because they know what single deliveries leave")


def no_effect_twice(world: View) -> bool:
    """no outside effect happens more often than single deliveries do it"""
    return not world.repeated


@dataclass
class HandlerLaws(Laws):
    """The laws of one exploration.

    Attributes:
        laws: the user's; "as if once" alone if there are none.
        acknowledges_only_finished: whether an invocation whose last call failed must not acknowledge.
        answers_equal: whether a delivery must be answered as a single one is, apart from what is generated.
        once: the masked ends of single deliveries without a fault, for "as if once".
        masks: what is generated of the rows.
        ignore: "table.attribute" of counters that may differ.
        left: what left the account.
    """

    tables: Mapping[str, TableSchema]
    laws: Sequence[Law] = (as_if_once,)
    ignore: Collection[str] = ()
    acknowledges_only_finished: bool = False
    answers_equal: bool = False
    masks: Masks = field(default_factory=Masks)
    once: list[Rows] = field(default_factory=list)
    left: Left = field(default_factory=Left)
    answers: Answers = field(default_factory=Answers)

    def learn(self, order: Sequence[int], first: Sequence[View], second: Sequence[View]) -> None:
        """Learn from two runs that differ only in time and ids: the views after each message of an order."""
        for table, held in first[-1].rows.items():
            runs = (held, second[-1].rows.get(table, ()))
            self.masks.learn(table, *([(self._key(table, row), dict(leaves(row))) for row in rows] for rows in runs))
        self.left.learn(order, [view.effects for view in first], [view.effects for view in second])
        for position, one, other in zip(order, first, second, strict=True):
            self.answers.learn(position, one.answer, other.answer)
        self.once.append(first[-1].rows)

    def settle(self) -> None:
        """Mask what is generated, once all orders are known."""
        self.left.settle()
        self.once = [self._masked(rows) for rows in self.once]

    def at_end(self, world: World, messages: Sequence[SqsMessage], outcome: HandlerEnd) -> Iterator[str]:
        """See `oneslot.explorer.laws.Laws`."""
        if self.acknowledges_only_finished and outcome.error is None and not outcome.failed and outcome.logged:
            yield "acknowledged: an invocation whose last call failed acknowledged its messages"
        if self.answers_equal and outcome.error is None and len(messages) == 1:
            sentence = self.answers.differs(int(messages[0].message_id), outcome.answer)
            yield from [f"answers-equal: {sentence}"] if sentence else ()

    def at_last(self, world: World, wanted: Sequence[str]) -> Iterator[str]:
        """Yield the breaches of the user's laws, or of "as if once"."""
        view = View(world, self.tables)
        view.repeated, missing = self.left.compare(view.effects)
        for law in self.laws:
            if law is not as_if_once:
                yield from broken(law, view)
            elif self.once:
                rows = self._masked(view.rows)
                if rows not in self.once:
                    yield f"as-if-once: {difference(rows, self.once[0], self.tables)}"
                yield from (f"as-if-once: {one} never happens, and single deliveries do it" for one in missing)

    def of_deliveries(self, world: World, delivered: Sequence[int]) -> Iterator[str]:
        """Yield each effect that happens more often than its message came: something in the process repeats it.

        A warm environment keeps its objects: https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html.
        """
        if as_if_once in self.laws:
            for effect in self.left.beyond(effects_of(world), delivered):
                yield f"as-if-once: {effect} happens more often than the message came"

    def _key(self, table: str, row: Mapping[str, Any]) -> str:
        keys = self.tables[table].keys if table in self.tables else ("Key",)
        return _text([row.get(name) for name in keys])

    def _masked(self, rows: Rows) -> Rows:
        """Return sorted rows, with what is generated replaced, and ignored counters as well."""
        hidden: Rows = {}
        for table, held in rows.items():
            hidden[table] = [
                {
                    name: GENERATED
                    if f"{table}.{name}" in self.ignore
                    else self.masks.hidden(table, self._key(table, row), f".{name}", value)
                    for name, value in row.items()
                }
                for row in held
            ]
            hidden[table].sort(key=_text)
        return hidden


def law_text(law: Law) -> str:
    """Return a law's name: the first line of its docstring, or its source if it is a lambda."""
    return str(law.__doc__ or getattr(law, "__name__", "law")).strip().splitlines()[0].replace("<lambda>", "the law")


def broken(law: Law, view: View) -> Iterator[str]:
    """Yield the breach if a law returns a false value, or fails by an assertion."""
    try:
        holds = law(view)
    except AssertionError as error:
        yield f"{law_text(law)}: does not hold{f': {error}' if str(error) else ''}"
        return
    if holds is not None and not holds:
        yield f"{law_text(law)}: does not hold"


def difference(rows: Rows, once: Rows, tables: Mapping[str, TableSchema]) -> str:
    """Return a sentence for the first difference between an end and what single deliveries leave."""
    for table in {**rows, **once}:
        held, expected = rows.get(table, []), once.get(table, [])
        if len(held) != len(expected):
            return f"{table} has {_rows(len(held))}, and single deliveries leave {_rows(len(expected))}"
        for row, wanted in zip(held, expected, strict=True):
            changed = [name for name in {**row, **wanted} if row.get(name) != wanted.get(name)]
            if changed:
                keys = tables[table].keys if table in tables else ("Key",)
                key = "/".join(str(row.get(part)) for part in keys)
                name = changed[0]
                found, usual = row.get(name), wanted.get(name)
                return f"{table} {key}: {name} is {_short(found)}, and single deliveries leave {_short(usual)}"
    return "the tables differ"


def without_values(sentence: str) -> str:
    """Return what a broken law's sentence is about, without keys and values: the same as long as the breach is."""
    row = re.match(r"(as-if-once: \S+) .*?: (\S+) is .*, and single deliveries leave ", sentence)
    if row:
        return f"{row[1]}.{row[2]}"
    return re.split(r" has \d+ rows?,| never happens,|: does not hold| is answered with ", sentence)[0]


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _short(value: Any) -> str:
    return "missing" if value is None else _text(value)[:60]


def _text(value: Any) -> str:
    return to_json(value, other=repr, sort_keys=True)
