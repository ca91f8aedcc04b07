"""What a value holds beside references to other values, such as an iterator's position; nothing for most kinds.

Python's garbage collector knows the references of every kind of value, and so do `Imported` and `Memory`. The rest is in
C, where only the functions below can read it. A kind that is not listed here, and has room for more than its attributes, is
`Opaque`.
"""

import array
import collections
import contextvars
import csv
import ctypes
import datetime
import decimal
import fractions
import functools
import hashlib
import hmac
import io
import itertools
import mmap
import operator
import pathlib
import queue
import random
import re
import ssl
import struct
import threading
import types
import uuid
import weakref
import zoneinfo
from collections.abc import Callable, Mapping
from types import MemberDescriptorType
from typing import Any
from xml.etree import ElementTree


class Opaque(Exception):
    """A value whose state cannot be seen."""

    def __repr__(self) -> str:  # without an address
        return f"opaque {self}"


PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), type(...), range, decimal.Decimal, fractions.Fraction),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath, uuid.UUID),
)
"""Values that their text tells, and that nothing changes."""

_ABC_DATA = type(vars(Mapping)["_abc_impl"])

UNCHANGING = {
    *(bool, int, float, complex, str, bytes, type(None), type(...), range, decimal.Decimal, datetime.date),
    *(datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, zoneinfo.ZoneInfo, slice),
    *(types.CodeType, types.FrameType, types.TracebackType, re.Pattern, re.Match, struct.Struct, weakref.ref),
    *(_ABC_DATA, type(decimal.DecimalTuple.sign)),  # a field of a named tuple
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, MemberDescriptorType, ssl.SSLContext.__base__, type(NotImplemented)),
    type(datetime.datetime_CAPI),  # a table of C's functions, as pydantic's modules hold one
}
"""The kinds of values that no invocation changes. The variables of a kept traceback's frames are not looked into."""

_ITERABLES: tuple[Any, ...] = ([], (), "", "\u00e9", {}, {}.values(), {}.items(), set(), range(0), range(1 << 70))
ITERATORS = (*(type(iter(one)) for one in _ITERABLES), type(reversed([])), reversed, enumerate, zip)

_OF_DECIMALS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps")
_ALGORITHMS = [hashlib.new(name) for name in hashlib.algorithms_guaranteed]
_C_DATA: tuple[Any, ...] = (ctypes.Array, ctypes.Structure, ctypes.Union, ctypes.c_int.__base__)
_C_FUNCTION: Any = ctypes.CDLL(None)._FuncPtr.__base__
_FILES = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)


def nothing(value: Any) -> None:
    """Return nothing: a value of such a kind is its references."""


def _unless_closed(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def content(value: Any) -> Any:
        return "closed" if value.closed else read(value)

    return content


def _of_file(value: Any) -> Any:
    """Return where a file is read. What is written may still be in a buffer, and the file may have no name."""
    try:
        if not value.writable():
            return value.tell()
    except OSError:  # a text file within an iteration
        pass
    raise Opaque("an open file")


def _of_c_data(value: Any) -> bytes:
    if getattr(value, "_type_", None) in ("P", "z", "Z", "O", "X"):
        raise Opaque("a pointer of C")
    return bytes(value)


def _of_ordered(value: Any) -> list[int]:
    position = {id(name): number for number, name in enumerate(dict.keys(value))}
    return [position[id(name)] for name in collections.OrderedDict.keys(value)]


def _of_frame(value: Any) -> Any:
    frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None) or getattr(value, "ag_frame", None)
    return frame and frame.f_lasti


