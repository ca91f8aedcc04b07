"""The values that stores hold, between Python, DynamoDB's attribute values and JSON. Nothing is rounded.

| Python                              | DynamoDB         | read back as                             |
|-------------------------------------|------------------|------------------------------------------|
| text, truth, None                   | `S`, `BOOL`, `NULL` | the same                              |
| whole number, `Decimal`             | `N`              | `int` if it is whole, else `Decimal`     |
| bytes                               | `B`              | bytes                                    |
| mapping, list or tuple              | `M`, `L`         | dict, list                               |
| set of texts, of numbers, of bytes  | `SS`, `NS`, `BS` | set                                      |

Pure, and without boto3. To convert is to check: what DynamoDB would refuse raises `InvalidValue`, whatever store is in use.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Set
from decimal import Decimal
from itertools import chain, zip_longest
from typing import Any

MAXIMUM_DIGITS = 38
_WHOLE = 10**MAXIMUM_DIGITS
SMALLEST_EXPONENT, LARGEST_EXPONENT = -130, 125
"""A number of DynamoDB is 0, or has a magnitude from 1E-130 to 9.99...E+125; zeros at its ends are not digits of it."""
MAXIMUM_LEVELS = 32
"""Levels of an attribute: its own value is the first, and an element of a list or mapping is one below."""
MOST_LEVELS = 100
"""Of JSON: a body, a result, and what a decision sends. Python 3.11 itself reads about 990, and other readers fewer."""
SHOWN_STEPS = 6

_HOLDS = "write text, numbers, bytes, booleans, None, lists, mappings or sets"


class InvalidValue(ValueError):
    """DynamoDB holds no such value. The text names the place in it and the remedy, and quotes no content.

    Attributes:
        of_content: the type is right, and the content breaks a limit. Another message may pass, and this one never will.
        path: the names and positions that lead to the value.
    """

    def __init__(self, problem: str, *, of_content: bool) -> None:
        super().__init__(problem)
        self.problem = problem
        self.of_content = of_content
        self.path: list[str | int] = []

    @property
    def place(self) -> str:
        """The path as one text, as an error shows it."""
        return shown_path(self.path)

    def __str__(self) -> str:
        return f"{self.place!r} {self.problem}" if self.path else f"the value {self.problem}"


def shown_name(name: object) -> str:
    """Return a field's name for an error; `...` for one that may be content, such as a patient's number used as a name."""
    return name if isinstance(name, str) and re.fullmatch(r"(?!(.*\d){6})[^\W\d][\w.:-]{0,63}", name) else "..."


def shown_path(path: Iterable[object]) -> str:
    """Return names and positions as one text, such as `lines[0].price`; of a long path the first steps."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{shown_name(step)}" for step in path]
    return "".join(steps[:SHOWN_STEPS]).removeprefix(".") + "..." * (len(steps) > SHOWN_STEPS)


def to_attribute(value: Any, level: int = 0) -> dict[str, Any]:  # noqa: PLR0911 - one return for each type
    """Return a value as DynamoDB's typed attribute value. `level` is 0 for a whole item, 1 for an attribute.

    Raises:
        InvalidValue: for what DynamoDB does not hold.
    """
    if level > MAXIMUM_LEVELS:
        raise InvalidValue(
            f"is nested more than {MAXIMUM_LEVELS} levels deep; flatten it, or write it as JSON text", of_content=True
        )
    if type(value) is str:  # first, because most values are text
        return {"S": require_text(value)}
    match value:
        case str():
            return {"S": require_text(str.__str__(value))}
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | Decimal():
            return {"N": number_text(value)}
        case Mapping():
            return {"M": _members(value, level)}
        case list() | tuple():
            return {"L": [_at(at, each, level) for at, each in enumerate(value)]}
        case Set():
            return _set(value)
    return {"B": _bytes(value)}


def require_text(text: str) -> str:
    """Return the text. Raises `InvalidValue` for half a surrogate pair, which no service takes."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # which quotes the text
            raise InvalidValue(
                "has half a surrogate pair, which is not text; correct the sender", of_content=True
            ) from None
    return text


def from_attribute(attribute: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one return for each type
    """Return the value of DynamoDB's typed attribute value. Bytes are bytes from boto3, and Base64 in exports and streams."""
    ((kind, content),) = attribute.items()
    match kind:
        case "N":
            return number(content)
        case "M":
            return from_attributes(content)
        case "L":
            return [from_attribute(each) for each in content]
        case "SS" | "NS" | "BS":
            return {from_attribute({kind[0]: each}) for each in content}
        case "B":
            return base64.b64decode(content) if isinstance(content, str) else bytes(content)
        case "NULL":
            return None
        case "S" | "BOOL":
            return content
    raise TypeError("not an attribute value of DynamoDB: its one name is S, N, B, BOOL, NULL, M, L, SS, NS or BS")


