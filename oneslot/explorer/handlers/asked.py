"""What an invocation asks of a made event: the names that it reads, those that it misses, and values that don't fit.

While a first event grows, its open places (a body, a query, an authorizer) are objects and texts that note each
question. An exploration never sees these types: it runs on the plain JSON of the event that came out.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

from oneslot.explorer.handlers.surroundings.environment import is_installed

Way = tuple[str | int, ...]
"""Names and positions, from an event or a text to a value within it."""
Place = Way
"""Where a value is: the name of an open place, then the way within it."""
Places = Mapping[Way, str]
"""The open places of an event or of a text, by the way to them."""

NUMBER, OBJECT, LIST, TEXT = "number", "object", "list", "text"


class At:
    """The names of open places, by which facts have what a producer, a client or an account gives.

    A client chooses the values at `PARAMETERS` and `IDENTITY`; the source chooses their names. The source alone fills the
    places at `CLOSED`. `COLUMNS` are those of a table in an object. `NTH` tells which of its source's events this one is.
    """

    PAYLOAD, AUTHORIZER, ATTRIBUTES, KEY, OLD = "payload", "authorizer", "attributes", "key", "old"
    METHOD, PATH, PARAMETERS, IDENTITY = "method", "path", "parameters", "identity"
    ROWS, OBJECTS, TABLES, ANSWERS, SSM, SECRETS = "rows", "objects", "tables", "answers", "ssm", "secrets"
    COLUMNS, CLOSED, NTH = "columns", "closed", "nth"


MOST_OPTIONS = 30
"""The most texts of a table of options, such as an enum."""
_TYPES = {"S": TEXT, "N": NUMBER, "M": OBJECT, "L": LIST, "BOOL": NUMBER}
"""What DynamoDB's types hold."""
_IMAGES = ("NewImage", "OldImage")
_HOLDS = re.compile(
    r"(#?[\w.]+)\s*(=|<=|>=|<|>|BETWEEN)\s*(:\w+)|begins_with\s*\(\s*(#?[\w.]+)\s*,\s*(:\w+)"
    r"|attribute_exists\s*\(\s*(#?[\w.]+)"
)
"""What a row must have, in the expressions of DynamoDB."""
_COUNTED = re.compile(r"=\s*(#?\w+)\s*[-+]")  # what an update adds to must be there
_OF_JSON = "\ufeff"
"""The mark that Python's JSON refuses at the start of a text."""
ENOUGH = 1000
"""A number of a row from which may be taken twice."""
_BESIDE = {"<": -ENOUGH, "<=": -ENOUGH, ">": ENOUGH, ">=": ENOUGH}


