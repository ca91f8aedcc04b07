"""What a function is deployed from: a plan of Terraform, loops, conditions, zips, and functions that CDK adds."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.templates.intrinsics import Resolver
from oneslot.explorer.handlers.templates.sources import functions, sources_of
from oneslot.explorer.handlers.templates.template import read_template
from oneslot.explorer.scan.scan import scan
from tests.oneslot.explorer.scan.shop import written_template

HANDLER = """
import json
import os

import boto3

table = boto3.resource("dynamodb").Table(os.environ["TABLE"])


def handler(event, context):
    for record in event["Records"]:
        body = json.loads(record["body"])
        table.update_item(Key={"id": body["id"]}, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": 1})
"""


def _planned(kind: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"address": f"{kind}.{name}", "mode": "managed", "type": kind, "name": name, "values": values}


def _written(kind: str, name: str, **references: str) -> dict[str, Any]:
    given = {attribute: {"references": [one, one.rpartition(".")[0]]} for attribute, one in references.items()}
    return {"address": f"{kind}.{name}", "type": kind, "name": name, "expressions": given}


def _plan(tmp_path: Path) -> Path:
    planned = [
        _planned(
            "aws_lambda_function",
            "orders",
            {
                "function_name": "orders",
                "handler": "app.handler",
                "runtime": "python3.12",
                "timeout": 10,
                "filename": "orders.zip",
                "environment": [{"variables": {"TABLE": "orders", "QUEUE": None}}],
            },
        ),
        _planned("aws_sqs_queue", "orders", {"name": "orders", "visibility_timeout_seconds": 60}),
        _planned("aws_sqs_queue", "dead", {"name": "dead"}),
        _planned("aws_sns_topic", "orders", {"name": "published"}),
        _planned("aws_sns_topic_subscription", "orders", {"protocol": "sqs", "filter_policy": '{"kind": ["paid"]}'}),
        _planned(
            "aws_dynamodb_table", "t", {"name": "orders", "hash_key": "id", "attribute": [{"name": "id", "type": "S"}]}
        ),
        _planned("aws_lambda_event_source_mapping", "orders", {"batch_size": 1}),
    ]
    expressions = [
        _written("aws_lambda_function", "orders", environment="aws_sqs_queue.dead.url"),
        _written("aws_sqs_queue", "orders", redrive_policy="aws_sqs_queue.dead.arn"),
        _written(
            "aws_sns_topic_subscription",
            "orders",
            endpoint="aws_sqs_queue.orders.arn",
            topic_arn="aws_sns_topic.orders.arn",
        ),
        _written(
            "aws_lambda_event_source_mapping",
            "orders",
            event_source_arn="aws_sqs_queue.orders.arn",
            function_name="aws_lambda_function.orders.arn",
        ),
    ]
    archive = {"type": "archive_file", "mode": "data", "values": {"output_path": "orders.zip", "source_dir": "src"}}
    plan = {
        "format_version": "1.2",
        "planned_values": {"root_module": {"resources": planned}},
        "configuration": {"root_module": {"resources": expressions}},
        "prior_state": {"values": {"root_module": {"resources": [archive]}}},
    }
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text(
        HANDLER.replace('record["body"])', 'json.loads(record["body"])["Message"])')
    )
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path / "plan.json"


def test_a_plan_of_terraform_is_scanned_as_a_template(tmp_path: Path) -> None:
    plan = _plan(tmp_path)

    template = read_template(plan)
    (name,) = functions(resolver := Resolver(template, {}))
    (source,) = sources_of(resolver, name)
    (row,) = scan(plan).rows

    queue = {"Ref": "SqsQueueDead"}
    assert template["Resources"][name]["Properties"]["Environment"] == {
        "Variables": {"TABLE": "orders", "QUEUE": queue}
    }
    assert (source.kind, source.physical, source.feed and source.feed.physical) == ("SQS", "orders", "published")
    assert row.verdict == "breaks"
    assert "n is 2" in row.why


@pytest.mark.parametrize(
    "key", ["app.py", "code.zip", "s3://bucket/prefix/code.zip", {"S3Bucket": "b", "S3Key": "service/1/code.zip"}]
)
def test_code_is_unpacked_when_it_is_a_zip_or_a_file(key: Any, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANDLER if key == "app.py" else "")
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as file:
        file.writestr("app.py", HANDLER)
    event = {"Type": "SQS", "Properties": {"Queue": {"Fn::GetAtt": ["Queue", "Arn"]}, "BatchSize": 1}}
    properties = {
        "Handler": "app.handler",
        "CodeUri": key,
        "Events": {"One": event},
        "Environment": {"Variables": {"TABLE": {"Ref": "Table"}}},
    }
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"RedrivePolicy": '{"maxReceiveCount": 2}'}}
    table = {"Type": "AWS::Serverless::SimpleTable"}

    found = scan(written_template(tmp_path, {"Orders": properties}, Queue=queue, Table=table))

    assert [row.verdict for row in found.rows] == ["breaks"]
    assert "too-few-receives" in {one.rule for one in found.findings}


def test_functions_are_those_that_the_stack_will_have() -> None:
    function = {"Type": "AWS::Lambda::Function", "Properties": {"Handler": "app.${Name}"}}
    template = {
        "Conditions": {
            "IsProd": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]},
            "HasOwner": {"Fn::Equals": [{"Ref": "Owner"}, "a team"]},
        },
        "Parameters": {"Stage": {"Default": "dev"}, "Names": {"Default": ["X", "Y"]}, "Owner": {"Type": "String"}},
        "Resources": {
            "OnlyProd": {**function, "Condition": "IsProd"},
            "OfAnyOwner": {**function, "Condition": "HasOwner"},
            "BucketNotificationsHandler050a0587b7544547bf325f094a3db8347ECC3691": function,
            "Fn::ForEach::Loop": ["Name", {"Ref": "Names"}, {"Fn${Name}": function}],
        },
    }

    resolver = Resolver(template, {})

    assert functions(resolver) == ["OfAnyOwner", "FnX", "FnY"], "a parameter without a value decides nothing"
    assert resolver.resources["FnY"]["Properties"]["Handler"] == "app.Y"
    assert resolver.known("{{resolve:secretsmanager:pay}}", "of another service") == "of another service"
    assert functions(Resolver(template, {"Stage": "prod", "Owner": "b"})) == ["OnlyProd", "FnX", "FnY"]
