"""A scenario file: Python that defines what `explore` takes. Its names and values are checked here, and nowhere else."""

import json
import runpy
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.errors import InvalidScenario, name_fault
from oneslot.explorer.handlers.scenario import message_of, messages_of
from oneslot.explorer.handlers.templates.template import tables_of
from oneslot.explorer.world import SqsMessage, World


def read_scenario(file: Path, names: Collection[str]) -> dict[str, Any]:
    """Run a scenario file and return its values for these names. Raises `InvalidScenario`.

    The file may have helpers: modules, functions, classes, and names that begin with _ or are in capitals.
    """
    try:
        values = runpy.run_path(str(file))
    except (Exception, SystemExit) as error:
        raise InvalidScenario(
            f"{file}, which is run as Python, raised {name_fault(error)}. Correct the file."
        ) from error
    for name, value in values.items():
        is_helper = name.startswith("_") or name.isupper() or isinstance(value, ModuleType | type)
        is_helper = is_helper or (callable(value) and not get_close_matches(name, ["law"]))
        if name not in names and not is_helper:
            near = get_close_matches(name, sorted(names), 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise InvalidScenario(
                f"{file}: {name} is unknown.{meant} The names are {', '.join(sorted(names))}. "
                f"Begin a helper's name with _, such as _{name}."
            )
    given = {name: value for name, value in values.items() if name in names}
    check_scenario(given, file)
    return given


def check_scenario(given: Mapping[str, Any], file: Path) -> None:
    """Check each value, and that the file gives messages or an event. Raises `InvalidScenario`."""
    for name, value in given.items():
        is_valid, remedy = CHECKS[name]
        if not is_valid(value):
            raise InvalidScenario(f"{file}: {name} is not valid. Give {remedy}.")
    if given.get("messages") and given.get("event") is not None:
        raise InvalidScenario(f"{file} has messages and an event. Give one of them.")


def check_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]], tables: Mapping[str, TableSchema], file: Path) -> None:
    """Check that the tables can hold the rows. Raises `InvalidScenario`, which names no value of a row."""
    for name, table_rows in rows.items():
        if name not in tables:
            there = f"The tables are {', '.join(sorted(tables))}." if tables else f'Name it: tables={{"{name}": "id"}}.'
            raise InvalidScenario(f"{file}: rows has the table {name}, which is not among the tables. {there}")
        for position, row in enumerate(table_rows, 1):
            missing, where = [key for key in tables[name].keys if key not in row], f"row {position} of {name} in rows"
            if missing:
                raise InvalidScenario(f"{file}: {where} lacks the key {missing[0]}. Give each row its key.")
            try:
                World.before({name: [row]}, tables)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                remedy = "Give text, whole numbers, Decimal, bytes, booleans, None, lists, mappings or sets, no float"
                raise InvalidScenario(f"{file}: {where} has a value that DynamoDB does not hold. {remedy}.") from error


def _is_taken(take: Callable[[], object]) -> bool:
    """Return whether a call takes what was given, rather than raising that it is of another form."""
    try:
        take()
    except (AttributeError, RecursionError, TypeError, ValueError):
        return False
    return True


def _is_read(read: Callable[[], Sequence[SqsMessage]]) -> bool:
    return _is_taken(lambda: [message.record(position) for position, message in enumerate(read())])


def _is_list(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and bool(value) and all(map(of, value))


def _is_mapping(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(name, str) and name for name in value)
        and all(map(of, value.values()))
    )


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_number(least: int, *kinds: type[int | float]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool) and value >= least


def _is_tables(value: Any) -> bool:
    if not _is_taken(lambda: tables_of(value)):
        return False
    schemas = tables_of(value)
    keys = [key for one in schemas.values() for key in (one.partition_key, *one.keys)]
    is_known = all(isinstance(one.indexes, Mapping) and isinstance(one.sort_key, str) for one in schemas.values())
    return is_known and all(isinstance(name, str) and name for name in (*schemas, *keys))


_Check = tuple[Callable[[Any], bool], str]
_WHETHER: _Check = (_is(bool), "True or False")
_COUNT: _Check = (_is_number(1, int), "a whole number, 1 or more")
_ROWS = _is_mapping(lambda rows: isinstance(rows, list | tuple) and all(map(_is_mapping(lambda _: True), rows)))
_ANSWERS = _is_mapping(lambda one: callable(one) or isinstance(one, Mapping))
_TEXTS = _is_list(_is(str))
CHECKS: dict[str, _Check] = {
    "messages": (
        _is_list(lambda one: _is_read(lambda: (message_of(0, one),))),
        "a list of one or more: bodies as text or JSON, records of SQS, or whole events",
    ),
    "event": (
        lambda value: value is not None and _is_read(lambda: messages_of((), value, fifo=False, splits=True)),
        "one whole event in JSON; its Records, if it has any, are a list of objects",
    ),
    "tables": (_is_tables, 'tables with one or two keys, such as {"orders": "id"} or {"orders": ("customer", "id")}'),
    "law": (
        lambda value: value is None or callable(value) or _is_list(callable)(value),
        "a function of the end, or a list of them",
    ),
    "ignore": (
        lambda value: isinstance(value, list | tuple | set | frozenset) and all(isinstance(one, str) for one in value),
        'a list such as ["orders.attempts"]',
    ),
    "env": (_is_mapping(_is(str)), 'texts by name, such as {"TABLE": "orders"}'),
    "answers": (_ANSWERS, 'mappings or functions by call, such as {"athena.start_query_execution": {}}'),
    "rows": (_ROWS, 'lists of rows by table, such as {"orders": [{"id": "o-0"}]}'),
    "objects": (_is_mapping(_is_mapping(_is(bytes, str))), 'text or bytes, such as {"bucket": {"key": "text"}}'),
    "parameters": (
        _is_mapping(lambda one: isinstance(one, str) or _TEXTS(one)),
        'texts by name, such as {"/app/table": "orders"}',
    ),
    "secrets": (
        _is_mapping(lambda one: isinstance(one, bytes) or _is_taken(lambda: json.dumps(one))),
        'texts, bytes or JSON by name, such as {"key": "text"}',
    ),
    "path": (
        lambda value: isinstance(value, str | Path) or _is_list(_is(str, Path))(value),
        'a folder, or a list of them, such as ["app", "layer"]',
    ),
    **dict.fromkeys(("batch", "copies", "timeout", "receives"), _COUNT),
    **dict.fromkeys(("faults", "visibility"), (_is_number(0, int), "a whole number, 0 or more")),
    "budget": (_is_number(0, int, float), "seconds, 0 or more"),
    **dict.fromkeys(("reports_failures", "bisects", "fifo", "acknowledges_only_finished", "answers_equal"), _WHETHER),
    "queue": (_is(str), "the queue's name as text"),
    "template": (_is(str, Path), "the path of a template"),
    "function": (_is(str), "the function's logical id as text"),
    "stack": (_is_mapping(lambda _: True), 'parameters by name, such as {"Stage": "prod"}'),
}
"""Whether a name has a valid value, and what to give. A name of `explore` without a check fails a test."""