@dataclass
class Asked:
    """What one invocation asked.

    Attributes:
        facts: the values of the open places.
        places: where these are in the event.
        texts: the open places of each JSON text of the event that has some.
        found: the values that were read, the latest last.
        missed: each name that was missed, and whether it had to be there.
        wants: the values that should be a number, an object (with this name) or a list, the latest last.
        compared: each text that a value was compared with.
        absent: the rows and objects that were looked for in vain, by their places.
        objects: the keys of the objects that were read.
        vain: the rows that were deleted, and were not there.
        paths: the paths of parameters that were looked below, each with a slash at its end.
        errors: the exceptions that passed through the handler, and through libraries other than AWS's.
    """

    facts: Mapping[str, Any]
    places: Places
    texts: Mapping[str, Places]
    found: dict[Place, None] = field(default_factory=dict)
    missed: dict[Place, bool] = field(default_factory=dict)
    wants: dict[tuple[Place, str, str], None] = field(default_factory=dict)
    compared: dict[tuple[Place, str], None] = field(default_factory=dict)
    absent: dict[Place, Any] = field(default_factory=dict)
    objects: list[str] = field(default_factory=list)
    vain: int = 0
    paths: list[str] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def event(self, text: str) -> Any:
        """Return the event, from its JSON, with its open places."""
        event = self._with_places(json.loads(text), self.places)
        return self.recorded(event, (At.CLOSED,)) if isinstance(event, dict) else event

    def decoded(self, text: str, value: Any) -> Any:
        """Return the value of a JSON text, with the open places that it has."""
        if isinstance(text, RecordedText) and text.at[0] in (At.SSM, At.SECRETS):
            return self.recorded(value, text.at)
        return self._with_places(value, self.texts[text]) if text in self.texts else value

    def note_read(self, at: Place) -> None:
        """Note that a value is read."""
        self.found.pop(at, None)
        self.found[at] = None

    def note_want(self, at: Place, kind: str, name: str = "") -> None:
        """Note what a value should be."""
        self.wants.pop((at, kind, name), None)
        self.wants[at, kind, name] = None

    def note_answer(self, operation: str, parameters: Mapping[str, Any], answer: dict[str, Any]) -> None:
        """Note a row or an object that does not exist, and follow what is asked of a row or an answer that was made."""
        for name, made in self.facts.get(At.ANSWERS, {}).items():
            if name.endswith(f".{operation}"):
                answer.update(self.recorded(made, (At.ANSWERS, name)))
        code = answer.get("Error", {}).get("Code")
        if code == "ResourceNotFoundException" and "TableName" in parameters:
            self._note_table(parameters)
        if operation in ("get_object", "head_object", "download_file", "list_objects", "list_objects_v2"):
            self.objects.append(key := parameters.get("Key", f"{parameters.get('Prefix', '')}first.json"))
            if code in ("NoSuchKey", "404") or answer.get("KeyCount") == 0:
                self.absent[At.OBJECTS, parameters["Bucket"], key] = "text"
        if operation == "get_secret_value":
            self._note_value((At.SECRETS, parameters["SecretId"]), answer, "SecretString")
        if operation.startswith("get_parameter"):
            self._note_parameters(parameters, answer)
        if operation in ("query", "scan") and "Items" in answer:
            self._note_search(parameters, answer)
        elif operation == "get_item" and not code:
            self._note_row(parameters, answer, {})
        elif code == "TransactionCanceledException":
            reasons = answer.get("CancellationReasons", ())
            for one, reason in zip(parameters["TransactItems"], reasons, strict=False):
                self._note_refused(next(iter(one.values())), reason["Code"])
        elif operation in ("put_item", "update_item", "delete_item"):
            known = len(self.absent)
            self._note_refused(parameters, "" if operation == "delete_item" and not code else code)
            self.vain += not code and len(self.absent) > known

    def _note_parameters(self, parameters: Mapping[str, Any], answer: dict[str, Any]) -> None:
        """Note the parameters that were asked for, by their names or the path above them."""
        found = [*answer.get("Parameters", ()), answer.get("Parameter", {})]
        names = parameters.get("Names", [parameters.get("Name")])
        if "Path" in parameters:
            self.paths.append(f"{parameters['Path'].rstrip('/')}/")
            names = [one["Name"] for one in found[:-1]] or [f"{self.paths[-1]}name-1"]
        for one in names:
            self._note_value((At.SSM, one), next((each for each in found if each.get("Name") == one), {}), "Value")

    def _note_value(self, at: Place, answer: dict[str, Any], name: str) -> None:
        """Note a parameter or a secret that was looked for in vain, and follow what is asked of one that was made."""
        if name in answer:
            answer[name] = self.recorded(answer[name], at)
        elif isinstance(at[1], str):
            self.absent[at] = "value-1"

    def _note_refused(self, parameters: Mapping[str, Any], code: str | None) -> None:
        """Note the row that a write expects: its condition does not hold, or it adds to what is not there."""
        row: dict[str, Any] = {}
        if str(code).startswith("ConditionalCheckFailed"):
            row = _expected(parameters, parameters.get("ConditionExpression", ""))
        elif str(code).startswith("Validation"):
            names = parameters.get("ExpressionAttributeNames", {})
            counted = _COUNTED.findall(parameters.get("UpdateExpression", ""))
            row = {names.get(name, name): ENOUGH for name in counted}
            for value in parameters.get("ExpressionAttributeValues", {}).values():
                text = value.get("S") if isinstance(value, dict) else value
                if isinstance(text, RecordedText):
                    self.note_want(text.at, NUMBER)
        if row or ("Key" in parameters and code is not None):
            self._note_row(parameters, {}, row)

    def _note_table(self, parameters: Mapping[str, Any]) -> None:
        """Note a table that the template does not have: its key is that of a look-up, or else an id, or a row's first name."""
        searched = "" if "IndexName" in parameters else parameters.get("KeyConditionExpression", "")
        key = {name: plain(value) for name, value in parameters.get("Key", _expected(parameters, searched)).items()}
        item = sorted(parameters.get("Item", {}), key=lambda name: not name.lower().endswith("id"))
        kinds = {name: "N" if isinstance(value, int) else "S" for name, value in key.items()}
        table = str(parameters["TableName"]).rpartition("/")[2]
        self.absent[At.TABLES, table] = kinds or {(item or ["id"])[0]: "S"}

    def _note_row(self, parameters: Mapping[str, Any], answer: dict[str, Any], more: Mapping[str, Any]) -> None:
        """Note a row that is not there, or lacks `more`, and follow what is asked of one that is."""
        key = {name: plain(value) for name, value in parameters.get("Key", parameters.get("Item", {})).items()}
        table = str(parameters["TableName"]).rpartition("/")[2]
        rows = [*self.facts.get(At.ROWS, {}).get(table, ()), {}]
        number = next((one for one, row in enumerate(rows) if key.items() <= row.items()), len(rows) - 1)
        if "Item" in answer:
            answer["Item"] = self._row(answer["Item"], (At.ROWS, table, number)) if rows[number] else answer["Item"]
        elif not {**key, **more}.items() <= rows[number].items():
            self.absent[At.ROWS, table, number] = {**rows[number], **more, **key}

    def _note_search(self, parameters: Mapping[str, Any], answer: dict[str, Any]) -> None:
        """Note the row that a Query or a Scan looked for, as far as its conditions name values."""
        table = str(parameters["TableName"]).rpartition("/")[2]
        rows = self.facts.get(At.ROWS, {}).get(table, [])
        if not answer["Items"] and not rows:
            texts = " ".join(str(parameters.get(one, "")) for one in ("KeyConditionExpression", "FilterExpression"))
            self.absent[At.ROWS, table, 0] = _expected(parameters, texts)
        made = [{name: plain(value) for name, value in one.items()} for one in answer["Items"]]
        for position, one in enumerate(made):
            number = next((at for at, row in enumerate(rows) if row.items() <= one.items()), None)
            if number is not None:
                answer["Items"][position] = self._row(answer["Items"][position], (At.ROWS, table, number))

    def _row(self, item: dict[str, Any], at: Place) -> Any:
        return self.recorded(item, at, typed=all(isinstance(one, dict) and len(one) == 1 for one in item.values()))

    def _with_places(self, value: Any, places: Places) -> Any:
        for way, name in places.items():
            if not way:
                return self.recorded(value, (name,))
            *outer, last = way
            within = value_at(value, outer)
            held = within.get(last) if isinstance(within, dict) else None
            if isinstance(within, dict) and (held is not None or name in self.facts):
                within[last] = self.recorded(held or {}, (name,), typed=last in _IMAGES)
        return value

    def recorded(self, value: Any, at: Place, *, typed: bool = False) -> Any:
        """Return a value that notes what is asked of it. `typed`: whether DynamoDB writes the types of its values."""
        if isinstance(value, RecordedDict | RecordedText):
            return value
        if isinstance(value, dict):
            return (RecordedItem if typed else RecordedDict)(self, at, value)
        if isinstance(value, list):
            return [self.recorded(one, (*at, position)) for position, one in enumerate(value)]
        return RecordedText(value, self, at) if isinstance(value, str) else value