def to_attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values as DynamoDB's typed attribute values. Raises `InvalidValue` for what DynamoDB does not hold."""
    return _members(item, 0)


def from_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return DynamoDB's typed attribute values as plain values: a whole number is an `int`, a fraction a `Decimal`."""
    plain = {}
    for (
        name,
        each,
    ) in attributes.items():  # nearly all are texts and whole numbers, and a call for each is most of the time
        if "S" in each:
            plain[name] = each["S"]
        elif "N" in each and each["N"].isdigit():
            plain[name] = int(each["N"])
        else:
            plain[name] = from_attribute(each)
    return plain


def size(attribute: Mapping[str, Any]) -> int:  # noqa: PLR0911 - one return for each type
    """Return about how many bytes DynamoDB counts for an attribute value, by the rules of its developer guide."""
    ((kind, content),) = attribute.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return (len(content.strip("-0.")) + 1) // 2 + 1
        case "B":
            return len(content)
        case "M":
            total = 3 + len(content)
            for name, each in content.items():  # nearly all are texts, and a call for each is most of the time
                total += len(name.encode()) + (len(each["S"].encode()) if "S" in each else size(each))
            return total
        case "L":
            return 3 + sum(size(each) + 1 for each in content)
        case "SS" | "NS" | "BS":
            return sum(size({kind[0]: each}) for each in content)
    return 1


def number(text: str) -> int | Decimal:
    """Return a number that was written as text: an `int` if it is whole, else a `Decimal` with all its digits."""
    if text.isdigit():  # most are whole, and this is faster
        return int(text)
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else exact


def number_text(value: int | Decimal) -> str:
    """Return a number as DynamoDB writes it: plain, without exponent, and without zeros at its ends.

    Raises:
        InvalidValue: for more than 38 digits, a magnitude outside of DynamoDB's range, NaN and infinity.
    """
    if isinstance(value, int) and -_WHOLE < value < _WHOLE:
        return str(int(value))
    exact = Decimal(value)
    _require_range(exact)
    if len("".join(map(str, exact.as_tuple().digits)).rstrip("0")) > MAXIMUM_DIGITS:
        raise InvalidValue(
            f"has more than {MAXIMUM_DIGITS} digits; shorten the number, or write it as text", of_content=True
        )
    return _plain(exact)


def require_levels(value: Any, text: str) -> None:
    """Raise `ValueError` for a value that is nested more than `MOST_LEVELS` deep; `text` is its JSON."""
    if text.count("{") + text.count("[") <= MOST_LEVELS:
        return
    level, within = 0, [value]
    while within := [
        inner
        for each in within
        if isinstance(each, Mapping | list | tuple)
        for inner in (each.values() if isinstance(each, Mapping) else each)
    ]:
        level += 1
        if level >= MOST_LEVELS and any(isinstance(each, Mapping | list | tuple) for each in within):
            raise ValueError(f"JSON is nested more than {MOST_LEVELS} levels deep")


def to_json(value: Any, *, decimal: Callable[[Decimal], str] | None = None, other: Any = None, **options: Any) -> str:
    """Return JSON text in which a `Decimal` is a number with all its digits, which `json.dumps` cannot write.

    Args:
        decimal: writes a `Decimal`; by default as a plain number.
        other: as `json.dumps`'s `default`, for what is no JSON either.
        options: as of `json.dumps`.
    """
    mark, found = "\0", list[str]()

    def default(each: Any) -> Any:
        if isinstance(each, Decimal):
            found.append((decimal or _plain)(each))
            return mark
        if other is None:
            raise TypeError(f"a {type(each).__name__} is not JSON")
        return other(each)

    while True:
        parts = json.dumps(value, default=default, **options).split(json.dumps(mark))
        if len(parts) == len(found) + 1:
            return "".join(chain.from_iterable(zip_longest(parts, found, fillvalue="")))
        mark, found = mark + "\0", []  # the value has this very text; take another


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted names, no spaces. Equal values have equal texts.

    A fraction is a `float` or a `Decimal`, and is read back as what it was: a `Decimal` ends in `E0`.

    Raises:
        InvalidValue: for a `Decimal` out of DynamoDB's range: plain, a short one can have more digits than memory.
        TypeError, ValueError, RecursionError: for what JSON cannot hold, and for more than `MOST_LEVELS` levels.
    """
    try:
        text = _CANONICAL.encode(value)
    except TypeError:  # for a `Decimal`, and for what JSON cannot hold
        text = to_json(value, decimal=_marked, sort_keys=True, separators=(",", ":"), allow_nan=False)
    require_levels(value, text)
    return text


def plain_json(value: Any) -> str:
    """Return JSON text for readers elsewhere, in UTF-8, with sorted names and plain numbers. Raises as `canonical_json` does.

    Two characters stay escaped: they are not XML, and SQS refuses them.
    """
    text = to_json(value, decimal=_in_range, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    require_levels(value, text)
    return require_text(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def from_json(text: str) -> Any:
    """Return what `canonical_json` was given."""
    return _RECORDED.decode(text)


# Made once: to make them takes longer than to use them.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_RECORDED = json.JSONDecoder(parse_float=lambda each: number(each) if each.endswith("E0") else float(each))


def fraction(text: str) -> float | Decimal:
    """Return a number of JSON that is not whole: a `Decimal` where a float would lose digits.

    Raises:
        ValueError: for one above 1e308, because all of them would count as one.
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    exact = Decimal(text)
    kept = Decimal(repr(number)) == exact or not SMALLEST_EXPONENT <= exact.adjusted() <= LARGEST_EXPONENT
    return number if kept else exact


