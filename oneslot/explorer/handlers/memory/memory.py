"""What a waiting invocation remembers, as text: invocations with equal memories continue equally.

A history may be long and the memory of it short: a handler that reads ten answers and keeps the last one remembers one.
The memory is exact. Where it would have to guess, there is none, and the history counts instead.
"""

from __future__ import annotations

import collections
import gc
import hashlib
import weakref
from collections.abc import Iterable, Mapping
from contextvars import Context
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import boto3.resources.base
import botocore.client

from oneslot.explorer.handlers.memory.contents import ITERATORS, PLAIN, UNCHANGING, Opaque, content_of, reader
from oneslot.explorer.handlers.memory.imported import DEEP, Imported, Shared, attributes_of
from oneslot.explorer.handlers.memory.visible import Loop, Visible

_OF_BOTO = ("botocore.", "boto3.resources.")
_CALLS_BELOW = ("_perform", "make_api_call", "_api_call", "do_action", "__call__")
"""The functions of boto3 between a handler and the explorer that hold no more than the call itself."""


class Memory:
    """The memory of one invocation, written once. What it has not changed since the import is written as its position."""

    def __init__(self, own: Mapping[str, ModuleType | None], imported: Imported, shared: Shared) -> None:
        self._own, self._imported, self._shared = own, imported, shared
        self._untouched = imported.untouched()
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []

    def of(self, visible: Visible, frames: Iterable[FrameType], context: Context, *others: Any) -> str:
        """Return a digest of what the frames' variables, the modules, the context and the `others` hold.

        Raises `Opaque`.
        """
        try:
            held = (
                [(name, self._value(vars(one))) for name, one in self._own.items() if isinstance(one, ModuleType)],
                self._pairs(sorted(context.items(), key=lambda pair: pair[0].name)),
                [(one.f_code.co_qualname, one.f_lasti, self._pairs(visible.variables(one).items())) for one in frames],
                (self._imported.shape, others),
            )
        except RecursionError:
            raise Opaque("a value that is too deep") from None
        return hashlib.blake2b(repr(held).encode(), digest_size=16).hexdigest()

    def _pairs(self, pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
        return [(self._value(name), self._value(value)) for name, value in pairs]

    def _value(self, value: Any) -> Any:
        kind: Any = type(value)
        if isinstance(value, PLAIN) and kind.__module__ not in self._own:
            return kind.__name__, repr(value)
        if id(value) in self._untouched:
            return "imported", self._untouched[id(value)]
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)  # the id of what is alive is its own
        if self._shared.has(value, self._own):
            return "shared", f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else id(value)
        return kind.__module__, kind.__qualname__, content_of(reader(kind), value), self._references(value, kind)

    def _references(self, value: Any, kind: type) -> Any:  # noqa: PLR0911 - one for each kind of value
        match value:
            case CodeType():
                return value.co_filename, value.co_qualname, value.co_firstlineno, value.co_code
            case weakref.ReferenceType():
                return self._value(value()), self._attributes(value, kind)
            case _ if kind in UNCHANGING:
                return None
            case dict():
                return self._pairs(dict.items(value)), self._attributes(value, kind)
            case list() | tuple() | collections.deque():
                return [self._value(one) for one in value], self._attributes(value, kind)
            case set() | frozenset():
                return _of_set(value), self._attributes(value, kind)
            case FunctionType():
                return self._value(
                    [value.__code__, value.__defaults__, value.__kwdefaults__, value.__closure__, vars(value)]
                )
            case type():
                return self._pairs(vars(value).items()), [self._value(one) for one in value.__bases__]
            case Loop():
                return self._value(value.iterator)
            case botocore.client.BaseClient() | boto3.resources.base.ServiceResource():
                held = {**vars(value), **vars(value.meta)}
                return self._pairs(pair for pair in held.items() if not _is_of_boto(pair[1]))
            case _ if kind.__module__ in DEEP:
                return None
        if kind in ITERATORS:
            return [self._value(one) for one in value.__reduce__()[1:]]
        others = [one for one in gc.get_referents(value) if one is not kind and one is not attributes_of(value)]
        return self._attributes(value, kind), [self._value(one) for one in others]

    def _attributes(self, value: Any, kind: type) -> Any:
        """Return what an instance holds by name; of the explorer's own a context's invocation, and whether a lock is held."""
        if kind.__module__.startswith("oneslot.explorer."):
            return [getattr(value, name, None) for name in ("number_of_invocation", "is_held")]
        slots = [one for base in kind.__mro__ for one in vars(base).items() if type(one[1]) is MemberDescriptorType]
        filled = ((name, held) for name, one in slots for held in _slot(one, value))
        return self._pairs(filled), self._pairs((attributes_of(value) or {}).items())


def _slot(descriptor: Any, value: Any) -> list[Any]:
    try:
        return [descriptor.__get__(value)]
    except (AttributeError, TypeError):  # nothing is in it
        return []


def _of_set(value: Iterable[Any]) -> list[str]:
    if not all(isinstance(one, PLAIN) for one in value):
        raise Opaque("a set of objects")
    return sorted(map(repr, value))


def _is_of_boto(value: Any) -> bool:
    """Return whether a client or a resource has this for itself. A client may be the handler's, and so may all else."""
    return type(value).__module__.startswith(_OF_BOTO) and not isinstance(value, botocore.client.BaseClient)


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
