"""A message whose body is JSON: as it is, or of a declared shape, a pydantic model, a dataclass or a TypedDict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from decimal import Decimal
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NotRequired,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.record import payload_hash

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Body = TypeVarWithDefault("Body", default=Any)
else:
    Body = TypeVar("Body")


@dataclass(frozen=True, slots=True)
class JsonMessage(Generic[Body]):
    """A message whose body the decision reads as it is: the `parse` of a consumer that accepts every body.

    `body` is a JSON object, or with `typed` an object of a declared shape. Where the consumer has its own `identity`, a body
    that is not JSON is its text.
    `payload_hash` is by default the body's digest.
    """

    message_id: str
    payload_hash: str = ""
    body: Body = field(default_factory=dict, repr=False)  # type: ignore[assignment]  # of a message without a shape

    def __post_init__(self) -> None:
        if not self.payload_hash:
            object.__setattr__(self, "payload_hash", payload_hash(cast(Any, self.body)))


_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", type(None): "null"}
_HELD: dict[type, tuple[type, ...]] = {float: (float, int, Decimal)}
"""What JSON's numbers are in Python."""


def typed(shape: type[Body]) -> Callable[[str, str, Any], JsonMessage[Body]]:
    """Return the `parse` of a consumer whose message's body is a `shape`: `take(message: JsonMessage[Order])`.

    A pydantic model validates the body. A dataclass and a TypedDict have fields of text, numbers, booleans and null, and
    further fields of the body are ignored. `Unprocessable` names the field that does not fit, and not its value.

    Raises `TypeError`, when the module is imported, for a field of another type: only a pydantic model checks those.
    """
    validate: Callable[[Any], Any] = getattr(shape, "model_validate", None) or _reader(shape)
    return lambda message_id, digest, body: JsonMessage(message_id, digest or payload_hash(body), validate(body))


def _reader(shape: Any) -> Callable[[Any], Any]:
    # Python reads `NotRequired` and `Required` within an annotation that is text only where it evaluates it.
    evaluated = get_type_hints(shape, include_extras=True)
    optional = {name for name, hint in evaluated.items() if get_origin(hint) is NotRequired}
    hints = get_type_hints(shape)
    if is_dataclass(shape):
        given = [each for each in fields(shape) if each.init]  # a ClassVar is annotated, and no field
        hints = {each.name: hints[each.name] for each in given}
        optional |= {each.name for each in given if (each.default, each.default_factory) != (MISSING, MISSING)}
    else:
        optional |= {name for name in shape.__optional_keys__ if get_origin(evaluated[name]) is not Required}
    kinds = {}
    for name, hint in hints.items():
        kinds[name] = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if not set(kinds[name]) <= _WORDS.keys():
            raise TypeError(
                f"{shape.__name__}.{name} has the type {hint}, which only a pydantic model checks. Make {shape.__name__} one."
            )

    def fits(value: Any, kind: type) -> bool:
        # True is an int to Python, and not to JSON.
        return isinstance(value, _HELD.get(kind, (kind,))) and isinstance(value, bool) == (kind is bool)

    def read(body: Any) -> Any:
        if not isinstance(body, dict):
            raise Unprocessable("invalid_field", "the body must be an object")
        for name, wanted in kinds.items():
            if not any(fits(body[name], kind) for kind in wanted) if name in body else name not in optional:
                raise Unprocessable("invalid_field", f"{name} must be {' or '.join(_WORDS[kind] for kind in wanted)}")
        return shape(**{name: body[name] for name in kinds if name in body})

    return read
