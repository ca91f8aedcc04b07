"""Handlers with effects outside of their tables. Each is explored unmodified, from this file."""

import contextlib
import json
import os
import urllib.request
import uuid
from typing import Any

import boto3
import requests

table = boto3.resource("dynamodb").Table("orders")
sns, s3, ssm = boto3.client("sns"), boto3.client("s3"), boto3.client("ssm")
sqs = boto3.client("sqs")
QUEUE = "https://sqs.eu-west-2.amazonaws.com/000000000000/orders"
CHARGES = "https://pay.example/charges"
TOPIC = "arn:aws:sns:eu-west-2:000000000000:paid"
MACHINE = "arn:aws:states:eu-west-2:000000000000:stateMachine:ship"


def _orders(event: Any) -> list[str]:
    return [json.loads(record["body"])["order"] for record in event["Records"]]


def publish_then_mark(event: Any, context: Any) -> None:
    for order in _orders(event):
        if "Item" not in table.get_item(Key={"id": order}):
            sns.publish(TopicArn=TOPIC, Message=json.dumps({"order": order, "trace": str(uuid.uuid4())}))
            table.put_item(Item={"id": order})


def mark_then_publish(event: Any, context: Any) -> None:
    for order in _orders(event):
        if "Item" not in table.get_item(Key={"id": order}):
            table.put_item(Item={"id": order})
            sns.publish(TopicArn=TOPIC, Message=order)


def publish_summary(event: Any, context: Any) -> None:
    sns.publish(TopicArn=TOPIC, Message=",".join(_orders(event)))


def start_named(event: Any, context: Any) -> None:
    for order in _orders(event):
        boto3.client("stepfunctions").start_execution(stateMachineArn=MACHINE, name=order, input="{}")


def start_unnamed(event: Any, context: Any) -> None:
    for _ in _orders(event):
        boto3.client("stepfunctions").start_execution(stateMachineArn=MACHINE, input="{}")


def end_task(event: Any, context: Any) -> None:
    for order in _orders(event):
        boto3.client("stepfunctions").send_task_success(taskToken=order, output="{}")


def end_task_once(event: Any, context: Any) -> None:
    states = boto3.client("stepfunctions")
    for order in _orders(event):
        with contextlib.suppress(states.exceptions.TaskTimedOut):
            states.send_task_failure(taskToken=order, error="declined")


def bill(event: Any, context: Any) -> None:
    bucket = ssm.get_parameter(Name="/bucket")["Parameter"]["Value"]
    for order in _orders(event):
        s3.put_object(Bucket=bucket, Key=f"bills/{order}", Body=order)


def bill_under_new_key(event: Any, context: Any) -> None:
    for order in _orders(event):
        s3.put_object(Bucket="bills", Key=str(uuid.uuid4()), Body=order)


def upload(event: Any, context: Any) -> None:
    s3.download_file("bills", "template", "/tmp/template")  # noqa: S108 - as in Lambda
    with open("/tmp/template", "rb") as template:  # noqa: PTH123, S108
        s3.upload_fileobj(template, "bills", _orders(event)[0])
    os.remove("/tmp/template")  # noqa: PTH107, S108


def ask(event: Any, context: Any) -> None:
    boto3.client("lambda").invoke(FunctionName="price", Payload=b"{}")


def delete_then_put(event: Any, context: Any) -> None:
    for record in event["Records"]:
        sqs.delete_message(QueueUrl=QUEUE, ReceiptHandle=record["receiptHandle"])
        table.put_item(Item={"id": json.loads(record["body"])["order"]})


def put_then_delete(event: Any, context: Any) -> None:
    for record in event["Records"]:
        table.put_item(Item={"id": json.loads(record["body"])["order"]})
        sqs.delete_message(QueueUrl=QUEUE, ReceiptHandle=record["receiptHandle"])


def forward_in_order(event: Any, context: Any) -> None:
    url = sqs.get_queue_url(QueueName="next.fifo")["QueueUrl"]
    entries: Any = [{"Id": str(at), "MessageBody": one, "MessageGroupId": "g"} for at, one in enumerate(_orders(event))]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)


def poll(event: Any, context: Any) -> None:
    sqs.receive_message(QueueUrl=QUEUE)


def charge(event: Any, context: Any) -> None:
    for order in _orders(event):
        answered = requests.post(CHARGES, json={"order": order}, timeout=5)
        answered.raise_for_status()
        table.put_item(Item={"id": order, "charge": answered.json()["id"]})


def charge_with_key(event: Any, context: Any) -> None:
    for order in _orders(event):
        headers = {"Idempotency-Key": order}
        requests.post(CHARGES, json={"order": order}, headers=headers, timeout=5).raise_for_status()


def charge_and_give_up(event: Any, context: Any) -> None:
    for order in _orders(event):
        try:
            requests.post(CHARGES, json={"order": order}, timeout=5)
        except requests.Timeout:
            return


def publish_attempt(event: Any, context: Any) -> None:
    for order in _orders(event):
        counted: Any = table.update_item(
            Key={"id": order},
            UpdateExpression="ADD attempts :one",
            ExpressionAttributeValues={":one": 1},
            ReturnValues="UPDATED_NEW",
        )
        sns.publish(TopicArn=TOPIC, Message=f"{order}, attempt {counted['Attributes']['attempts']}")


def store_under_new_address(event: Any, context: Any) -> None:
    for order in _orders(event):
        requests.put(f"https://store.example/{uuid.uuid4()}", json=order, timeout=5)


def fetch(event: Any, context: Any) -> None:
    with urllib.request.urlopen("http://prices.example:8080/o-1?currency=GBP") as answered:
        table.put_item(Item={"id": "price", "value": answered.read().decode()})


def keep_id_of_message(event: Any, context: Any) -> None:
    sent = boto3.client("sns").publish(TopicArn="arn:aws:sns:eu-west-2:1:paid", Message="o-1")
    boto3.resource("dynamodb").Table("orders").put_item(Item={"id": "o-1", "sent": sent["MessageId"]})
