"""What a waiting invocation remembers, as text: invocations with equal memories continue equally.

A history may be long and the memory of it short: a handler that reads ten answers and keeps the last one remembers one.
The memory is exact. Where it would have to guess, there is none, and the history counts instead. What an environment made
when it imported the handler's modules counts by its place, as long as it has not changed since. Python's garbage collector
tells in C what each object refers to, so all that is reachable is compared, whatever its kind.
"""

import collections
import functools
import gc
import hashlib
import operator
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from itertools import chain
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from boto3.resources.base import ServiceResource
from botocore.client import BaseClient

from oneslot.explorer.handlers import aws
from oneslot.explorer.handlers.memory.contents import ITERATORS, PLAIN, UNCHANGING, Opaque, content_of, nothing, reader
from oneslot.explorer.handlers.memory.visible import Loop, Visible

Modules = Mapping[str, ModuleType | None]

_HEAP_TYPE = 1 << 9
"""Python's flag of the classes that are made while it runs."""

_OF_BOTO = ("botocore.", "boto3.resources.")
_CALLS_BELOW = ("_perform", "make_api_call", "_api_call", "do_action", "__call__")
"""The functions of boto3 between a handler and the explorer that hold no more than the call itself."""
DEEP = (
    *("botocore.session", "botocore.model", "botocore.loaders", "botocore.hooks", "botocore.regions"),
    *("boto3.resources.model", "boto3.docs.docstring", "decimal", "oneslot.explorer.handlers.modules"),
    "oneslot.explorer.handlers.process",
)
"""The modules whose objects hold descriptions of AWS or of the handler's code, or the run: no memory of the handler's."""


class Shared:
    """What the environments of one exploration hold together: a mark in it stays for all of them, so `repeats` finds it.

    These are libraries' modules and classes, boto3's clients, and what two environments have both reached.
    """

    def __init__(self) -> None:
        self._first: dict[int, Any] | None = None
        self.both: dict[int, Any] = {}
        self.libraries: dict[int, Any] = {}
        self._modules = 0

    def learn(self, reached: dict[int, Any]) -> None:
        """Note what a fresh environment reaches. Two are enough."""
        if self._first is None:
            self._first = reached
        elif self._first:
            self.both = {key: one for key, one in reached.items() if key in self._first}
            self._first = {}

    def renew(self, own: Collection[str]) -> None:
        """Look which modules there are beside the modules with `own` names."""
        if self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            modules = [one for name, one in list(sys.modules.items()) if name not in own]
            self.libraries = {id(one): one for one in chain(modules, map(_names, modules))}

    def has(self, value: Any, own: Collection[str]) -> bool:
        """Return whether a value is shared."""
        return id(value) in self.both or id(value) in self.libraries or self.has_by_kind(value, own)

    def has_by_kind(self, value: Any, own: Collection[str]) -> bool:
        """Return whether a value is a class or a module of a library, or boto3's and shared."""
        if not isinstance(value, (type, ModuleType, BaseClient, ServiceResource)):
            return False
        if isinstance(value, ModuleType):
            return value.__name__ not in own
        if isinstance(value, type):
            name = value.__module__
            is_of_module = name not in own and getattr(sys.modules.get(name), value.__name__, None) is value
            if is_of_module or not value.__flags__ & _HEAP_TYPE:
                return True
        return any(value is one for one in aws.clients.values())


class Imported:
    """What the `own` modules of an environment, and its context variables, reach after their import."""

    def __init__(self, own: Modules, context: Context, shared: Shared) -> None:
        self._shared, self._names, self._roots = shared, list(own), [*own.values(), *variables_of(context)]
        shared.renew(own)
        reached = _reached([*map(_names, own.values()), *variables_of(context)], own, shared)
        self._objects = list(reached.values())
        self._positions = {key: number for number, key in enumerate(reached)}
        self._references = list(map(gc.get_referents, self._objects))
        self._lengths = list(map(len, self._references))
        kinds: list[Any] = list(map(type, self._objects))
        readers = [(number, reader(kind)) for number, kind in enumerate(kinds)]
        self._readers = [(number, read) for number, read in readers if read is not nothing]
        self._contents = self._read()
        self._holders: dict[int, list[int]] | None = None

    def is_unchanged(self, own: Modules, context: Context) -> bool:
        """Return whether all is as it was imported. It is not if something cannot be seen."""
        roots = [*own.values(), *variables_of(context)]
        return list(own) == self._names and _are_same(roots, self._roots) and not self._changed()

    @functools.cached_property
    def shape(self) -> tuple[Any, ...]:
        """What is equal for environments which imported equal things, each at the same position."""
        kinds = tuple(type(one).__qualname__ for one in self._objects)
        places = map(self._positions.get, map(id, chain.from_iterable(self._references)))
        return self._names, hash((kinds, *self._lengths)), hash(tuple(places)), self._contents

    def untouched(self) -> dict[int, int]:
        """Return the position of each object by its id, without those that have changed, or lead to one that has."""
        touched = todo = self._changed()
        if not todo:
            return self._positions
        if self._holders is None:
            self._holders = defaultdict(list)
            for number, each in enumerate(self._references):
                for one in each:
                    self._holders[id(one)].append(number)
        while todo:
            todo = {holder for number in todo for holder in self._holders[id(self._objects[number])]} - touched
            touched |= todo
        return {key: number for key, number in self._positions.items() if number not in touched}

    def unseen(self) -> str:
        """Return a name that leads to something that cannot be seen, and its kind; empty if all is seen."""
        number, kind = next(((one, held) for one, held in self._contents if isinstance(held, Opaque)), (0, None))
        if kind is None:
            return ""
        names = (
            f"{module.__name__}.{name}"
            for module in self._roots
            if isinstance(module, ModuleType)
            for name, one in vars(module).items()
            if id(self._objects[number]) in _reached([one], self._names, self._shared)
        )
        return f"{next(names, 'a context variable')} holds {kind}"

    def _changed(self) -> set[int]:
        """Return the positions of the objects that hold something else than at their import, or that cannot be seen."""
        contents = zip(self._read(), self._contents, strict=True)
        changed = {number for (number, one), (_, before) in contents if one != before}
        now, before = list(map(gc.get_referents, self._objects)), self._references
        is_equal = all(map(operator.is_, chain.from_iterable(now), chain.from_iterable(before)))
        if is_equal and list(map(len, now)) == self._lengths:
            return changed
        return changed | {at for at, pair in enumerate(zip(now, before, strict=True)) if not _are_same(*pair)}

    def _read(self) -> list[tuple[int, Any]]:
        return [(number, _content(read, self._objects[number])) for number, read in self._readers]


