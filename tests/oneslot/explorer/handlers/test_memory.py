"""What counts as remembered: values with their positions and sharing, and nothing where state is hidden."""

import datetime
import functools
import io
import itertools
import zlib
from contextvars import Context
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from oneslot.explorer.handlers.memory.contents import Opaque
from oneslot.explorer.handlers.memory.memory import Imported, Memory, Shared
from oneslot.explorer.handlers.memory.visible import Loop, Visible, read_later
from oneslot.explorer.handlers.surroundings.threads import StrandLock


def remembered(**values: Any) -> str:
    module, shared = ModuleType("app"), Shared()
    imported = Imported({"app": module}, Context(), shared)
    vars(module).update(values)
    return Memory({"app": module}, imported, shared).of(Visible(), [], Context())


def advanced(values: Any, steps: int) -> Loop:
    loop = Loop(values)
    for _ in range(steps):
        next(loop)
    return loop


def lock(*, held: bool) -> StrandLock:
    made = StrandLock(lambda: None)
    made.is_held = held
    return made


class Broken(io.StringIO):
    def tell(self) -> int:
        raise ValueError("no position")


def with_attribute(text: str) -> SimpleNamespace:
    return SimpleNamespace(last=text)


def test_equal_values_are_remembered_equally() -> None:
    values = {"a": [1, {"b": (2.0, None)}], "c": "d", "functions of C": datetime.datetime_CAPI}

    assert remembered(**values) == remembered(**values | {"a": [1, {"b": (2.0, None)}]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        ("1", 1),
        ([[]] * 2, [[], []]),
        (advanced([1, 1, 1], 1), advanced([1, 1, 1], 2)),
        (advanced(range(3), 0), advanced(range(3), 3)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (lambda n=1: n, lambda n=2: n),
        (functools.partial(print, 1), functools.partial(print, 2)),
        (io.StringIO("a"), io.StringIO("b")),
        (with_attribute("a"), with_attribute("b")),
        (lock(held=True), lock(held=False)),
    ],
    ids=["type", "text", "sharing", "list", "range", "order", "default", "partial", "buffer", "attribute", "lock"],
)
def test_different_values_are_remembered_apart(one: Any, other: Any) -> None:
    assert remembered(value=one) != remembered(value=other)


@pytest.mark.parametrize(
    "value",
    [zlib.compressobj(), itertools.cycle([1]), {object()}, Broken()],
    ids=["zlib", "cycle", "set", "a class that raises"],
)
def test_hidden_state_is_opaque(value: Any) -> None:
    with pytest.raises(Opaque):
        remembered(value=value)


def offset_of_call(code: CodeType, line: int) -> int:
    return max(2 * at for at, place in enumerate(code.co_positions()) if place[0] == code.co_firstlineno + line)


def overwrites(call: Any) -> Any:
    kept = call()
    answer = call()
    answer = call()
    return kept, answer


def looks_around(call: Any) -> Any:
    answer = call()
    return locals()


def test_overwritten_variable_is_forgotten() -> None:
    code = overwrites.__code__

    assert read_later(code, offset_of_call(code, 2)) == frozenset({"call", "kept"})


def test_every_variable_counts_when_locals_may_be_read() -> None:
    code = looks_around.__code__

    assert read_later(code, offset_of_call(code, 1)) is None
