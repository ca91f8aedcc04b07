"""Repeat a public handler's counterexample with real deliveries of the embedded AWS: its SQS and its DynamoDB."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import requests
from botocore.exceptions import ClientError

from lab.handlers.subjects import Subject
from oneslot.explorer.handlers.modules import found
from oneslot.explorer.handlers.templates.tables import tables_of
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.mapping.bootstrap import BootstrapContext
from oneslot.runtime.sqs import lambda_event
from oneslot.runtime.values import to_attributes

PASS = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}})
FUNCTION = dict.fromkeys(("name", "version", "arn", "memory_mb", "log_group", "log_stream"), "repeated")
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
            **connection.variables,
            "AWS_REGION": connection.region,
        }
        _create_resources(connection, subject)
        with (
            mock.patch.dict(os.environ, environment | subject.options.get("env", {})),
            mock.patch.object(requests, "post", return_value=_http_answer(subject)),
            code.importable(),
        ):
            boto3.setup_default_session()
            if throttled:
                events = boto3._get_default_session().events
                events.register(f"before-call.dynamodb.{throttled}", _throttle)
            for number, event in enumerate(_events(connection, subject, 1 if throttled else 2)):
                code.load()(event, BootstrapContext(FUNCTION, f"request-{number}", int(time.time() * 1000) + 30_000))
        how = f"{throttled} throttled, message acknowledged" if throttled else "delivered twice"
        return f"{how}: {_held(connection, subject)}"


def _events(connection: Connection, subject: Subject, deliveries: int) -> Iterator[Any]:
    """Yield what each delivery brings: an event of another source as it is, or what SQS gives."""
    (message,) = subject.options["messages"]
    if "Records" in message:
        yield from [message] * deliveries
        return
    sqs = connection.sqs()
    url = sqs.create_queue(QueueName="explored")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=message if isinstance(message, str) else json.dumps(message))
    for _ in range(deliveries):
        received = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0, MessageSystemAttributeNames=["All"])[
            "Messages"
        ]
        yield lambda_event.event(received, queue_arn="arn:aws:sqs:eu-west-2:000000000000:explored", region="eu-west-2")
    sqs.delete_message(QueueUrl=url, ReceiptHandle=received[0]["ReceiptHandle"])


def _held(connection: Connection, subject: Subject) -> str:
    machine = subject.options.get("env", {}).get("STATE_MACHINE_ARN")
    if machine:
        started = connection.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
        return f"{machine.rpartition(':')[2]} has {len(started)} executions"
    (table, *_) = subject.options["tables"]
    rows = connection.dynamodb().scan(TableName=table)["Items"]
    counts = sorted({row["count"]["N"] for row in rows if "count" in row})
    return f"{table} has {len(rows)} rows{' with the count ' + ', '.join(counts) if counts else ''}"


def _http_answer(subject: Subject) -> requests.Response:
    """Return the answer that the exploration gives to a call outside of AWS; an empty one without such a call."""
    answer = requests.Response()
    for call, given in subject.options.get("answers", {}).items():
        if call.startswith("POST "):
            answer.status_code, answer._content = given["status"], json.dumps(given["body"]).encode()
    return answer


def _throttle(model: Any, **event: Any) -> None:
    raise ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "injected"}}, model.name)


def _create_resources(connection: Connection, subject: Subject) -> None:
    machine = subject.options.get("env", {}).get("STATE_MACHINE_ARN")
    if machine:
        states = connection.client("stepfunctions")
        states.create_state_machine(name=machine.rpartition(":")[2], definition=PASS, roleArn=ROLE)
    dynamodb: Any = connection.dynamodb()
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