_CONTENTS: dict[Any, Callable[[Any], Any]] = {
    **{one: vars(one).get("__repr__", repr) for one in (*PLAIN, *UNCHANGING)},
    **dict.fromkeys((weakref.ref, types.FrameType, types.TracebackType, _ABC_DATA, types.CodeType), nothing),
    **dict.fromkeys((datetime.tzinfo, ssl.SSLContext.__base__), nothing),
    **dict.fromkeys((dict, list, tuple, set, frozenset, collections.deque, collections.defaultdict), nothing),
    **dict.fromkeys((type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType), nothing),
    **dict.fromkeys((types.FunctionType, types.CellType, types.MethodType, functools.partial, property), nothing),
    **dict.fromkeys((staticmethod, classmethod, super, types.GenericAlias, types.UnionType, memoryview), nothing),
    **dict.fromkeys((operator.itemgetter, operator.attrgetter, operator.methodcaller, map, filter), nothing),
    **dict.fromkeys((contextvars.ContextVar, contextvars.Context, contextvars.Token, threading.local), nothing),
    **dict.fromkeys((type(csv.writer(io.StringIO())), ElementTree.Element, random.SystemRandom, _C_FUNCTION), nothing),
    **dict.fromkeys((types.BuiltinFunctionType, types.MethodWrapperType, type), lambda value: value.__qualname__),
    **dict.fromkeys((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), _of_frame),
    **dict.fromkeys(ITERATORS, operator.length_hint),
    **dict.fromkeys((enumerate, itertools.count), lambda value: repr(value.__reduce__()[1][-1])),
    **dict.fromkeys((io.StringIO, io.BytesIO), _unless_closed(lambda value: (value.getvalue(), value.tell()))),
    **dict.fromkeys(_FILES, _unless_closed(_of_file)),
    **dict.fromkeys(
        {type(one) for one in _ALGORITHMS}, lambda value: value.copy().digest(*() if value.digest_size else (64,))
    ),
    **dict.fromkeys(_C_DATA, _of_c_data),
    types.ModuleType: lambda value: value.__name__,
    type(functools.cache(nothing)): lambda value: value.cache_info()[1:],
    type(hmac.new(b"", b"", "sha256")._hmac): lambda value: value.digest(),  # type: ignore[attr-defined]
    type(threading.RLock()): lambda value: repr(value).partition(" at ")[0],
    type(threading.Lock()): lambda value: value.locked(),
    queue.SimpleQueue: lambda value: value.qsize(),
    collections.OrderedDict: _of_ordered,
    random.Random.__base__: lambda value: value.getstate(),
    decimal.Context: lambda value: [str(getattr(value, name)) for name in _OF_DECIMALS],
    array.array: lambda value: (value.typecode, value.tobytes()),
    bytearray: bytes,
    mmap.mmap: _unless_closed(lambda value: (value[:], value.tell())),
}

_BY_NAME = {
    *("functools._lru_list_elem", "builtins.hamt", "builtins.hamt_bitmap_node", "builtins.hamt_array_node"),
    *("typing.TypeVar", "typing.TypeVarTuple", "typing.ParamSpec", "typing.TypeAliasType"),
    *("_thread._localdummy", "_json.Scanner", "_json.Encoder"),
    *("_io._RawIOBase", "_io._BufferedIOBase", "_io._TextIOBase", "_io._IOBase"),
}
"""Kinds that no module has by this name, and that hold references alone."""

_UNCHANGING_MODULES = ("pydantic_core.",)
"""Compiled libraries whose objects stay as they were made."""


@functools.lru_cache(maxsize=1_000)  # a handler's classes are others in each environment
def reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that reads what a value of this kind holds beside references. It may raise `Opaque`."""
    if f"{kind.__module__}.".startswith(_UNCHANGING_MODULES):
        return nothing
    for one in kind.__mro__:
        if one in _CONTENTS:
            return _CONTENTS[one]
        if f"{one.__module__}.{one.__qualname__}" in _BY_NAME or one is object or one is BaseException:
            return nothing
        if not _has_attributes_alone(one) and not issubclass(one, BaseException):
            return functools.partial(_refuse, f"{one.__module__}.{one.__qualname__}")
    return nothing


def content_of(read: Callable[[Any], Any], value: Any) -> Any:
    """Return what a `reader` reads of a value, whose class may compute that. Raises `Opaque`."""
    try:
        return read(value)
    except Opaque:
        raise
    except Exception:
        raise Opaque(f"a value of {type(value).__qualname__}") from None


def _has_attributes_alone(kind: type) -> bool:
    """Return whether the instances of a class have no room beside that of its base, its slots and its attributes."""
    base: Any = kind.__base__
    held = sum(
        type(one) is MemberDescriptorType or name in ("__dict__", "__weakref__") for name, one in vars(kind).items()
    )
    return bool(kind.__itemsize__ == base.__itemsize__ and kind.__basicsize__ - base.__basicsize__ <= 8 * held)


def _refuse(name: str, value: Any) -> Any:
    raise Opaque(f"a value of {name}")