def variables_of(context: Context) -> list[Any]:
    """Return the variables of a context, each with its value."""
    return [one for pair in context.items() for one in pair]


def attributes_of(value: Any) -> Any:
    """Return the dict of an instance, made where Python has none yet; None if it has no attributes."""
    kind = type(value)
    if issubclass(kind, threading.local):
        return value.__dict__
    if not kind.__dictoffset__ or issubclass(kind, (FunctionType, ModuleType, type)):
        return None
    try:
        return object.__getattribute__(value, "__dict__")
    except Exception:  # a class that computes its own
        return None


def _names(module: Any) -> Any:
    return getattr(module, "__dict__", module)


def _content(read: Any, value: Any) -> Any:
    try:
        return content_of(read, value)
    except Opaque as opaque:
        return opaque


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _reached(roots: Iterable[Any], own: Collection[str], shared: Shared) -> dict[int, Any]:
    """Return what is reachable and not shared, by its id, and let `shared` learn. Attributes get their dict, with its names."""
    seen: dict[int, Any] = {}
    reached: dict[int, Any] = {}
    found = list(roots)
    while found:
        by_id = {id(one): one for one in found if type(one) not in UNCHANGING}
        new = by_id.keys() - seen.keys() - shared.both.keys() - shared.libraries.keys()
        seen |= by_id
        todo = {key: one for key, one in by_id.items() if key in new and not shared.has_by_kind(one, own)}
        reached |= todo
        values = [one for one in todo.values() if type(one).__module__ not in DEEP]
        found = [names for one in values if (names := attributes_of(one)) is not None]
        found += gc.get_referents(*values)
    shared.learn(seen)
    return reached


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

    def _references(self, value: Any, kind: type) -> Any:  # noqa: PLR0911, PLR0912 - one for each kind of value
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
                if not all(isinstance(one, PLAIN) for one in value):
                    raise Opaque("a set of objects")
                return sorted(map(repr, value)), self._attributes(value, kind)
            case FunctionType():
                return self._value(
                    [value.__code__, value.__defaults__, value.__kwdefaults__, value.__closure__, vars(value)]
                )
            case type():
                return self._pairs(vars(value).items()), [self._value(one) for one in value.__bases__]
            case Loop():
                return self._value(value.iterator)
            case BaseClient() | ServiceResource():
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
        filled: list[tuple[str, Any]] = []
        for name, one in _slots(kind):
            with suppress(AttributeError, TypeError):  # nothing is in it
                filled.append((name, one.__get__(value)))
        return self._pairs(filled), self._pairs((attributes_of(value) or {}).items())


@functools.lru_cache(maxsize=1_000)  # a handler's classes are others in each environment
def _slots(kind: type) -> list[tuple[str, Any]]:
    """Return the slots of a class, and of its bases."""
    return [one for base in kind.__mro__ for one in vars(base).items() if type(one[1]) is MemberDescriptorType]


def _is_of_boto(value: Any) -> bool:
    """Return whether a client or a resource has this for itself. A client may be the handler's, and so may all else."""
    return type(value).__module__.startswith(_OF_BOTO) and not isinstance(value, BaseClient)


def waiting_frames(visible: Visible, frame: FrameType | None, operation: str, last: str) -> list[FrameType] | None:
    """Return the handler's frames, from the innermost, that wait for a call; None if something between them is hidden.

    `frame` is the innermost frame of all, `operation` the name of the call, `last` that of the function below the handler.
    """
    while frame is not None and frame.f_code.co_name in _CALLS_BELOW:
        module = frame.f_globals.get("__name__", "")
        if module != aws.__name__ and module.partition(".")[0] not in ("boto3", "botocore"):
            break
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
