"""The `parse` of a consumer whose bodies have a declared shape: a pydantic model, a dataclass or a TypedDict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from types import UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.protocol import Body, JsonMessage

Read = Callable[[Any, str], Any]
_PLAIN: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float, Decimal), "a number"),
    Decimal: ((int, float, Decimal), "a number"),
    type(None): ((type(None),), "null"),
    list: ((list,), "a list"),
    dict: ((dict,), "an object"),
}


def typed(shape: type[Body]) -> Callable[[str, str, Any], JsonMessage[Body]]:
    """Return the `parse` of a consumer whose message's body is a `shape`: `take(message: JsonMessage[Order])`.

    A pydantic model validates the body. Of a dataclass and a TypedDict, each field is checked by its annotation, and further
    fields are ignored. The field that does not fit is named in `Unprocessable`, and its value is not.

    Raises `TypeError`, when the module is imported, for a field whose annotation only a pydantic model can check.
    """
    validate = getattr(shape, "model_validate", None)
    read: Read = (lambda body, _: validate(body)) if validate else _reader(shape, shape.__name__)
    return lambda message_id, payload_hash, body: JsonMessage(message_id, payload_hash, read(body, ""))


def _reader(hint: Any, place: str) -> Read:
    """Return the function `(value, name of the field)` → the value in that type; it raises `Unprocessable`."""
    inner = [_reader(each, place) for each in get_args(hint) if get_origin(hint) in (list, dict, Union, UnionType)]
    if is_dataclass(hint) or is_typeddict(hint):
        return _object(hint)
    if hint is Any:
        return lambda value, _: value
    if get_origin(hint) is Literal:
        return lambda value, name: value if value in get_args(hint) else _refuse(name, f"one of {get_args(hint)}")
    if get_origin(hint) in (Union, UnionType):
        return lambda value, name: _first_that_reads(inner, value, name)
    kinds, words = _PLAIN.get(get_origin(hint) or hint, ((), ""))
    if not kinds:
        raise TypeError(
            f"{place} has the type {hint}, which only a pydantic model can check. Use one, or another type."
        )
    to = hint if hint in (float, Decimal) else None

    def read(value: Any, name: str) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            _refuse(name, words)
        if kinds == (list,) and inner:
            return [inner[0](each, f"{name}[{at}]") for at, each in enumerate(value)]
        if kinds == (dict,) and inner:
            return {key: inner[1](each, f"{name}.{key}") for key, each in value.items()}
        return to(str(value)) if to else value

    return read


def _object(shape: Any) -> Read:
    """Return the reader of a dataclass or TypedDict."""
    hints = get_type_hints(shape)
    readers = {name: _reader(hint, f"{shape.__name__}.{name}") for name, hint in hints.items()}
    if is_typeddict(shape):
        # Python reads `NotRequired` within an annotation that is text only where it evaluates it.
        evaluated = get_type_hints(shape, include_extras=True)
        required = {name for name in shape.__required_keys__ if get_origin(evaluated[name]) is not NotRequired}
    else:
        required = {each.name for each in fields(shape) if each.default is MISSING and each.default_factory is MISSING}

    def read(body: Any, name: str) -> Any:
        if not isinstance(body, dict):
            _refuse(name or "the body", "an object")
        prefix = f"{name}." if name else ""
        for missing in sorted(required - body.keys()):
            _refuse(prefix + missing, "there")
        return shape(**{key: each(body[key], prefix + key) for key, each in readers.items() if key in body})

    return read


def _first_that_reads(readers: list[Read], value: Any, name: str) -> Any:
    refusals = []
    for read in readers:
        try:
            return read(value, name)
        except Unprocessable as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _refuse(name: str, words: str) -> Any:
    raise Unprocessable("invalid_field", f"{name} must be {words}")
