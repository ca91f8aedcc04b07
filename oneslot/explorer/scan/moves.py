"""The moves from an event that was tried: what its handler asks for, then guesses."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from oneslot.explorer.handlers.asked import ENOUGH, LIST, NUMBER, OBJECT, Asked, At, Place, value_at
from oneslot.explorer.handlers.made import Tried
from oneslot.explorer.scan.events import concrete_path
from oneslot.explorer.scan.first_events import NULL_PLACES, Edit, leaves

MOST_HOLDERS = 2
"""The objects that may be what a library validates, beside the payload."""
MOST_NAMES = 12
"""The names that code reads of a copy, such as a row without its types, which asks nothing of the event."""
MOST_LISTS = 8
"""The lists of made answers that may have one element, or none."""

_TIME, _DATE, _UUID = "2026-01-05T09:00:00Z", "2026-01-05", "77777777-0000-4000-8000-000000000007"
_EMAIL, _URL = "client-1@example.org", "https://example.org/1"
TEXTS = (_EMAIL, _URL, _UUID, _TIME, _DATE, "1", "1234567890", "12.50", "A", "GBP", "ABC-1234", "abc-1")
"""Texts of usual forms, of which one may match a pattern."""
KINDS: tuple[Any, ...] = (1, ENOUGH, _TIME, _DATE, _UUID, _EMAIL, {}, ["value-1"], [{}], True)
"""What is tried in turn in place of a text that does not serve."""
KEYS = ("first.csv", "first.txt", "first.jsonl", "one/two/three/first.json", "first.png", "first.pdf")
"""The keys of an object that are tried in turn."""
_OF_PYDANTIC: tuple[tuple[str, Any], ...] = (
    *(("int", 1), ("float", 1), ("decimal", 1), ("bool", True), ("datetime", _TIME), ("date", _DATE), ("time", _TIME)),
    *(("uuid", _UUID), ("dict", {}), ("model", {}), ("dataclass", {}), ("mapping", {}), ("url", _URL)),
    ("value_error", _EMAIL),
)
_NAMED = re.compile(
    r"Missing the key (\w+) in the item|\((\w+)\) is missing|'(\w+)' is a required property"
    r"|SimpleNamespace' object has no attribute '(\w+)'"
    r"|missing \d+ required [\w-]+ arguments?: (.*)|must contain (\[.*\]) properties"
)
"""Names that only the text of a failure has: of a row, of a consumer's identity, of a schema, of a call."""


def moves_of(run: Tried) -> Iterator[Sequence[Edit]]:
    """Yield what the handler asks for, the most certain first."""
    asked = run.asked
    yield from each([(at, text_of(at)) for at, is_must in asked.missed.items() if is_must])
    for holder in _holders(asked):
        yield from each(_validated(asked, holder))
    if not run.serves:
        yield from each(_named(asked, run.error))
    for at, kind, name in reversed(asked.wants):
        made: dict[str, Any] = {NUMBER: ENOUGH if at[0] == At.ROWS else 1, LIST: [text_of(at)]}
        made[OBJECT] = {name: f"{_slug(name)}-1"} if name else {}
        value = made.get(kind, text_of(at))
        is_within = isinstance(at[-1], int) or (*at, 0) in {one for one, _, _ in asked.wants}
        if kind != LIST or not is_within:
            yield [(at, value)]
    yield from each(asked.absent.items())
    yield from of_routes(run)
    may = [(at, text_of(at)) for at, is_must in asked.missed.items() if not is_must]
    yield from each(may)
    if not run.serves:
        open_places = [place for place in NULL_PLACES if place not in asked.facts and place in asked.places.values()]
        yield from ([((place,), {})] for place in open_places)
    for at, constant in asked.compared:
        yield [(at, constant)]
        yield [*may, (at, constant)]


def guesses(run: Tried) -> Iterator[Sequence[Edit]]:
    """Yield what may help where the handler does not say what it looks for."""
    texts = _unserved(run.asked, run.error)
    asked = {name for at in (*run.asked.found, *run.asked.missed) for name in at}
    copied = [name for name in run.names if name not in asked and not run.asked.objects]  # an object has columns
    yield from each([((At.PAYLOAD, name), text_of((name,))) for name in copied[:MOST_NAMES]])
    for one in KINDS:
        yield from ([(at, one)] for at in texts)
    lists = [at for name, one in run.asked.facts.get(At.ANSWERS, {}).items() for at in _lists(one, (At.ANSWERS, name))]
    for at in lists[:MOST_LISTS]:
        yield [(at, value_at(run.asked.facts, at)[:1])]
        yield [(at, [])]
    if run.asked.objects or (At.KEY,) in run.asked.found:
        yield from _of_objects(run.asked)
    if not run.asked.facts[At.PAYLOAD]:
        yield [((At.PAYLOAD,), [text_of((At.PAYLOAD,))])]


def of_routes(run: Tried) -> Iterator[Sequence[Edit]]:
    """Yield the routes of the handler's own code, where the source leaves method and path to the client."""
    places = run.asked.places.values()
    for method, path in run.routes:
        edits: list[Edit] = [((At.METHOD,), method)] if At.METHOD in places else []
        if At.PATH in places:
            edits.append(((At.PATH,), concrete_path(path, {})))
        if edits:
            yield edits


