"""A function's answer: the text that AWS's runtime client makes of it, and AWS's rules for a batch, one row each."""

import enum
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from oneslot.runtime.sqs.answer import Invalid, MarshalError, Split, encoded, judge

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


BATCH = ("a", "b", "c")
ALL = Split(BATCH, ())


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        pytest.param('{"batchItemFailures": []}', ALL, id="empty list"),
        pytest.param('{"batchItemFailures": null}', ALL, id="null list"),
        pytest.param("{}", ALL, id="empty answer"),
        pytest.param("null", ALL, id="null answer"),
        pytest.param('{"statusCode": 200}', ALL, id="an object about something else"),
        pytest.param('{"batchItemFailures": [{"itemIdentifier": "b"}]}', Split(("a", "c"), ("b",)), id="partial"),
        pytest.param(
            '{"batchItemFailures": [{"itemIdentifier": "c"}, {"itemIdentifier": "a"}, {"itemIdentifier": "c"}]}',
            Split(("b",), ("a", "c")),
            id="partial, one named twice",
        ),
    ],
)
def test_judge_splits_a_valid_answer(answer: str, verdict: Split) -> None:
    assert judge(answer, BATCH, reports_failures=True) == verdict


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param('{"batchItemFailures": [{"itemIdentifier": ""}]}', id="empty identifier"),
        pytest.param('{"batchItemFailures": [{"itemIdentifier": null}]}', id="null identifier"),
        pytest.param('{"batchItemFailures": [{"itemIdentifier": 7}]}', id="identifier is a number"),
        pytest.param('{"batchItemFailures": [{"messageId": "b"}]}', id="wrong key"),
        pytest.param('{"batchItemFailures": [{"ItemIdentifier": "b"}]}', id="wrong case"),
        pytest.param('{"batchItemFailures": [{"itemIdentifier": "z"}]}', id="unknown identifier"),
        pytest.param('{"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "z"}]}', id="one unknown"),
        pytest.param('{"batchItemFailures": ["b"]}', id="entry is text"),
        pytest.param('{"batchItemFailures": "b"}', id="list is text"),
        pytest.param('{"batchItemFailures": {"itemIdentifier": "b"}}', id="list is an object"),
        pytest.param('"done"', id="text"),
        pytest.param("[]", id="a list"),
        pytest.param("true", id="true"),
        pytest.param("", id="no JSON at all"),
        pytest.param('{"batchItemFailures": [], "mean": NaN}', id="a constant that Python reads and JSON lacks"),
        pytest.param('{"batchItemFailures": [', id="broken JSON"),
    ],
)
def test_judge_rejects_an_invalid_answer(answer: str) -> None:
    assert isinstance(judge(answer, BATCH, reports_failures=True), Invalid)


def test_judge_takes_any_answer_as_success_without_reports() -> None:
    for answer in ('{"batchItemFailures": [{"itemIdentifier": "b"}]}', "[]", "not JSON"):
        assert judge(answer, BATCH, reports_failures=False) == ALL


def test_reason_never_quotes_the_answer() -> None:
    verdict = judge('{"batchItemFailures": [{"itemIdentifier": "999 123 4567"}]}', BATCH, reports_failures=True)
    assert isinstance(verdict, Invalid)
    assert "999" not in verdict.reason
