"""SQS's own move task, which no emulator here has: the calls are held to SQS's service model by botocore's stubber."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from oneslot.errors import MoveTaskRefused
from oneslot.operator.repair.move_task import Moved, follow_move, start_move
from oneslot.runtime.surroundings import Surroundings
from oneslot.target import Target
from tests.kits.consumer import booking
from tests.kits.moto_stack import MotoStack, invoke

QUEUE, DEAD = "arn:aws:sqs:eu-west-2:123456789012:requests", "arn:aws:sqs:eu-west-2:123456789012:dead"


@pytest.fixture
def stubbed(moto_stack: MotoStack) -> Iterator[tuple[Target, Stubber]]:
    """The target as it is on AWS, and its SQS client's answers."""
    client = boto3.client("sqs", region_name="eu-west-2")
    target = replace(moto_stack.target, local=None)
    target.__dict__["sqs"] = client
    with Stubber(client) as stubber:
        yield target, stubber
        stubber.assert_no_pending_responses()


def arns(stubber: Stubber, target: Target, *which: str) -> None:
    urls = {QUEUE: target.outputs.queue_url, DEAD: target.outputs.dead_letter_queue_url}
    for arn in which:
        expected = {"QueueUrl": urls[arn], "AttributeNames": ["QueueArn"]}
        stubber.add_response("get_queue_attributes", {"Attributes": {"QueueArn": arn}}, expected)


def test_move_names_its_destination_and_caps_its_rate(stubbed: tuple[Target, Stubber]) -> None:
    target, stubber = stubbed
    arns(stubber, target, DEAD, QUEUE)
    expected = {"SourceArn": DEAD, "DestinationArn": QUEUE, "MaxNumberOfMessagesPerSecond": 500}
    stubber.add_response("start_message_move_task", {"TaskHandle": "handle"}, expected)
    start_move(target, 500.9)


def test_move_is_refused_while_another_runs(stubbed: tuple[Target, Stubber]) -> None:
    target, stubber = stubbed
    arns(stubber, target, DEAD, QUEUE)
    slowest = {"SourceArn": DEAD, "DestinationArn": QUEUE, "MaxNumberOfMessagesPerSecond": 1}
    unsupported = "AWS.SimpleQueueService.UnsupportedOperation"
    stubber.add_client_error("start_message_move_task", unsupported, expected_params=slowest)
    with pytest.raises(MoveTaskRefused):
        start_move(target, 0.5)


def test_move_raises_any_other_error_of_sqs(
    stubbed: tuple[Target, Stubber],
) -> None:
    target, stubber = stubbed
    arns(stubber, target, DEAD, QUEUE)
    stubber.add_client_error("start_message_move_task", "AccessDenied")
    with pytest.raises(ClientError, match="AccessDenied"):
        start_move(target, 1)


def test_follow_returns_the_result_of_an_ended_move(moto_stack: MotoStack, stubbed: tuple[Target, Stubber]) -> None:
    target, stubber = stubbed
    arns(stubber, target, DEAD)
    for result in (
        {"Status": "RUNNING", "ApproximateNumberOfMessagesMoved": 10, "ApproximateNumberOfMessagesToMove": 30},
        {"Status": "CANCELLING", "ApproximateNumberOfMessagesMoved": 20, "ApproximateNumberOfMessagesToMove": 30},
        {"Status": "FAILED", "ApproximateNumberOfMessagesMoved": 25, "ApproximateNumberOfMessagesToMove": 30}
        | {"FailureReason": "OverLimit"},
    ):
        stubber.add_response("list_message_move_tasks", {"Results": [result]}, {"SourceArn": DEAD, "MaxResults": 1})
    steps: list[int] = []
    slept: list[float] = []
    target = moto_stack.target_with(target.sqs, Surroundings(sleep=slept.append))
    assert follow_move(target, steps.append) == Moved("FAILED", 25, 30, "OverLimit")
    assert (steps, slept) == ([10, 10, 5], [5.0, 5.0])


@pytest.mark.parametrize(("status", "exit_code"), [("COMPLETED", 0), ("FAILED", 1)])
def test_redrive_all_uses_the_move_task_on_aws(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, status: str, exit_code: int
) -> None:
    url = moto_stack.target.outputs.dead_letter_queue_url
    moto_stack.bench.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(booking("m-1")))
    target = replace(moto_stack.target, local=None)
    target.__dict__.update(sqs=moto_stack.bench.sqs, dynamodb=moto_stack.bench.dynamodb)
    started: list[Any] = []
    monkeypatch.setattr("oneslot.operator.commands.repair.dlq.redrive.open_target", lambda _: target)
    monkeypatch.setattr(
        "oneslot.operator.evidence.operator_log._caller", lambda: "arn:aws:iam::123456789012:user/on-call"
    )
    monkeypatch.setattr("oneslot.operator.commands.repair.dlq.moving.start_move", lambda _, rate: started.append(rate))
    monkeypatch.setattr(
        "oneslot.operator.commands.repair.dlq.moving.follow_move",
        lambda *_: Moved(status, 1, 1, None if exit_code == 0 else "OverLimit"),
    )
    dry = json.loads(invoke("dlq", "redrive", "--all", "--stack", "s", "--json").stdout)
    assert (dry["method"], started) == ("move_task", [])
    result = invoke("dlq", "redrive", "--all", "--rate", "7", "--stack", "s", "--yes")
    assert (result.exit_code, started) == (exit_code, [7.0])
    assert f"SQS's move task: {status}, about 1 of 1 message moved." in result.stdout
    assert ("The move task failed: OverLimit." in result.stdout) == (exit_code == 1)
    (begun, *_) = (json.loads(line) for line in (target.home / "operator-log.jsonl").read_text().splitlines())
    assert begun["who"]["arn"] == "arn:aws:iam::123456789012:user/on-call"
    in_batches = invoke("dlq", "redrive", "--all", "--batches", "--stack", "s", "--yes", "--json")
    assert json.loads(in_batches.stdout)["moved"] == 1