def _expected(parameters: Mapping[str, Any], expression: str) -> dict[str, Any]:
    """Return what a row has for which an expression holds, as far as it compares attributes with values."""
    names, values = (parameters.get(f"ExpressionAttribute{one}", {}) for one in ("Names", "Values"))
    row: dict[str, Any] = {}
    for compared, how, value, prefixed, prefix, there in _HOLDS.findall(expression):
        name = names.get(compared or prefixed or there, compared or prefixed or there)
        held = plain(values.get(value or prefix, f"{name}-1"))
        row[name] = held + _BESIDE.get(how, 0) if isinstance(held, int) else held
    return {name: value for name, value in row.items() if "." not in name}


def plain(value: Any) -> Any:
    """Return a value of DynamoDB, with or without its type, as JSON has it."""
    kind, held = next(iter(value.items())) if isinstance(value, Mapping) and len(value) == 1 else ("", value)
    if kind in _TYPES:
        value = held
    if type(value).__name__ == "Decimal" or (kind == "N" and str(value).lstrip("-").isdigit()):
        return int(value) if int(value) == value or kind == "N" else float(value)
    return value


def value_at(value: Any, way: Sequence[str | int]) -> Any:
    """Return the value at the end of a way; None if there is none."""
    for step in way:
        if isinstance(value, dict):
            value = value.get(step)
        else:
            value = value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None
    return value


