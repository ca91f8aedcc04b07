"""The reader of one line at a time, for what `oneslot.audit.read.columns` does not judge: damage, changes, other types."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from oneslot.audit.read.source import JSON_OF, NUMBER_OF, OTHERS, Source, with_others
from oneslot.laws.form import LARGEST, Problem, is_encodable, without_null
from oneslot.runtime.values import from_attribute, number

CONTROL = "CWL CONTROL MESSAGE"
"""How CloudWatch Logs begins the line that it sends through a subscription to check the destination."""
DELIVERY_WITHIN = re.compile(r'message\\*"\s*:\s*\\*"delivery\\*"')
"""Matches a member of a delivery's line, inside an object or inside quoted text, where quotes have backslashes."""
LONGEST_NUMBER = 170
"""Characters of a number as DynamoDB writes it: at most 1E+125, plain."""
SPACE = " \t\r"
OF_NO_TYPE = object()
"""Stands for an attribute that is none of DynamoDB's."""


class Read(NamedTuple):
    """A row or line: its values as Python has them, and as columns have them. `sign` is -1 for an old image."""

    line: int
    sign: int
    values: Mapping[str, Any]
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class Reject:
    """A line that cannot be used, from 1. `subjects` are those that it can be read to name."""

    line: int
    problem: Problem
    attribute: str = ""
    sign: int = 1
    subjects: tuple[str, ...] = ()


class Window(NamedTuple):
    """The time of an export of changes in epoch ms, `start` inclusive and `end` exclusive; `start` is None in a full one."""

    start: int | None
    end: int


def read_lines(source: Source, block: bytes, first: int, window: Window) -> Iterator[Read | Reject]:
    """Yield what each line of a block says. `first` is the number of its first line."""
    for number_of_line, line in enumerate(block.split(b"\n")[:-1], first):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            yield Reject(number_of_line, Problem.NOT_JSON)
            continue
        if not text.strip(SPACE):
            continue
        read = _items(text, window) if source.table else _objects(text, source.name)
        for sign, found in read:
            if isinstance(found, Problem):
                yield Reject(number_of_line, found, sign=sign)
            else:
                yield _in_form(source, number_of_line, sign, found)


def _in_form(source: Source, line: int, sign: int, found: Mapping[str, Any]) -> Read | Reject:
    attributes = source.form.attributes
    if source.table is None:
        values = columns = {name: value for name, value in without_null(found).items() if name in attributes}
    else:
        there = {name: value for name, value in found.items() if value is not None}
        typed = {name: there[name] for name in attributes if name in there and name != OTHERS}
        if OTHERS in attributes and len(there) > len(typed):
            typed[OTHERS] = {"M": {name: value for name, value in there.items() if name not in typed}}
        numbers = {name for name, each in attributes.items() if each.kind in LARGEST}
        values = {name: value_of(each, "N" if name in numbers else "S") for name, each in typed.items()}
        columns = _columns(source, typed, values)
    unread = ((Problem.MISSING_ATTRIBUTE, name) for name, value in values.items() if value is OF_NO_TYPE)
    for problem, name in (*source.form.problems(values), *unread):
        named = tuple(source.named(values)) if source.table else ()
        return Reject(line, problem, name, sign, tuple(filter(is_encodable, named)))
    return Read(line, sign, with_others(values), columns)


