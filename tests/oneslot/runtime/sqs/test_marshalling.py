"""An answer's text: what AWS's runtime client for Python makes of it, one row each, compared with it once by hand."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from oneslot.runtime.sqs.answer import MarshalError, encoded

Point = namedtuple("Point", "x y")


class Color(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    YES = "yes"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "null"),
        ("ok", '"ok"'),
        ("é", '"é"'),
        ({"total": Decimal("1.10")}, '{"total": 1.10}'),
        ([Decimal("1E+40"), Decimal("nan"), Decimal("snan")], "[1E+40, NaN, NaN]"),
        (Decimal("-inf"), "-Infinity"),
        ({"a": float("nan"), "b": 1e400}, '{"a": NaN, "b": Infinity}'),
        ({"body": b"text"}, '{"body": "text"}'),
        (b'{"batchItemFailures": []}', '{"batchItemFailures": []}'),
        (b"\xff", "\ufffd"),
        ((1, (2, [])), "[1, [2, []]]"),
        ([Point(1, Decimal(2))], '[{"x": 1, "y": 2}]'),
        ({2: 0, 1.5: 0, True: 0, None: 0, b"k": 0}, '{"2": 0, "1.5": 0, "true": 0, "null": 0, "k": 0}'),
        ({Word.YES: Color.RED}, '{"yes": 1}'),
        (10**50, str(10**50)),
    ],
)
def test_encoded_writes_what_the_runtime_client_writes(answer: Any, text: str) -> None:
    assert encoded(answer) == text


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


async def _later() -> None: ...


@pytest.mark.parametrize(
    "answer",
    [
        lambda: datetime.now(UTC),
        lambda: {"at": datetime.now(UTC).date()},
        lambda: {1, 2},
        lambda: [frozenset()],
        lambda: bytearray(b"x"),
        lambda: {"a": b"\xff"},
        lambda: {(1, 2): 0},
        lambda: {Decimal(1): 0},
        {"a": 1}.keys,
        lambda: iter([1]),
        object,
        lambda: ValueError("x"),
        lambda: "\ud800",
        _circle,
        _later,
    ],
)
def test_encoded_fails_when_the_runtime_client_fails(answer: Callable[[], Any]) -> None:
    with pytest.raises(MarshalError, match=r"^Unable to marshal response: ") as raised:
        encoded(answer())

    assert type(raised.value).__name__ == "Runtime.MarshalError"


def test_encoded_names_the_type_and_an_async_handler() -> None:
    with pytest.raises(MarshalError, match="type datetime is not JSON serializable"):
        encoded({"at": datetime.now(UTC)})
    with pytest.raises(MarshalError, match="Lambda does not await an async handler"):
        encoded(_later())
