"""The form of a line of the delivery log."""

from __future__ import annotations

import json

import pytest

from oneslot.runtime.consumer.record import Delivery, function_version, print_line


def test_line_is_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(Delivery("sqs-1", 2, 3, "request-1", trace="the trace"))

    out = capsys.readouterr().out
    assert out.endswith("}\n")
    line = json.loads(out)
    assert (line["message"], line["sqs_message_id"], line["receive_count"], line["trace"]) == (
        "delivery",
        "sqs-1",
        2,
        "the trace",
    )


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"AWS_LAMBDA_FUNCTION_VERSION": "7"}, {"function_version": "7"}),
        ({"AWS_LAMBDA_FUNCTION_VERSION": ""}, {}),
        ({}, {}),
    ],
)
def test_line_names_the_functions_version_when_there_is_one(environment: dict[str, str], named: dict[str, str]) -> None:
    assert function_version(environment) == named