def _columns(source: Source, typed: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    columns = dict(values)
    for name in source.any_type:
        if name in typed and not isinstance(values[name], str):
            kind = NUMBER_OF if "N" in typed[name] else JSON_OF
            columns[name + kind] = typed[name]["N"] if kind == NUMBER_OF else json.dumps(typed[name])
            del columns[name]
    return columns


def value_of(typed: Any, wanted: str = "S") -> Any:
    """Return an attribute of an export as Python has it: NaN for a number that is none, `OF_NO_TYPE` for no attribute.

    `wanted` is the type that is looked for first.
    """
    if not isinstance(typed, dict):
        return OF_NO_TYPE
    if isinstance(text := typed.get("S"), str) and not (wanted == "N" and "N" in typed):
        return text if is_encodable(text) else OF_NO_TYPE
    try:
        if "N" in typed:
            text = typed["N"]
            return number(text) if isinstance(text, str) and _is_plain(text) else float("nan")
        return from_attribute(typed)
    except (ValueError, TypeError, ArithmeticError, AttributeError, RecursionError):
        return OF_NO_TYPE


def _is_plain(text: str) -> bool:
    """Return whether a text is a number that is not too large to be written out."""
    found = re.fullmatch(r"[+-]?[0-9]{1,170}(?:\.[0-9]{0,170})?(?:[eE][+-]?([0-9]{1,3}))?", text)
    return found is not None and int(found[1] or 0) <= LONGEST_NUMBER


def _whole(digits: str) -> int | float:
    """Return a whole number; infinity for one that Python does not read, and that is out of every range."""
    return int(digits) if len(digits) < LONGEST_NUMBER else float("inf")


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole)
"""Raises ValueError for what is not JSON, and RecursionError for very many levels."""
Said = tuple[int, Mapping[str, Any] | Problem]


def _items(text: str, window: Window) -> Iterator[Said]:
    """Yield the item of a full export, or the old and new images of a change, each with its sign."""
    try:
        record = DECODER.decode(text)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        yield 1, Problem.NOT_JSON
        return
    if window.start is None:
        item = record.get("Item")
        yield 1, Problem.NOT_JSON if item is not None and not isinstance(item, dict) else item or {}
        return
    old, new = record.get("OldImage"), record.get("NewImage")
    if not all(image is None or isinstance(image, dict) for image in (old, new)):
        yield 1, Problem.NOT_JSON
        return
    metadata = record.get("Metadata")
    written = metadata.get("WriteTimestampMicros") if isinstance(metadata, dict) else None
    at = value_of(written, "N")
    if isinstance(at, int) and not window.start * 1000 <= at < window.end * 1000:
        yield 1, Problem.OUTSIDE_WINDOW
        return
    if old is not None:
        yield -1, old
    if new is not None or old is None:  # a line without images is counted once
        yield 1, new or {}


def _objects(text: str, name: str) -> Iterator[Said]:
    """Yield the objects of a log's line that are about messages. Firehose may join deliveries without a line break."""
    several, at = name == "deliveries", len(text) - len(text.lstrip(SPACE))
    while at < len(text):
        if several and text.startswith(CONTROL, at):
            begins = text.find("{", at)
            at = len(text) if begins < 0 else begins
            continue
        try:
            found, end = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield 1, Problem.NOT_JSON
            return
        yield from _relevant(found, text[at:end], name)
        behind = len(text) - len(text[end:].lstrip(SPACE))
        if behind < len(text) and not (several and behind == end and text.startswith(("{", CONTROL), end)):
            yield 1, Problem.NOT_JSON
            return
        at = behind


def _relevant(found: Any, text: str, name: str) -> Iterator[Said]:
    """Yield what a line says of messages: all of its objects, but only deliveries of the consumer's log."""
    several = found if isinstance(found, list) else [found]
    if not all(isinstance(each, dict) for each in several):
        yield 1, Problem.NOT_JSON
        return
    if name == "deliveries":
        # Within an envelope deliveries would pass for another line of the consumer.
        envelope = not any(each.get("message") == "delivery" for each in several) and DELIVERY_WITHIN.search(text)
        yield from [(1, Problem.NOT_JSON)] if envelope else ()
        several = [each for each in several if each.get("message") == "delivery"]
    elif name == "accepted":
        several = [each for each in several if each.get("message_id") is not None]
    yield from ((1, each) for each in several)


def table_of(source: Source, rows: list[Read]) -> pa.Table:
    """Return rows as columns, as the quick reader has them."""
    attributes = source.form.attributes
    names = [*attributes, *(name + kind for name in source.any_type for kind in (NUMBER_OF, JSON_OF))]
    columns = {name: [row.columns.get(name) for row in rows] for name in names}
    numbers = {name for name, each in attributes.items() if each.kind in LARGEST}
    made = {name: pa.array(found, pa.int64() if name in numbers else pa.string()) for name, found in columns.items()}
    return pa.table(
        {name: column for name, column in made.items() if name in attributes or column.null_count < len(rows)}
    )