def _in_range(value: Decimal) -> str:
    _require_range(value)
    return _plain(value)


def _marked(value: Decimal) -> str:
    text = _in_range(value)
    return f"{text}E0" if "." in text else text


def _plain(value: Decimal) -> str:
    """Return a finite number's text. `normalize` would round it to the context's digits."""
    if not value.is_finite():
        raise ValueError("NaN and infinity are not JSON")
    if not value:
        return "0"  # whatever its exponent, which `format` would write out
    text = format(value, "f")
    return text.rstrip("0").removesuffix(".") if "." in text else text


def _require_range(value: Decimal) -> None:
    if not value.is_finite():
        raise InvalidValue("is NaN or infinite, which is not a number; leave it out", of_content=True)
    if value and not SMALLEST_EXPONENT <= value.adjusted() <= LARGEST_EXPONENT:
        raise InvalidValue(
            f"is out of range: a number is 0, or from 1E{SMALLEST_EXPONENT} to 9.9E+{LARGEST_EXPONENT} in magnitude; "
            "write it as text",
            of_content=True,
        )


def _members(values: Mapping[Any, Any], level: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    shallow = level < MAXIMUM_LEVELS
    for name, value in values.items():
        if shallow and type(name) is str and name and name.isascii():
            # As below, in a third of the time: nearly all values are such texts and numbers.
            if type(value) is str and value.isascii():
                members[name] = {"S": value}
                continue
            if type(value) is int and -_WHOLE < value < _WHOLE:
                members[name] = {"N": str(value)}
                continue
        text = _name(name)  # before its value is looked at
        members[text] = _at(name, value, level)
    return members


def _at(step: str | int, value: Any, level: int) -> dict[str, Any]:
    try:
        return to_attribute(value, level + 1)
    except InvalidValue as error:
        error.path.insert(0, step)
        raise


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidValue(
            f"has a key that is not text but {type(name).__name__}; write text as the key", of_content=False
        )
    if not name:
        raise InvalidValue("has an empty key, which DynamoDB refuses; name it, or leave it out", of_content=True)
    return require_text(name)


def _set(elements: Set[Any]) -> dict[str, Any]:
    if not elements:
        raise InvalidValue("is an empty set; leave the attribute out", of_content=True)
    attributes = [to_attribute(element) for element in elements]
    kinds = {kind for attribute in attributes for kind in attribute}
    if len(kinds) > 1 or not kinds <= {"S", "N", "B"}:
        raise InvalidValue(
            "is a set of other types; a set holds only texts, only numbers or only bytes", of_content=False
        )
    (kind,) = kinds
    contents = [attribute[kind] for attribute in attributes]
    if not all(contents):
        raise InvalidValue("is a set with an empty element; leave the element out", of_content=True)
    return {f"{kind}S": sorted(contents, key=Decimal if kind == "N" else None)}


def _bytes(value: Any) -> bytes:
    value = getattr(value, "value", value) if type(value).__name__ == "Binary" else value  # boto3's own type
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    # With its module, because NumPy's truth is called `bool` as well.
    kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    remedy = _HOLDS
    if isinstance(value, float):
        remedy = "write Decimal(str(value)), or a whole number such as pence"
    elif kind.startswith("numpy."):
        remedy = "write value.item(), which is Python's own"
    raise InvalidValue(f"is a {kind}, which no table holds; {remedy}", of_content=False)
