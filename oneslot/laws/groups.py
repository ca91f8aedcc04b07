"""Evidence in groups: a subject with every row that names it. The audit has no other rows when it judges the subject.

A row names its own key, the requests of its effects, and what `names` declares. A law is local if it judges a subject by such
rows alone. `check` judges by groups as well, so that a law that needs more is refused where it is written.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar
from zlib import crc32

from oneslot.errors import LawFailed, LawNotLocal, name_fault
from oneslot.laws.evidence import Breach, Evidence, Law, breaches_of
from oneslot.laws.form import LEDGER_ROW
from oneslot.laws.schema import Key, Row, Schema, Table, text_of
from oneslot.laws.traces import COMPLETE, result_of

T = TypeVar("T")
CHUNKS = 97
LINE_CARRIED = ("message_id", "outcome", "consumption_count", "sent", "finished", "claimed_by", "answer")
"""The members of a delivery's line that laws may read."""
NOT_LOCAL = (
    "The law {law} is not local, so the audit cannot judge it: it finds {whole} breaches in the whole evidence, and {parts} "
    "from the rows that name each subject; {subject} is one that differs. Say in `names` of the table that it reads which "
    "subjects a row is about, a subject with two key attributes by both: `lines.warehouse/lines.sku`."
)


def named_by(table: Table, row: Row) -> Iterator[Key]:
    """Yield every subject that a row names: a request, or the key of a row."""
    yield table.key_of(row)
    effects = table.effects(row) if table.effects else ()
    yield from (effect.request for effect in effects if effect.request)
    for name in table.names:
        for parts in product(*(elements(row, part.split(".")) for part in name.split("/"))):
            yield parts if len(parts) > 1 else parts[0]


def elements(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield what a path names in a row: each element of a list or set, and of a map the member that the path goes on with."""
    if isinstance(value, list | set | frozenset):
        for each in value:
            yield from elements(each, path)
    elif isinstance(value, Mapping):
        yield from elements(value.get(path[0]), path[1:]) if path else ()
    elif value is not None and not path:
        yield value


def named_by_answer(row: Row, schema: Schema) -> Iterator[str]:
    """Yield the request of a ledger row, and the one that its recorded answer is about."""
    yield row["message_id"]
    if row.get("status") == COMPLETE and (about := schema.about(result_of(row))):
        yield about


def judge(evidence: Evidence, laws: Iterable[Law], not_local: dict[str, str] | None = None) -> list[Breach]:
    """Return all breaches in the order of the laws, as the audit finds them.

    `not_local` takes what is wrong with each law that is not local, by its name. Without it, raises `LawNotLocal`.
    """
    chunks, found = list(_chunks(evidence)), list[Breach]()
    for law in laws:
        try:
            found += breaches(law, evidence) if law.of_request else _local(law, chunks)
        except LawNotLocal as error:
            if not_local is None:
                raise
            not_local[law.name] = str(error)
    return found


def _local(law: Law, chunks: list[tuple[Evidence, Collection[str]]]) -> list[Breach]:
    (whole, _), *parts = chunks
    expected = breaches(law, whole)
    found = [breach for part, homes in parts for breach in breaches(law, part) if breach.subject in homes]
    if differing := {breach.subject for breach in expected} ^ {breach.subject for breach in found}:
        counts = {"whole": len(expected), "parts": len(found), "subject": min(differing)}
        raise LawNotLocal(NOT_LOCAL.format(law=law.name, **counts))
    return found


def breaches(law: Law, evidence: Evidence) -> list[Breach]:
    """Return the breaches of one law. Raises `LawFailed` with the place of an error in it.

    The error's text is not shown, because it may hold an attribute of a row, which may be personal.
    """
    return guarded(
        lambda: [Breach(law.name, subject, detail) for subject, detail in breaches_of(law, evidence)],
        f"The law {law.name}",
        "name what it reads in `attributes` of its table, or remove it from `laws`",
    )


def guarded(call: Callable[[], T], what: str, otherwise: str) -> T:
    """Return what a function of the consumer returns. Raises `LawFailed` with the type and the place of its error alone."""
    try:
        return call()
    except Exception as error:
        said = f"{what} raised {name_fault(error)}. Correct it, {otherwise}."
    raise LawFailed(said)


def _chunks(evidence: Evidence) -> Iterator[tuple[Evidence, Collection[str]]]:
    """Yield the whole evidence, and then each part of it with the subjects that it has all rows of."""
    whole = _carried(evidence)
    yield whole, ()
    homes: dict[int, set[str]] = defaultdict(set)
    ledger: dict[int, dict[str, Row]] = defaultdict(dict)
    tables: dict[int, dict[str, dict[Any, Row]]] = defaultdict(lambda: defaultdict(dict))
    for message_id, row in whole.ledger.items():
        for number in _homes(homes, named_by_answer({**row, "message_id": message_id}, whole.schema)):
            ledger[number][message_id] = row
    for table in whole.schema.tables.values():
        for key, row in whole.rows(table.name).items():
            for number in _homes(homes, map(text_of, named_by(table, row))):
                tables[number][table.name][key] = row
    requests: dict[str, Collection[str]] = {
        name: getattr(whole, name) or () for name in ("requests", "quarantined", "dropped", "waiting")
    }
    for ids in (*requests.values(), whole.lines):
        _homes(homes, ids)
    for number, inside in homes.items():
        parts: dict[str, Any] = {
            name: inside & {*ids} for name, ids in requests.items() if getattr(whole, name) is not None
        }
        lines = [line for each in inside for line in whole.lines.get(each, ())]
        sent = {each: whole.sent[each] for each in inside if each in whole.sent}
        yield replace(whole, ledger=ledger[number], tables=tables[number], deliveries=lines, sent=sent, **parts), inside


def _homes(homes: dict[int, set[str]], names: Iterable[str]) -> set[int]:
    """Note the chunk of each subject, and return the chunks."""
    found = set()
    for name in names:
        number = crc32(name.encode()) % CHUNKS
        homes[number].add(name)
        found.add(number)
    return found


def _carried(evidence: Evidence) -> Evidence:
    """Return the evidence with the attributes that travel, and no others."""
    return replace(
        evidence,
        ledger={key: only(row, LEDGER_ROW.attributes) for key, row in evidence.ledger.items()},
        tables={
            table.name: {key: only(row, table.carried) for key, row in evidence.rows(table.name).items()}
            for table in evidence.schema.tables.values()
        },
        deliveries=[only(line, LINE_CARRIED) for line in evidence.deliveries],
    )


def only(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a row with these attributes, as far as it has them; with all if none is named."""
    return {name: row[name] for name in names or row if name in row}