class RecordedDict(dict[Any, Any]):
    """An object of a made event. It is true although it is empty: only names that are asked for make it grow."""

    __slots__ = ("_asked", "_at")

    def __init__(self, asked: Asked, at: Place, value: Mapping[str, Any]) -> None:
        self._asked, self._at = asked, at
        super().__init__({name: self._child(name, one) for name, one in value.items()})

    def _child(self, name: str, value: Any) -> Any:
        return self._asked.recorded(value, (*self._at, name))

    def _note(self, name: Any, *, must: bool) -> bool:
        is_there, at = dict.__contains__(self, name), (*self._at, name)
        if not isinstance(name, str):
            return is_there
        if is_there and (self._at[0] == At.CLOSED or super().__getitem__(name) is not None):
            self._asked.note_read(at)
            return True
        at = at if is_there or self._at[0] not in (At.PARAMETERS, At.IDENTITY) else (At.CLOSED, name)
        self._asked.missed[at] = self._asked.missed.get(at, False) or must
        return is_there

    def __getitem__(self, name: Any) -> Any:
        self._note(name, must=True)
        return super().__getitem__(name)

    def get(self, name: Any, default: Any = None) -> Any:
        """Return a value, and note the name."""
        return super().__getitem__(name) if self._note(name, must=False) else default

    def __contains__(self, name: Any) -> bool:
        return self._note(name, must=False)

    def pop(self, name: Any, *default: Any) -> Any:
        """Remove a value, and note the name."""
        self._note(name, must=not default)
        return super().pop(name, *default)

    def __bool__(self) -> bool:
        return self._at[0] != At.CLOSED or len(self) > 0

    def copy(self) -> RecordedDict:
        """Return a copy that notes in the same places: a body within an event stays open."""
        return type(self)(self._asked, self._at, {name: copy.deepcopy(one) for name, one in self.items()})

    def __deepcopy__(self, memo: Any) -> RecordedDict:
        return self.copy()

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class RecordedItem(RecordedDict):
    """An image of a row: DynamoDB writes the type of each value beside it."""

    __slots__ = ()

    def _child(self, name: str, value: Any) -> Any:
        return RecordedValue(self._asked, (*self._at, name), value)


class RecordedValue(RecordedDict):
    """One value of a row, as DynamoDB writes it: `{"S": "text"}`."""

    __slots__ = ()

    def _child(self, name: str, value: Any) -> Any:
        if name == "M":
            return RecordedItem(self._asked, self._at, value)
        if name == "L":
            return [RecordedValue(self._asked, (*self._at, position), one) for position, one in enumerate(value)]
        return RecordedText(value, self._asked, self._at) if name == "S" else value

    def _note(self, name: Any, *, must: bool) -> bool:
        is_there = dict.__contains__(self, name)
        self._asked.note_read(self._at)
        if not is_there and name in _TYPES:
            self._asked.note_want(self._at, _TYPES[name])
        return is_there


def _as_number(operation: str, *, own: bool = True) -> Any:
    """Return an operation that texts don't have with numbers, and that notes a number."""

    def operate(self: RecordedText, other: Any) -> Any:
        if isinstance(other, int | float) or type(other).__name__ == "Decimal":
            self.asked.note_want(self.at, NUMBER)
        return getattr(str, operation)(self, other) if own else NotImplemented

    return operate


def _in_place(operation: str) -> Any:
    """Return an operation of texts whose result stays in the same place."""

    def operate(self: RecordedText, *given: Any) -> RecordedText:
        return RecordedText(getattr(str, operation)(self, *given), self.asked, self.at)

    return operate


