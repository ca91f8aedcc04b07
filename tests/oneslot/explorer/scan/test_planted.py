"""Handlers with a planted bug, and right ones, by the source that invokes them: the scan's verdicts and its written tests."""

import json
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oneslot.operator.commands.explore.scan import scan as command
from tests.oneslot.explorer.scan.shop import written_template

HEAD = """
import json, os, uuid
import boto3
from botocore.exceptions import ClientError
table = boto3.resource("dynamodb").Table(os.environ["TABLE"])
s3, sns, client = boto3.client("s3"), boto3.client("sns"), boto3.client("dynamodb")

def handler(event, context):
"""
BODY = "    id = json.loads(event['Records'][0]['body'])['id']\n"
NOTE = "    id = json.loads(event['Records'][0]['Sns']['Message'])['id']\n"
OBJECT = "    key = event['Records'][0]['s3']['object']['key']\n"
REQUEST = "    id = json.loads(event['body'])['id']\n"
TABLE_OF_HANDLERS = {
    "Add": (
        *("SQS", BODY, "table.update_item(Key={'id': id}, UpdateExpression='ADD n :o',"),
        *("ExpressionAttributeValues={':o': 1})", "breaks"),
    ),
    "Append": (
        *("SNS", NOTE, "table.update_item(Key={'id': id}, ExpressionAttributeValues={':e': [], ':v': [1]},"),
        *("UpdateExpression='SET h = list_append(if_not_exists(h, :e), :v)')", "breaks"),
    ),
    "RandomKey": ("SQS", BODY, "table.put_item(Item={'id': str(uuid.uuid4()),", "'order': id})", "breaks"),
    "RandomObject": (
        *("S3", OBJECT, "s3.put_object(Bucket=os.environ['OUT'],"),
        *("Key=str(uuid.uuid4()), Body=b'x')", "breaks"),
    ),
    "LostNotice": (
        *("SQS", BODY, "if 'Item' in table.get_item(Key={'id': id}): return\n    table.put_item(Item={'id': id});"),
        *("sns.publish(TopicArn=os.environ['TOPIC'], Message=id)", "breaks"),
    ),
    "Swallowed": ("SNS", NOTE, "try: table.put_item(Item={'id': id})", "\n    except ClientError: pass", "breaks"),
    "Answers200": (
        *("HttpApi", REQUEST, "try: table.put_item(Item={'id': id})"),
        *("\n    except ClientError: pass\n    return {'statusCode': 200}", "breaks"),
    ),
    "ReadThenWrite": (
        *("HttpApi", REQUEST, "n = table.get_item(Key={'id': id}).get('Item', {'n': 0})['n']\n    "),
        *("table.put_item(Item={'id': id, 'n': n + 1})", "breaks"),
    ),
    "Conditional": (
        *("SQS", BODY, "try: table.put_item(Item={'id': id}, ConditionExpression='attribute_not_exists(id)')"),
        *("\n    except client.exceptions.ConditionalCheckFailedException: pass", "holds"),
    ),
    "NotRead": (
        *("Kinesis", "    number = event['Records'][0]['kinesis']['sequenceNumber']\n"),
        "try: table.put_item(Item={'id': '1'})\n    except ClientError:\n        ",
        *("return {'batchItemFailures': [{'itemIdentifier': number}]}", "breaks"),
    ),
    "Copies": ("S3", OBJECT, "s3.put_object(Bucket=os.environ['OUT'],", "Key='copy/' + key, Body=b'x')", "holds"),
}
EVENTS: dict[str, Any] = {
    "SQS": {"Queue": {"Fn::GetAtt": ["Queue", "Arn"]}, "BatchSize": 1},
    "SNS": {"Topic": {"Ref": "Topic"}},
    "S3": {"Bucket": {"Ref": "In"}},
    "Kinesis": {"Stream": {"Fn::GetAtt": ["Stream", "Arn"]}},
    "HttpApi": {"Path": "/orders", "Method": "post"},
}


def _template(folder: Path) -> Path:
    """Write each handler as `app.py` into a folder of its own."""
    buckets = dict.fromkeys(("In", "Out"), "S3::Bucket")
    kinds = {"Stream": "Kinesis::Stream", "Queue": "SQS::Queue", "Topic": "SNS::Topic", **buckets}
    resources: dict[str, Any] = {name: {"Type": f"AWS::{kind}"} for name, kind in kinds.items()}
    resources["Table"] = {"Type": "AWS::Serverless::SimpleTable"}
    variables = {"TABLE": {"Ref": "Table"}, "OUT": {"Ref": "Out"}, "TOPIC": {"Ref": "Topic"}}
    functions: dict[str, Any] = {}
    for name, (source, first, *calls, _) in TABLE_OF_HANDLERS.items():
        (folder / name).mkdir()
        (folder / name / "app.py").write_text(f"{HEAD}{first}    {''.join(calls)}\n")
        functions[name] = {
            "Handler": "app.handler",
            "CodeUri": f"{name}/",
            "Environment": {"Variables": variables},
            "Events": {"One": {"Type": source, "Properties": EVENTS[source]}},
        }
    return written_template(folder, functions, **resources)


@pytest.mark.slow
def test_scan_finds_each_planted_bug_and_its_written_test_fails_by_an_assertion(tmp_path: Path) -> None:
    template = _template(tmp_path)
    expected = {name: verdict for name, (*_, verdict) in TABLE_OF_HANDLERS.items()}
    broken = sum(verdict == "breaks" for verdict in expected.values())
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    with chdir(tmp_path):
        ran = CliRunner().invoke(command, [template.name, "--write-test", "tests", "--json"], standalone_mode=False)
        pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:oneslot", "-p", "no:cacheprovider", "tests"]
        done = subprocess.run(pytest_command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    report = json.loads(ran.stdout)

    assert {one["function"]: one["verdict"] for one in report["functions"]} == expected
    assert f"{broken} failed" in done.stdout
    assert done.stdout.count("AssertionError\n") == broken
