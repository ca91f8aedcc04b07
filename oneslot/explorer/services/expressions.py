"""The part of DynamoDB's expression language that this product and its peers use. Anything else is refused.

condition := conjunction ("OR" conjunction)*          conjunction := negation ("AND" negation)*
negation  := "NOT" negation | "(" condition ")" | function "(" path ")" | operand comparator operand
             | operand "BETWEEN" operand "AND" operand
projection := path ("," path)*
update    := ("SET" path "=" value ("," ...)* | "REMOVE" path ("," ...)* | "ADD" path operand ("," ...)*)+
value     := term (("+" | "-") term)?                 term := operand | "if_not_exists" "(" path "," operand ")"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

AttributeValue = Mapping[str, Any]
TypedItem = Mapping[str, AttributeValue]
"""An item in the wire format: attribute name → one of {"S": text}, {"N": digits}, {"BOOL": ...}, ..."""

_TOKEN = re.compile(r"\s*(#[\w-]+|:[\w-]+|[A-Za-z_]\w*|<>|<=|>=|[=<>(),+-])")
_COMPARATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KEYWORDS = {"AND", "OR", "NOT", "BETWEEN", "SET", "REMOVE", "ADD"}
# Those of DynamoDB's 573 reserved words that are attributes here; an expression must write them with a "#" name.
_RESERVED = {"STATUS", "START", "END", "RESULT", "KEY", "NAME", "VALUE", "DATA", "STATE", "TTL"}


class InvalidExpression(ValueError):
    """An expression that DynamoDB refuses (ValidationException), or that this evaluator does not know."""


class Expression:
    """The tokens of one expression, the names and values `used` so far, the attributes `written` by an update."""

    def __init__(self, text: str, request: Mapping[str, Any]) -> None:
        self._tokens: list[str] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise InvalidExpression(f"syntax error near {text[position : position + 12]!r}")
            self._tokens.append(match[1])
            position = match.end()
        self._next = 0
        self._names: Mapping[str, str] = request.get("ExpressionAttributeNames", {})
        self._values: Mapping[str, AttributeValue] = request.get("ExpressionAttributeValues", {})
        self.used: set[str] = set()
        self.written: set[str] = set()

    def condition(self, item: TypedItem) -> bool:
        """Return whether the expression, a condition, holds for `item` (empty: no item)."""
        holds = self._disjunction(item)
        self._end()
        return holds

    def update(self, item: TypedItem) -> dict[str, AttributeValue]:
        """Return the item after the expression, an update. Every right-hand side sees the item as it was before."""
        after = dict(item)
        while self._peek() is not None:
            clause = self._take().upper()
            if clause not in ("SET", "REMOVE", "ADD"):
                raise InvalidExpression(f"unknown clause {clause!r}")
            while True:
                path = self._path(self._take())
                self.written.add(path)
                if clause == "REMOVE":
                    after.pop(path, None)
                elif clause == "ADD":
                    after[path] = _number(item.get(path, {"N": "0"}), self._required(item), 1)
                else:
                    self._expect("=")
                    after[path] = self._value(item)
                if self._peek() != ",":
                    break
                self._take()
        return after

    def projection(self) -> list[str]:
        """Return the attributes that the expression, a projection, names."""
        paths = [self._path(self._take())]
        while self._peek() == ",":
            self._take()
            paths.append(self._path(self._take()))
        self._end()
        if len(set(paths)) != len(paths):
            raise InvalidExpression("two paths overlap")
        return paths

    def key_condition(self, partition_key: str, sort_key: str) -> Callable[[TypedItem], bool]:
        """Return the expression as a key condition: the partition key `=`, then perhaps one condition on the sort key."""
        shape = [self._names.get(token, token).upper() for token in self._tokens]
        ways = (
            [partition_key.upper(), "=", None],
            [partition_key.upper(), "=", None, "AND", sort_key.upper(), "BETWEEN", None, "AND", None],
            *(
                [partition_key.upper(), "=", None, "AND", sort_key.upper(), comparator, None]
                for comparator in _COMPARATORS
            ),
        )
        if not any(
            len(way) == len(shape) and all(want in (None, have) for want, have in zip(way, shape, strict=True))
            for way in ways
        ):
            raise InvalidExpression("not a key condition on this table or index")

        def holds(item: TypedItem) -> bool:
            self._next = 0
            return self.condition(item)

        return holds

    def _disjunction(self, item: TypedItem) -> bool:
        holds = self._conjunction(item)
        while self._take_keyword("OR"):
            # Both sides are evaluated, because an error in either must show.
            holds = self._conjunction(item) or holds
        return holds

    def _conjunction(self, item: TypedItem) -> bool:
        holds = self._negation(item)
        while self._take_keyword("AND"):
            holds = self._negation(item) and holds
        return holds

    def _negation(self, item: TypedItem) -> bool:
        if self._take_keyword("NOT"):
            return not self._negation(item)
        if self._peek() == "(":
            self._take()
            holds = self._disjunction(item)
            self._expect(")")
            return holds
        token = self._take()
        if self._peek() == "(":
            return self._function(token, item)
        return self._comparison(token, item)

    def _function(self, name: str, item: TypedItem) -> bool:
        self._expect("(")
        path = self._path(self._take())
        self._expect(")")
        if name not in ("attribute_exists", "attribute_not_exists"):
            raise InvalidExpression(f"unknown function {name!r}")
        return (path in item) == (name == "attribute_exists")

    def _comparison(self, first: str, item: TypedItem) -> bool:
        left = self._operand(first, item)
        if self._take_keyword("BETWEEN"):
            low = self._required(item)
            if not self._take_keyword("AND"):
                raise InvalidExpression("BETWEEN without AND")
            high = self._required(item)
            return _compare(">=", left, low) and _compare("<=", left, high)
        comparator = self._take()
        right = self._operand(self._take(), item)
        if comparator == "<>":
            return not _compare("=", left, right)
        if comparator not in _COMPARATORS:
            raise InvalidExpression(f"unknown comparator {comparator!r}")
        return _compare(comparator, left, right)

    def _value(self, item: TypedItem) -> AttributeValue:
        value = self._term(item)
        if self._peek() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            value = _number(value, self._term(item), sign)
        return value

    def _term(self, item: TypedItem) -> AttributeValue:
        if self._peek() == "if_not_exists":
            self._take()
            self._expect("(")
            path = self._path(self._take())
            self._expect(",")
            otherwise = self._required(item)
            self._expect(")")
            return item.get(path, otherwise)
        return self._required(item)

    def _required(self, item: TypedItem) -> AttributeValue:
        value = self._operand(self._take(), item)
        if value is None:
            raise InvalidExpression("an operand refers to a missing attribute")
        return value

    def _operand(self, token: str, item: TypedItem) -> AttributeValue | None:
        if token.startswith(":"):
            if token not in self._values:
                raise InvalidExpression(f"value {token} is not defined")
            self.used.add(token)
            return self._values[token]
        return item.get(self._path(token))

    def _path(self, token: str) -> str:
        if token.startswith("#"):
            if token not in self._names:
                raise InvalidExpression(f"name {token} is not defined")
            self.used.add(token)
            return self._names[token]
        if not token[0].isalpha() and token[0] != "_":
            raise InvalidExpression(f"{token!r} is not an attribute name")
        if token.upper() in _RESERVED or token.upper() in _KEYWORDS:
            raise InvalidExpression(f"attribute name is a reserved keyword: {token}")
        return token

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise InvalidExpression("the expression ends too early")
        self._next += 1
        return token

    def _take_keyword(self, keyword: str) -> bool:
        token = self._peek()
        if token is None or token.upper() != keyword:
            return False
        self._next += 1
        return True

    def _expect(self, wanted: str) -> None:
        if self._take() != wanted:
            raise InvalidExpression(f"{wanted!r} expected")

    def _end(self) -> None:
        if self._peek() is not None:
            raise InvalidExpression(f"unexpected {self._peek()!r}")


def unused(request: Mapping[str, Any], used: set[str]) -> str | None:
    """Return why DynamoDB refuses a defined name or value that no expression uses; None if all are used."""
    for field in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        defined: Mapping[str, Any] = request.get(field, {})
        if field in request and not defined:
            return f"{field} must not be empty"
        for name in defined:
            if name not in used:
                return f"Value provided in {field} unused in expressions: keys: {{{name}}}"
    return None


def _compare(comparator: str, left: AttributeValue | None, right: AttributeValue | None) -> bool:
    if left is None or right is None:
        return False  # a comparison with a missing attribute is false
    (left_type, left_value), (right_type, right_value) = *left.items(), *right.items()
    if left_type != right_type:
        return False
    if left_type == "N":
        return _COMPARATORS[comparator](Decimal(left_value), Decimal(right_value))
    if left_type == "S":
        return _COMPARATORS[comparator](left_value.encode(), right_value.encode())
    if comparator == "=":
        return bool(left_value == right_value)
    raise InvalidExpression(f"{comparator} does not order values of type {left_type}")


def _number(left: AttributeValue, right: AttributeValue, sign: int) -> AttributeValue:
    if "N" not in left or "N" not in right:
        raise InvalidExpression("only numbers can be added")
    return {"N": str(Decimal(left["N"]) + sign * Decimal(right["N"]))}