class RecordedText(str):
    """A text of a made event. It notes that something else is wanted in its place."""

    asked: Asked
    at: Place

    def __new__(cls, value: str, asked: Asked, at: Place) -> RecordedText:
        """Return the text with its place."""
        made = super().__new__(cls, value)
        made.asked, made.at = asked, at
        return made

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("get", "items", "keys", "values"):
            self.asked.note_want(self.at, OBJECT)
        if name in ("append", "extend", "sort"):
            self.asked.note_want(self.at, LIST)
        raise AttributeError(f"'str' object has no attribute '{name}'")

    def __getitem__(self, key: Any) -> str:
        if isinstance(key, str):
            self.asked.note_want(self.at, OBJECT, key)
        part = super().__getitem__(key)
        return RecordedText(part, self.asked, (*self.at, 0)) if key == 0 else part

    def __iter__(self) -> Iterator[str]:
        self.asked.note_want(self.at, LIST)
        return (RecordedText(one, self.asked, (*self.at, 0)) for one in str(self))

    def _compare(self, other: object) -> None:
        if isinstance(other, str) and not isinstance(self.at[-1], int) and self.at[0] != At.CLOSED:
            self.asked.compared[self.at, str(other)] = None

    def __eq__(self, other: object) -> bool:
        equal = str.__eq__(self, other)
        if equal is False:
            self._compare(other)
        return equal

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        for one in _options(sys._getframe(1)) if self.at[0] != At.CLOSED else ():
            self.asked.compared.setdefault((self.at, one))
        return str.__hash__(self)

    def startswith(self, prefix: str | tuple[str, ...], *bounds: Any) -> bool:
        """Return whether it starts so, and note with what it should."""
        begins = super().startswith(prefix, *bounds)
        if not begins and not bounds and prefix != _OF_JSON:
            self._compare(f"{prefix if isinstance(prefix, str) else next(iter(prefix), '')}{self}")
        return begins

    def endswith(self, suffix: str | tuple[str, ...], *bounds: Any) -> bool:
        """Return whether it ends so, and note with what it should."""
        ends = super().endswith(suffix, *bounds)
        if not ends and not bounds:
            ending = suffix if isinstance(suffix, str) else next(iter(suffix), "")
            self._compare(f"{self.rpartition('.')[0] or self}{ending}")
        return ends

    def _number(self, kind: Any) -> Any:
        try:
            return kind(str(self))
        except ValueError:
            self.asked.note_want(self.at, NUMBER)
            raise

    def __int__(self) -> int:
        return int(self._number(int))

    def __index__(self) -> int:
        self.asked.note_want(self.at, NUMBER)
        raise TypeError("'str' object cannot be interpreted as an integer")

    def __float__(self) -> float:
        return float(self._number(float))

    def __format__(self, how: str) -> str:
        try:
            return super().__format__(how)
        except ValueError:
            self.asked.note_want(self.at, NUMBER)
            raise

    def __str__(self) -> str:
        return str.__str__(self)[:]

    def __deepcopy__(self, memo: Any) -> RecordedText:
        return self

    def __reduce__(self) -> Any:
        return str, (str.__str__(self),)

    lower, upper, strip, replace = (_in_place(one) for one in ("lower", "upper", "strip", "replace"))
    __add__, __mul__ = _as_number("__add__"), _as_number("__mul__")
    __lt__, __le__, __gt__, __ge__ = (_as_number(f"__{one}__") for one in ("lt", "le", "gt", "ge"))
    __radd__, __rmul__, __sub__, __rsub__, __truediv__, __floordiv__ = (_as_number("", own=False) for _ in range(6))


RecordedText.__name__ = RecordedText.__qualname__ = "str"  # as it is in the texts of failures
RecordedDict.__name__ = RecordedItem.__name__ = RecordedValue.__name__ = "dict"


def _options(frame: FrameType) -> Iterator[str]:
    """Yield the texts among which code may look a text up: those of the tables that a line's function can see."""
    code = frame.f_code
    if is_installed(code.co_filename) and not code.co_filename.endswith("/enum.py"):
        return
    seen: list[Any] = [*code.co_consts, *(frame.f_globals.get(name) for name in code.co_names)]
    for one in frame.f_locals.values():
        is_table = isinstance(one, set | frozenset | dict) and not isinstance(one, RecordedDict)
        seen.append(one if is_table and "Records" not in one else getattr(one, "_value2member_map_", None))
    for one in seen:
        if isinstance(one, dict | set | frozenset) and len(one) <= MOST_OPTIONS:
            yield from (name for name in list(one) if type(name) is str)
