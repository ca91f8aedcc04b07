"""The tables and the answers of a consumer, as the laws read them."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from oneslot.laws.form import LINES, Form, Problem, is_encodable

Row = Mapping[str, Any]
Key = str | int | Decimal | bytes | tuple[Any, ...]

LIBRARY_OUTCOMES = frozenset({"duplicate", "busy", "quarantined", "fenced", "failed"})
"""The outcomes in the delivery log that are the library's own. Every other one is the consumer's first answer."""

COMPLETE = "complete"
"""The outcome of an answer that names none, and the end of a request of which only its effects tell."""

LEDGER_ATTRIBUTES = (
    "message_id",
    "status",
    "consumption_count",
    "updated",
    "lease_until",
    "claimed_by",
    "payload_hash",
    "result",
    "unsent",
    "expires_at",
)
"""The attributes of a ledger row that tools read. `sends`, which holds bodies, is not one."""


class Effect(NamedTuple):
    """A row's statement that a request took effect.

    `request` is empty if the row names none although it should. `at` is the time of the commit (epoch ms). 0 means that no
    row says it, so the ledger may have forgotten the request; None means a moment ago.
    """

    request: str
    at: int | None = 0
    deed: str = "made"

    @property
    def undoes(self) -> bool:
        """Whether the effect undoes what the row's own request made."""
        return self.deed != "made"


@dataclass(frozen=True)
class Table:
    """A table of the consumer, beside the ledger.

    Attributes:
        name: as decisions write to it.
        key: the attributes of its key.
        output: the stack's output with the table's name.
        attributes: those that the tools read and show; all if empty.
        carried: those that laws may read, as no other leaves the export in an audit; all if empty.
        names: further subjects that a row is about: an attribute, or several joined by `/` for another table's key. A list or
            set names each of its elements; `lines.article` names that member of each.
        effects: the requests that a row names; None for a table that the ledger's laws do not judge.
        rows: how many rows name a request that took effect; None if the number is not judged.
        outcomes: the recorded outcomes of requests with these rows; others have none. Empty: not judged.
        by_request: whether the key is the id of the row's request.
        form: of its rows.
        lacking: a function of the consumer, for what a form cannot say: a row → its missing or invalid attributes.
    """

    name: str
    key: tuple[str, ...]
    output: str = ""
    attributes: tuple[str, ...] = ()
    effects: Callable[[Row], Iterable[Effect]] | None = None
    rows: int | None = None
    outcomes: tuple[str, ...] = ()
    by_request: bool = False
    carried: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    form: Form = field(default_factory=Form)
    lacking: Callable[[Row], Iterable[str]] | None = None

    def problems(self, row: Row) -> Iterator[tuple[Problem, str]]:
        """Yield each problem of a row with its attribute."""
        found = list(self.form.problems(row))
        yield from found
        if self.lacking and not found:  # the function may read what the form promises
            yield from ((Problem.MISSING_ATTRIBUTE, name) for name in self.lacking(row))

    def key_of(self, row: Row) -> Key:
        """Return the row's key: one value, or a tuple."""
        return row[self.key[0]] if len(self.key) == 1 else tuple(row[name] for name in self.key)

    def by_key(self, rows: Iterable[Row]) -> dict[Key, Row]:
        """Return the rows by their keys."""
        return {self.key_of(row): row for row in rows}


@dataclass(frozen=True)
class Outcome:
    """An answer that the consumer gives, by the word in its result's `outcome`.

    Attributes:
        request: the attribute of the result with the request's own id; None if the result does not repeat it.
        names: the attribute of the result with another request's id, which the answer is about; None if it is about its own.
        sentence: says what was answered, with the result's attributes in braces.
        forgotten: what deleting the ledger's row brings about.
    """

    name: str
    request: str | None = None
    names: str | None = None
    sentence: str = ""
    forgotten: str = ""


@dataclass(frozen=True)
class Schema:
    """The tables and outcomes of one consumer, by name. Without declared outcomes every word is one."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @cached_property
    def effect_tables(self) -> list[Table]:
        """The tables whose rows name their requests."""
        return [table for table in self.tables.values() if table.effects]

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """The words of all answers, in their declared order; the last is that of an answer without one."""
        of_tables = (outcome for table in self.tables.values() for outcome in table.outcomes)
        return tuple(dict.fromkeys([*(self.outcomes or of_tables), COMPLETE]))

    def word_of(self, outcome: str | None) -> str | None:
        """Return an outcome as one of `answers`; None for one that the consumer does not have."""
        if outcome is None or outcome in (self.outcomes or self.answers):
            return outcome
        return None if self.outcomes else COMPLETE

    @cached_property
    def delivery(self) -> Form:
        """The form of a line of the delivery log, with the outcomes that it may have."""
        form = LINES["deliveries"]
        words = {*self.answers, *LIBRARY_OUTCOMES} if self.outcomes else None
        outcome = replace(form.attributes["outcome"], words=words)
        return replace(form, attributes={**form.attributes, "outcome": outcome})

    def about(self, result: Mapping[str, Any]) -> str | None:
        """Return the other request that a recorded result is about; None without one."""
        outcome = self.outcomes.get(str(result.get("outcome")))
        named = result.get(outcome.names) if outcome and outcome.names else None
        return named if isinstance(named, str) and named and is_encodable(named) else None


def is_answer(outcome: str) -> bool:
    """Return whether a delivery with this outcome completed its request."""
    return outcome not in LIBRARY_OUTCOMES


def text_of(key: Key) -> str:
    """Return a key as one text, a number and bytes as DynamoDB's exports have them."""
    match key:
        case tuple():
            return "/".join(map(text_of, key))
        case Decimal():
            return f"{key:f}"
        case bytes():
            return base64.b64encode(key).decode()
    return str(key)
