"""The delivery log on AWS: the question to CloudWatch Logs, and the lines of its answer."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oneslot.operator.evidence.deliveries import read_deliveries, valid_deliveries
from oneslot.operator.evidence.gathering import gather
from oneslot.operator.evidence.verdict import judge
from oneslot.operator.repair.inspection import inspect
from tests.kits.consumer import BEFORE, booking, record
from tests.kits.moto_stack import Logs, MotoStack

LINE = {"message": "delivery", "sqs_message_id": "s", "outcome": "busy", "sent": 1, "finished": 2}
LINES = [json.dumps({**LINE, "message_id": f"m-{number}"}) for number in (1, 2)]


def test_log_reader_asks_for_and_keeps_deliveries_only(moto_stack: MotoStack) -> None:
    logs = Logs(*LINES, '{"message": "delivery', '{"message": "another delivery"}', '["delivery"]')
    deliveries = list(valid_deliveries(moto_stack.on_aws(logs), [], since_ms=5))
    assert [line["message_id"] for line in deliveries] == ["m-1", "m-2"]
    assert logs.asked == [
        {"logGroupName": "/oneslot/consumer", "filterPattern": '{ $.message = "delivery" }', "startTime": 5}
    ]


def test_log_reader_finds_a_message_by_either_id(moto_stack: MotoStack) -> None:
    logs = Logs(*LINES)
    found = list(valid_deliveries(moto_stack.on_aws(logs), [], mentioning="m-2"))
    assert [line["message_id"] for line in found] == ["m-2"]
    assert '($.message_id = "m-2" || $.sqs_message_id = "m-2")' in logs.asked[0]["filterPattern"]


class NoLogs(Logs):
    """Refuses every question."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        raise ClientError({"Error": {"Code": self._code, "Message": "no"}}, "FilterLogEvents")


@pytest.mark.parametrize("logs", [NoLogs("ResourceNotFoundException"), Logs()], ids=["no log group", "an empty one"])
def test_counts_are_unknown_when_the_log_is_empty_or_missing(moto_stack: MotoStack, logs: Logs) -> None:
    moto_stack.bench.deliver(record(booking("m-1")))
    on_it = moto_stack.on_aws(logs)
    verdict = judge(gather(on_it, lambda: BEFORE), on_it.command)
    assert (verdict.kind, verdict.counts.deliveries, verdict.counts.duplicates) == ("holds", None, None)
    assert "The delivery log is empty" in verdict.sentence
    assert inspect(on_it, "m-1").ledger


def test_gather_raises_when_the_log_may_not_be_read(moto_stack: MotoStack) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        gather(moto_stack.on_aws(NoLogs("AccessDeniedException")))


def test_export_raises_when_the_log_group_is_missing(moto_stack: MotoStack) -> None:
    with pytest.raises(ClientError, match="ResourceNotFound"):
        list(read_deliveries(moto_stack.on_aws(NoLogs("ResourceNotFoundException"))))
