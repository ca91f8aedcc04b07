"""DynamoDB's attribute values: validation, a normal form in which equal values are equal, order, and arithmetic."""

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

AttributeValue = Mapping[str, Any]
TypedItem = Mapping[str, AttributeValue]
"""An item in the wire format: attribute name → one of {"S": text}, {"N": digits}, {"BOOL": ...}, ..."""

TYPES = ("S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS")
SETS = ("SS", "NS", "BS")
COMPARATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MAXIMUM_DIGITS = 38
_EXACT = Context(prec=400, Emax=999, Emin=-999)


class InvalidExpression(ValueError):
    """An expression or a value that DynamoDB refuses with a ValidationException."""


def type_of(value: AttributeValue) -> str:
    """Return a value's type, such as `S`."""
    return next(iter(value))


def normalised(value: AttributeValue) -> AttributeValue:
    """Return a value in the form in which DynamoDB keeps it: numbers without zeros that do not count, sets in order.

    Raises `InvalidExpression` for a value that DynamoDB does not keep.
    """
    if len(value) != 1:
        raise InvalidExpression("Supplied AttributeValue has more than one datatypes set, or none")
    ((kind, content),) = value.items()
    if kind in ("S", "BOOL"):
        return value
    form = _FORMS.get(kind)
    if form is None:
        raise InvalidExpression(
            f"Supplied AttributeValue is empty, must contain exactly one of the supported datatypes: {kind}"
        )
    kept = form(content)
    return value if kept is content or (type(kept) is type(content) and kept == content) else {kind: kept}


def _null(content: Any) -> Any:
    if content is not True:
        raise InvalidExpression("Null attribute value types must have the value of true")
    return content


def _set(kind: str, content: Sequence[Any]) -> list[Any]:
    elements = [normalised({kind[0]: element})[kind[0]] for element in content]
    if not elements:
        raise InvalidExpression(f"One or more parameter values were invalid: An {kind} set may not be empty")
    if kind != "NS" and not all(elements):
        raise InvalidExpression("One or more parameter values were invalid: a set may not have an empty member")
    if len(set(elements)) != len(elements):
        raise InvalidExpression("One or more parameter values were invalid: Input collection contains duplicates.")
    return sorted(elements, key=Decimal if kind == "NS" else None)


def number_text(text: str) -> str:
    """Return a number as DynamoDB writes it."""
    if len(text) <= MAXIMUM_DIGITS and text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return text
    try:
        number = _EXACT.create_decimal(text).normalize(_EXACT)
    except InvalidOperation:
        raise InvalidExpression(f"The parameter cannot be converted to a numeric value: {text}") from None
    if not number.is_finite() or (number and not -130 <= number.adjusted() <= 125):  # noqa: PLR2004
        raise InvalidExpression("Number overflow or underflow: its magnitude is outside of the supported range")
    if len(number.as_tuple().digits) > MAXIMUM_DIGITS:
        raise InvalidExpression("Attempting to store more than 38 significant digits in a Number")
    return format(number, "f") if number else "0"


_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "N": number_text,
    "B": bytes,
    "NULL": _null,
    "M": lambda members: {name: normalised(member) for name, member in members.items()},
    "L": lambda elements: [normalised(element) for element in elements],
    **{kind: partial(_set, kind) for kind in SETS},
}


def ordered(comparator: str, left: AttributeValue, right: AttributeValue) -> bool:
    """Return whether two values are in this order; false for values of different types."""
    (left_type, left_value), (right_type, right_value) = *left.items(), *right.items()
    if left_type != right_type or left_type not in ("S", "N", "B"):
        return False
    key = order_key(left_type)
    return COMPARATORS[comparator](key(left_value), key(right_value))


def order_key(kind: str) -> Callable[[Any], Any]:
    """Return the function under which contents of this type are in DynamoDB's order: numbers, or bytes of UTF-8."""
    return Decimal if kind == "N" else (str.encode if kind == "S" else bytes)


def contains(container: AttributeValue, element: AttributeValue) -> bool:
    """Return whether a text has this part, or a set or a list this element."""
    (kind, content), (element_kind, wanted) = *container.items(), *element.items()
    if kind == "L":
        return element in content
    if kind in SETS:
        return kind[0] == element_kind and wanted in content
    return kind == element_kind and kind in ("S", "B") and wanted in content


def begins_with(value: AttributeValue, start: AttributeValue) -> bool:
    """Return whether a text or binary begins with another."""
    (kind, content), (start_kind, wanted) = *value.items(), *start.items()
    return bool(kind == start_kind and kind in ("S", "B") and content.startswith(wanted))


def size(value: AttributeValue) -> AttributeValue | None:
    """Return the length of a text or binary, or the number of elements; None for other types."""
    ((kind, content),) = value.items()
    return None if kind in ("N", "BOOL", "NULL") else {"N": str(len(content))}


def added(left: AttributeValue, right: AttributeValue, sign: int = 1) -> AttributeValue:
    """Return the sum, or with `sign` -1 the difference, of two numbers."""
    if "N" not in left or "N" not in right:
        raise InvalidExpression("An operand in the update expression has an incorrect data type")
    right_number = Decimal(right["N"])
    total = _EXACT.add(Decimal(left["N"]), right_number if sign > 0 else -right_number)
    return {"N": number_text(str(total))}


def appended(left: AttributeValue, right: AttributeValue) -> AttributeValue:
    """Return two lists as one."""
    if "L" not in left or "L" not in right:
        raise InvalidExpression("An operand in the update expression has an incorrect data type")
    return {"L": [*left["L"], *right["L"]]}


def joined(left: AttributeValue, right: AttributeValue) -> AttributeValue:
    """Return two sets of one type as one."""
    kind = _same_set(left, right)
    elements = set(left[kind]) | set(right[kind])
    return {kind: sorted(elements, key=Decimal if kind == "NS" else None)}


def without(left: AttributeValue, right: AttributeValue) -> AttributeValue | None:
    """Return the first set without the elements of the second, of the same type; None if nothing is left."""
    kind = _same_set(left, right)
    elements = [element for element in left[kind] if element not in right[kind]]
    return {kind: elements} if elements else None


def _same_set(left: AttributeValue, right: AttributeValue) -> str:
    kind = type_of(left)
    if kind not in SETS or kind != type_of(right):
        raise InvalidExpression("An operand in the update expression has an incorrect data type")
    return kind
