"""The delivery log on AWS: what CloudWatch Logs is asked for, and what is made of its answer."""

from __future__ import annotations

import json
from typing import Any

from oneslot.deliveries import read_deliveries
from oneslot.target import Outputs, Target
from tests.oneslot.conftest import MotoStack


class Logs:
    """A log group whose two pages answer every question; the questions are kept."""

    def __init__(self, *lines: str) -> None:
        self.asked: list[dict[str, Any]] = []
        self._lines = lines

    def get_paginator(self, operation: str) -> Logs:
        assert operation == "filter_log_events"
        return self

    def paginate(self, **question: Any) -> list[dict[str, Any]]:
        self.asked.append(question)
        half = len(self._lines) // 2
        events = [
            {"message": line, "eventId": f"e-{number}", "logStreamName": "s"}
            for number, line in enumerate(self._lines, 1)
        ]
        return [{"events": part} for part in (events[:half], events[half:])]


LINES = [json.dumps({"message": "delivery", "message_id": f"m-{number}", "sqs_message_id": "s"}) for number in (1, 2)]


def on_aws(stack: MotoStack, logs: Logs) -> Target:
    """The same stack as if it were on AWS."""
    assert stack.target.local is not None
    target = Target("Oneslot-prod", "arn", Outputs.of("Oneslot-prod", stack.target.local.outputs), stack.home)
    target.__dict__["logs"] = logs
    return target


def test_only_lines_about_deliveries_are_asked_for_and_kept(moto_stack: MotoStack) -> None:
    logs = Logs(*LINES, '{"message": "delivery', '{"message": "another delivery"}', '["delivery"]')
    deliveries = list(read_deliveries(on_aws(moto_stack, logs), since_ms=5))
    assert [line["message_id"] for line in deliveries] == ["m-1", "m-2"]
    assert logs.asked == [
        {"logGroupName": "/oneslot/consumer", "filterPattern": '{ $.message = "delivery" }', "startTime": 5}
    ]


def test_one_message_is_asked_for_by_either_of_its_ids(moto_stack: MotoStack) -> None:
    logs = Logs(*LINES)
    found = list(read_deliveries(on_aws(moto_stack, logs), mentioning="m-2"))
    assert [line["message_id"] for line in found] == ["m-2"]
    assert '($.message_id = "m-2" || $.sqs_message_id = "m-2")' in logs.asked[0]["filterPattern"]


def test_a_local_log_that_is_not_there_yet_is_empty(moto_stack: MotoStack) -> None:
    assert list(read_deliveries(moto_stack.target)) == []
