"""The evidence of a run, and the laws that judge it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from oneslot.laws.form import LEDGER_ROW
from oneslot.laws.request import Request
from oneslot.laws.schema import Key, text_of
from oneslot.laws.traces import LEDGER, Traces


@dataclass(frozen=True)
class Evidence(Traces):
    """The traces of a run, and its requests."""

    def request(self, message_id: str) -> Request:
        """Return all that names one request."""
        return Request(message_id, self)

    @cached_property
    def subjects(self) -> Mapping[str, Request]:
        """Every request that anything names, by its id."""
        named = (self.ledger, self.lines, self.requests or (), self.made, self.quarantined, self.dropped)
        return {each: self.request(each) for each in dict.fromkeys(each for ids in named for each in ids)}


@dataclass(frozen=True)
class Breach:
    """A broken law, its subject (an id or a key), and how it is broken."""

    invariant: str
    subject: str
    detail: str


Breaches = Callable[[Evidence], Iterable[tuple[Key, str]]]
"""A law as a plain function: the evidence → (subject, detail) for each breach. A subject is an id, or the key of a row."""


@dataclass(frozen=True)
class Law:
    """A law of a consumer.

    Attributes:
        breaches: judges the whole evidence; None for a law of one request, and if no history shows whether it holds.
        of_request: judges one request: the detail of its breach, or None. The ledger's laws are such laws.
        twice: whether a request that breaks it took effect twice.
    """

    name: str
    sentence: str
    breaches: Breaches | None = None
    of_request: Callable[[Request], str | None] | None = None
    twice: bool = False

    @property
    def is_judged(self) -> bool:
        """Whether a history can show a breach."""
        return self.breaches is not None or self.of_request is not None


def check(evidence: Evidence, laws: Iterable[Law]) -> list[Breach]:
    """Return all breaches, in the order of the laws."""
    return [Breach(law.name, subject, detail) for law in laws for subject, detail in breaches_of(law, evidence)]


def breaches_of(law: Law, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield subject and detail of each breach of one law."""
    if law.of_request is not None:
        for subject, request in evidence.subjects.items():
            if (detail := law.of_request(request)) is not None:
                yield subject, detail
    elif law.breaches is not None:
        yield from ((text_of(subject), detail) for subject, detail in law.breaches(evidence))


def lacking(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yield (table, key, attribute) for each attribute that a row lacks, or has out of its form.

    A law may raise for such a row. Call this first where people may write to the tables.
    """
    for message_id, row in evidence.ledger.items():
        yield from ((LEDGER, message_id, name) for name in LEDGER_ROW({"message_id": message_id, **row}))
    for table in evidence.schema.tables.values():
        for key, row in evidence.rows(table.name).items():
            yield from ((table.name, text_of(key), name) for _, name in table.problems(row))
