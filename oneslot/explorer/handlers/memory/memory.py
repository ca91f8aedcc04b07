"""What a waiting invocation remembers, as text: invocations with equal memories continue equally.

A history may be long and the memory of it short: a handler that reads ten answers and keeps the last one remembers one.
The memory is exact. Where it would have to guess, there is none, and the history counts instead.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import hashlib
import logging
import pathlib
import re
import types
import uuid
from collections.abc import Iterable, Mapping
from types import FrameType, FunctionType, ModuleType
from typing import Any

import boto3.resources.base
import botocore.client

from oneslot.explorer.handlers.memory.visible import Loop, Visible
from oneslot.explorer.handlers.modules import own_names

_PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), type(...), range, decimal.Decimal, fractions.Fraction),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath, uuid.UUID),
)
_BY_NAME = (logging.Logger, logging.LoggerAdapter, types.BuiltinFunctionType, types.GenericAlias)
_ITERATORS = (
    *(
        "range_iterator",
        "list_iterator",
        "list_reverseiterator",
        "tuple_iterator",
        "str_iterator",
        "str_ascii_iterator",
    ),
    *("dict_keyiterator", "dict_valueiterator", "dict_itemiterator", "enumerate", "zip", "reversed"),
)
_STATELESS = (
    *("__future__._Feature", "boto3.dynamodb.types.TypeSerializer", "boto3.dynamodb.types.TypeDeserializer"),
    *("boto3.session.Session", "botocore.config.Config", "os._Environ", "aws_lambda_powertools.logging.logger.Logger"),
    *("aws_lambda_powertools.metrics.metrics.Metrics", "aws_lambda_powertools.tracing.tracer.Tracer"),
)
"""What a handler's modules usually hold, and what no invocation changes so that a later step depends on it."""
_VIEWS = ("dict_keys", "dict_values", "dict_items")
_CALLS_BELOW = ("_perform", "make_api_call", "_api_call", "do_action", "__call__")
"""The functions of boto3 between a handler and the explorer that hold no more than the call itself."""


class Opaque(Exception):
    """A value whose state cannot be seen."""


class Memory:
    """The memory of one invocation, written once."""

    def __init__(self, own: Mapping[str, ModuleType | None], visible: Visible) -> None:
        self._own, self._visible = own, visible
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []

    def of(self, frames: Iterable[FrameType], *others: Any) -> str:
        """Return a digest of what the frames' variables, the handler's modules and the `others` hold. Raises `Opaque`."""
        held = (
            [
                (frame.f_code.co_qualname, frame.f_lasti, self._pairs(self._visible.variables(frame)))
                for frame in frames
            ],
            [(name, self._module(module)) for name, module in sorted(self._own.items()) if module is not None],
            others,
        )
        return hashlib.blake2b(repr(held).encode(), digest_size=16).hexdigest()

    def _module(self, module: ModuleType) -> Any:
        return [
            (name, [self._value(value), self._class(value) if self._is_own(value) else None])
            for name, value in own_names(module).items()
        ]

    def _is_own(self, value: Any) -> bool:
        return isinstance(value, type) and value.__module__ in self._own

    def _class(self, value: type) -> Any:
        usual = (
            FunctionType,
            staticmethod,
            classmethod,
            property,
            types.GetSetDescriptorType,
            types.MemberDescriptorType,
        )
        return [
            (name, self._value(one))
            for name, one in vars(value).items()
            if not isinstance(one, usual) and not (name.startswith("__") and name.endswith("__"))
        ]

    def _pairs(self, values: Mapping[Any, Any]) -> list[Any]:
        return [(self._value(name), self._value(value)) for name, value in dict.items(dict(values))]

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, _PLAIN) and kind.__module__ not in self._own:
            return kind.__name__, repr(value)
        if isinstance(value, (type, ModuleType)):
            return "type", getattr(value, "__module__", ""), value.__name__
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)  # the id of what is alive is its own
        return kind.__module__, kind.__qualname__, self._content(value, kind)

    def _content(self, value: Any, kind: type) -> Any:  # noqa: PLR0911 - one for each kind of value
        match value:
            case dict():
                return [(self._value(name), self._value(one)) for name, one in dict.items(value)], self._own_state(
                    value
                )
            case list() | tuple() | collections.deque():
                return [self._value(one) for one in value], self._own_state(value)
            case set() | frozenset() if all(isinstance(one, _PLAIN) for one in value):
                return sorted(map(repr, value)), self._own_state(value)
            case FunctionType():
                cells = [self._value(cell.cell_contents) for cell in value.__closure__ or ()]
                return value.__module__, value.__qualname__, cells, self._value([value.__defaults__, vars(value)])
            case types.MethodType():
                return value.__func__.__qualname__, self._value(value.__self__)
            case Loop():
                return self._value(value.iterator)
            case boto3.resources.base.ServiceResource():
                names = value.meta.identifiers
                return [getattr(value, name) for name in names], self._value(value.meta.data), id(value.meta.client)
            case botocore.client.BaseClient():
                return id(value)
        return self._other(value, kind)

    def _other(self, value: Any, kind: type) -> Any:  # noqa: PLR0911 - one for each kind of value
        if kind.__name__ in _ITERATORS:
            return [self._value(one) for one in value.__reduce__()[1:]]
        if kind.__name__ in _VIEWS:
            return [self._value(one) for one in value]
        if isinstance(value, re.Pattern):
            return value.pattern, value.flags
        if isinstance(value, enum.Enum):
            return value.name
        if isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, (ModuleType, type(None))):
            return value.__name__, self._value(value.__self__)
        if isinstance(value, _BY_NAME):
            return value.__class__.__name__, getattr(value, "__qualname__", getattr(value, "name", repr(value)))
        if isinstance(value, BaseException):
            return [self._value(one) for one in value.args], self._pairs(vars(value))
        if kind.__module__ in self._own:
            return self._own_state(value)
        if kind.__module__ == "typing" or f"{kind.__module__}.{kind.__qualname__}" in _STATELESS:
            return repr(value) if kind.__module__ == "typing" else None
        if kind.__module__ == "boto3.dynamodb.conditions":
            return self._pairs(vars(value))
        if hasattr(value, "cache_info") and not value.cache_info().currsize:
            return value.__qualname__
        if kind.__module__.startswith("oneslot.explorer.handlers."):
            return None  # Lambda's context, which is the invocation's
        raise Opaque(kind.__qualname__)

    def _own_state(self, value: Any) -> Any:
        """Return the attributes of an instance. Raises `Opaque` if a class hides some of its state."""
        if hasattr(type(value), "__slots__") and type(value).__module__ in self._own:
            raise Opaque(type(value).__qualname__)
        return self._pairs(getattr(value, "__dict__", {})) if type(value).__module__ in self._own else None


def waiting_frames(visible: Visible, frame: FrameType | None, operation: str, last: str) -> list[FrameType] | None:
    """Return the handler's frames, from the innermost, that wait for a call; None if something between them is hidden.

    `frame` is the innermost frame of all, `operation` the name of the call, `last` that of the function below the handler.
    """
    while frame is not None and frame.f_code.co_name in _CALLS_BELOW and _is_boto(frame):
        frame = frame.f_back
    frames: list[FrameType] = []
    callee, name = None, operation
    while frame is not None and frame.f_code.co_qualname != last:
        if not visible.calls(frame, callee, name):
            return None
        frames.append(frame)
        callee, name = frame.f_code, frame.f_code.co_name
        frame = frame.f_back
    return frames


def _is_boto(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in ("boto3", "botocore") or _is_ours(frame)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == "oneslot.explorer.handlers.aws"
