"""`pause` and `resume`, on moto's Lambda as on AWS, and on the local stack."""

import io
import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from oneslot.cdk import metrics
from oneslot.errors import MappingNotFound
from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.event_source_mapping import RESTART
from oneslot.operator.repair import pausing
from oneslot.operator.target import Target
from tests.kits.moto_stack import ENVIRONMENT, Functions, MotoStack, document, invoke

REASON = "DynamoDB throttles (INC-12)"
PAUSE = ("pause", "--reason", REASON, "--json")


@pytest.fixture
def on_aws(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A stack on AWS, on moto, with a mapping."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    role = boto3.client("iam").create_role(RoleName="consumer", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("handler.py", "")
    functions, sqs = boto3.client("lambda"), moto_stack.bench.sqs
    functions.create_function(
        FunctionName="consumer",
        Runtime="python3.13",
        Role=role,
        Handler="handler.handler",
        Code={"ZipFile": code.getvalue()},
    )
    outputs = moto_stack.target.outputs
    arn = sqs.get_queue_attributes(QueueUrl=outputs.queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    mapping = functions.create_event_source_mapping(EventSourceArn=arn, FunctionName="consumer")
    clients: Any = SimpleNamespace(
        functions=lambda: functions, sqs=lambda: sqs, dynamodb=lambda: moto_stack.bench.dynamodb
    )
    target = replace(
        moto_stack.target,
        local=None,
        clients=clients,
        outputs=replace(outputs, event_source_mapping_id=mapping["UUID"]),
    )
    monkeypatch.setattr("oneslot.operator.options.open_target", lambda _: target)
    return target


def state(target: Target) -> str:
    mapping = target.functions.get_event_source_mapping(UUID=target.outputs.event_source_mapping_id)
    return str(mapping["State"])


def reported() -> float:
    """The last value of the metric."""
    now = datetime.now(UTC)
    answer = boto3.client("cloudwatch").get_metric_statistics(
        Namespace="Oneslot",
        MetricName="Paused",
        Dimensions=[{"Name": "FunctionName", "Value": "consumer"}],
        StartTime=now - timedelta(minutes=5),
        EndTime=now + timedelta(minutes=5),
        Period=600,
        Statistics=["Minimum"],
    )
    (point,) = answer["Datapoints"]
    return float(point["Minimum"])


def test_pause_switches_the_mapping_off_with_the_reason(on_aws: Target) -> None:
    paused = document(invoke(*PAUSE, "--yes"))

    assert (paused["paused"], paused["changed"], paused["problems"]) == (True, True, [])
    assert paused["reason"] == "DynamoDB throttles INC-12"  # a tag takes no brackets
    assert "assumed-role" in paused["who"] or "arn:aws" in paused["who"]
    assert (state(on_aws), reported()) == ("Disabled", 1.0)
    lines = [json.loads(line) for line in (on_aws.home / "operator-log.jsonl").read_text().splitlines()]
    assert [(line["action"], line["outcome"], line["reason"]) for line in lines] == [
        ("pause", "begun", REASON),
        ("pause", "done", REASON),
    ]


def test_pause_adds_a_reason_when_the_mapping_is_off(on_aws: Target) -> None:
    on_aws.functions.update_event_source_mapping(UUID=on_aws.outputs.event_source_mapping_id, Enabled=False)
    assert "no tag says why" in invoke("status").stdout.splitlines()[0]

    assert document(invoke(*PAUSE, "--yes"))["reason"] == "DynamoDB throttles INC-12"


def test_resume_ends_the_pause_and_its_alarm(on_aws: Target) -> None:
    invoke(*PAUSE, "--yes")

    assert document(invoke("resume", "--json"))["changed"] is False
    resumed = document(invoke("resume", "--yes", "--json"))

    assert (resumed["paused"], resumed["since"], state(on_aws)) == (False, None, "Enabled")
    assert reported() == 0.0
    assert document(invoke("resume", "--yes", "--json"))["changed"] is False
    assert "PAUSED" not in invoke("status").stdout


def test_missing_mapping_is_refused_in_words(on_aws: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    on_aws.functions.delete_event_source_mapping(UUID=on_aws.outputs.event_source_mapping_id)

    for command in (PAUSE, ("resume", "--json")):
        assert document(invoke(*command), 1)["code"] == MappingNotFound.code
    assert document(invoke("status", "--json"))["mapping"] is None


def test_pause_reports_an_alarm_that_it_cannot_reach(on_aws: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "PutMetricData")

    monkeypatch.setattr(
        "oneslot.operator.repair.pausing.boto3.client", lambda _: SimpleNamespace(put_metric_data=refuse)
    )
    monkeypatch.setattr("oneslot.operator.evidence.operator_log._caller", lambda: None)

    assert len(document(invoke(*PAUSE, "--yes"))["problems"]) == 1
    assert state(on_aws) == "Disabled"


def test_status_and_watch_say_that_a_local_function_does_not_start(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = Functions(ENVIRONMENT, {RESTART: "SyntaxError in app.py, line 3"})
    monkeypatch.setattr(Connection, "functions", lambda _: functions)
    for verb in (["status"], ["watch", "--timeout", "0.1"]):
        assert "does not start: SyntaxError in app.py, line 3. Correct it" in invoke(*verb).output


def test_metric_is_the_one_that_the_alarm_watches() -> None:
    assert (pausing.NAMESPACE, pausing.METRIC) == (metrics.PAUSED_NAMESPACE, metrics.PAUSED)
