"""A valid message in the DLQ: a lock of five minutes, and a queue that gives up after three receives."""

import json
import time

import boto3

orders = boto3.resource("dynamodb").Table("orders")
locks = boto3.resource("dynamodb").Table("locks")


def handler(event, context):
    work(event, locked_for=300)


def fixed(event, context):
    work(event, locked_for=context.get_remaining_time_in_millis() / 1000)


def work(event, locked_for):
    for record in event["Records"]:
        order = json.loads(record["body"])["order"]
        now = int(time.time())
        locks.put_item(
            Item={"id": order, "until": now + int(locked_for)},
            ConditionExpression="attribute_not_exists(id) OR #until <= :now",
            ExpressionAttributeNames={"#until": "until"},
            ExpressionAttributeValues={":now": now},
        )  # raises while another invocation holds the lock, so SQS delivers again
        orders.put_item(Item={"id": order, "status": "placed"})
        locks.delete_item(Key={"id": order})