def _of_objects(asked: Asked) -> Iterator[Sequence[Edit]]:
    """Yield columns that a failure names, if the object is a table, and other keys."""
    columns = asked.facts.get(At.COLUMNS, {})
    missing = [name for name in _missing_keys(asked) if name not in columns and name[0] != "_"]
    yield from each([((At.COLUMNS, name), text_of((name,))) for name in missing])
    yield from ([((At.COLUMNS, name), 1)] for name in columns)
    yield from ([((At.KEY,), key)] for key in KEYS)


def _missing_keys(asked: Asked) -> list[str]:
    """Return the keys that failures name."""
    return [str(one.args[0]) for one in asked.errors if isinstance(one, KeyError) and one.args]


def _lists(value: Any, at: Place) -> Iterator[Place]:
    """Yield the places of the lists that have more than one element, without those within them."""
    if isinstance(value, list) and len(value) > 1:
        yield at
    for name, one in value.items() if isinstance(value, dict) else ():
        yield from _lists(one, (*at, name))


def each(edits: Iterable[Edit]) -> Iterator[Sequence[Edit]]:
    """Yield all edits together, then each."""
    edits = list(edits)
    if edits:
        yield edits
    if len(edits) > 1:
        yield from ([one] for one in edits)


def _slug(name: object) -> str:
    return str(name).lower().replace(" ", "-")


def text_of(at: Place) -> str:
    """Return the text that is made for a place: its name, and a number."""
    name = next((one for one in reversed(at) if isinstance(one, str)), "value")
    return f"{_slug(name)}-{0 if at[0] == At.OLD else 1}"


def _holders(asked: Asked) -> list[Place]:
    """Return the objects of which a call may miss names: those that were read, the latest first, and the payload."""
    read = [at for at in reversed(asked.found) if isinstance(value_at(asked.facts, at), dict) and at[0] != At.ANSWERS]
    rows = [
        (At.ROWS, table, number) for table, held in asked.facts.get(At.ROWS, {}).items() for number in range(len(held))
    ]
    return [*dict.fromkeys([*read[:MOST_HOLDERS], (At.PAYLOAD,), *rows])]


def _validated(asked: Asked, holder: Place) -> Iterator[Edit]:
    """Yield each field that a library's validation lists, with a value of its type: `errors()` of pydantic."""
    found: dict[Place, Any] = {}
    for error in asked.errors:
        try:
            listed = error.errors()  # type: ignore[attr-defined]
            fields = [(tuple(one["loc"]), one["type"], one.get("ctx") or {}) for one in listed]
        except Exception:  # noqa: S112 - any exception may have an attribute of this name
            continue
        for way, kind, context in fields:
            for first in range(len(way)):  # its way, or the end of it, that leads to something
                at = (*holder, *way[first:])
                is_place = all(isinstance(one, str | int) for one in at)
                if is_place and isinstance(value_at(asked.facts, at[:-1]), dict | list):
                    found[at] = _of_type(kind, context, at)
                    break
    yield from found.items()


def _of_type(kind: str, context: Mapping[str, Any], at: Place) -> Any:
    expected = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    if expected:
        return expected[0]
    for name, bound in (("ge", 0), ("gt", 1), ("le", 0), ("lt", -1)):
        if name in context:
            return context[name] + bound
    if kind == "too_short" or kind.startswith(("list", "tuple", "set")):
        return [text_of(at)] * int(context.get("min_length", 1))
    if kind.startswith("string_"):
        fitting = (one for one in (text_of(at), *TEXTS) if re.search(context.get("pattern", ""), one))
        return next(fitting, text_of(at)).ljust(context.get("min_length", 0), "1")[: context.get("max_length")]
    return next((value for begins, value in _OF_PYDANTIC if kind.startswith(begins)), text_of(at))


def _named(asked: Asked, error: str) -> Iterator[Edit]:
    """Yield the names that a failure says are missing: of parameters, or beside the value that was read last."""
    for path in dict.fromkeys(asked.paths):
        yield from (((At.SSM, f"{path}{name.removeprefix(path)}"), text_of((name,))) for name in _missing_keys(asked))
    for text in (error, *map(str, asked.errors)):
        found = _NAMED.search(text)
        if found:
            one, listed = found[1] or found[2] or found[3] or found[4], found[5] or found[6]
            names = [one] if one else re.findall(r"'(\w+)'", listed)
            yield from (((*_holders(asked)[0], name), text_of((name,))) for name in names)


def _unserved(asked: Asked, error: str) -> list[Place]:
    """Return the texts that a failure names, by their values or names, or else those that were read last."""
    said = " ".join((error, *map(str, asked.errors)))
    words = re.findall(r"\w+", said.lower().replace("_", ""))
    every = dict.fromkeys([*reversed(asked.found), *leaves(asked.facts[At.PAYLOAD], (At.PAYLOAD,))])
    texts = [at for at in every if isinstance(value_at(asked.facts, at), str)]
    named = [at for at in texts if value_at(asked.facts, at) in said or _slug(at[-1]).replace("_", "") in words]
    return list(dict.fromkeys([*named, *texts[:6]]))
