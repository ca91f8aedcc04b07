"""Repeat a public handler's counterexample with real deliveries of the embedded AWS: its SQS and its DynamoDB."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import requests
from botocore.exceptions import ClientError

from oneslot.explorer.handlers.modules import found
from oneslot.explorer.handlers.tables import tables_of
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.runtime.sqs.lambda_event import Context
from oneslot.runtime.stores.expressions import to_attributes
from verification.handlers.subjects import Subject

PASS = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}})
ROLE = "arn:aws:iam::000000000000:role/any"
THROTTLED = {"sqs-lambda-dynamodb-cdk": "BatchWriteItem"}
"""The call that is throttled until the SDK gives up, for a handler whose counterexample is that fault."""


def repeated(subject: Subject, clones: Path) -> str:
    """Deliver the message twice, or once with the throttled call; return what the tables, or the state machine, have then.

    HTTP calls get the answers of the exploration.
    """
    code = found(subject.handler, subject.paths(clones))
    throttled = THROTTLED.get(subject.name)
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder)) as aws:
        connection = aws.connection()
        environment = {
            "AWS_ENDPOINT_URL": connection.endpoint_url,
            "AWS_ACCESS_KEY_ID": connection.access_key_id,
            "AWS_SECRET_ACCESS_KEY": connection.secret_access_key,
            "AWS_DEFAULT_REGION": connection.region,
            "AWS_REGION": connection.region,
        }
        dynamodb, sqs, workflows = connection.dynamodb(), connection.sqs(), connection.client("stepfunctions")
        _create_tables(dynamodb, subject)
        machine = subject.options.get("env", {}).get("STATE_MACHINE_ARN")
        if machine:
            workflows.create_state_machine(name=machine.rpartition(":")[2], definition=PASS, roleArn=ROLE)
        url = sqs.create_queue(QueueName="explored")["QueueUrl"]
        (message,) = subject.options["messages"]
        sqs.send_message(QueueUrl=url, MessageBody=message if isinstance(message, str) else json.dumps(message))
        with (
            mock.patch.dict(os.environ, environment | subject.options.get("env", {})),
            mock.patch.object(requests, "post", return_value=_http_answer(subject)),
            code.importable(),
        ):
            boto3.setup_default_session()
            if throttled:
                events = boto3._get_default_session().events
                events.register(f"before-call.dynamodb.{throttled}", _throttle)
            for _ in range(1 if throttled else 2):
                received = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"][0]
                record = {"messageId": received["MessageId"], "body": received["Body"], "attributes": {}}
                code.load()({"Records": [record]}, Context())
        sqs.delete_message(QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])
        held = [f"{name} has {dynamodb.scan(TableName=name)['Count']} rows" for name in subject.options["tables"]]
        if machine:
            started = workflows.list_executions(stateMachineArn=machine)["executions"]
            held = [f"{machine.rpartition(':')[2]} has {len(started)} executions"]
    how = f"{throttled} throttled, message acknowledged" if throttled else "delivered twice"
    return f"{how}: {', '.join(held)}"


def _http_answer(subject: Subject) -> requests.Response:
    """Return the answer that the exploration gives to a call outside of AWS; an empty one without such a call."""
    answer = requests.Response()
    for call, given in subject.options.get("answers", {}).items():
        if call.startswith("POST "):
            answer.status_code, answer._content = given["status"], json.dumps(given["body"]).encode()
    return answer


def _throttle(model: Any, **event: Any) -> None:
    raise ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "injected"}}, model.name)


def _create_tables(dynamodb: Any, subject: Subject) -> None:
    for name, table in tables_of(subject.options["tables"]).items():
        kinds = list(zip(table.keys, ("HASH", "RANGE"), strict=False))
        dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in kinds],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key, _ in kinds],
            BillingMode="PAY_PER_REQUEST",
        )
        for row in subject.options.get("rows", {}).get(name, ()):
            dynamodb.put_item(TableName=name, Item=to_attributes(row))
