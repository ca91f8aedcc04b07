"""CloudWatch's metric math at one moment, missing values and all, as its user guide says ("Using metric math")."""

import ast
import operator
from collections.abc import Callable, Mapping

Value = float | None
"""The value of a time series at one moment; None for a missing value."""

ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}


def at_one_moment(expression: str, series: Mapping[str, Value], never_reported: frozenset[str] = frozenset()) -> Value:
    """The expression's value, or None for no value.

    `never_reported` names the series without a value in all of the time that is looked at: the guide does not say whether
    FILL makes something of nothing, so here it does not.
    """
    return _value(ast.parse(expression.replace(" AND ", " and "), mode="eval").body, series, never_reported)


def _value(node: ast.expr, series: Mapping[str, Value], never: frozenset[str]) -> Value:
    def value(part: ast.expr) -> Value:
        return _value(part, series, never)

    found: Value
    match node:
        case ast.Constant(value=int(number)):
            found = number
        case ast.Name(id=name):
            found = None if name in never else series[name]
        case ast.BinOp(left=left, op=sign, right=right):
            # "Missing values in a time series are treated as 0", where the other has one.
            found = _both(ARITHMETIC[type(sign)], value(left), value(right))
        case ast.BoolOp(op=ast.And(), values=[left, right]):
            found = _both(lambda one, other: float(bool(one and other)), value(left), value(right))
        case ast.Compare(left=left, ops=[comparison], comparators=[ast.Constant(value=int(limit))]):
            found = value(left)
            found = None if found is None else float(COMPARISONS[type(comparison)](found, limit))
        case ast.Call(func=ast.Name(id="FILL"), args=[ast.Name(id=name) as filled, filler]):
            found = value(filler) if value(filled) is None and name not in never else value(filled)
        case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
            holds = value(condition)
            # "is dropped if the corresponding data point in metric1 does not exist"; "has the value of 0" where it is TRUE and
            # there is none to take.
            found = None if holds is None else (value(then) or 0) if holds else value(otherwise)
        case _:
            raise ValueError(f"not understood: {ast.unparse(node)}")
    return found


def _both(combine: Callable[[float, float], float], one: Value, other: Value) -> Value:
    return None if one is None and other is None else combine(one or 0, other or 0)
