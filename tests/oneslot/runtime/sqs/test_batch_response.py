"""AWS's rules for the answer to a batch, one row each."""

from __future__ import annotations

import pytest

from oneslot.runtime.sqs.answer import Invalid, Split, judge

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
