"""Handlers as users write them. Each is explored unmodified, from this file."""

import json
import random
import sys
import threading
import time
import uuid
from typing import Any

import boto3

table = boto3.resource("dynamodb").Table("orders")
client = boto3.client("dynamodb")
seen: set[str] = set()
failed: list[dict[str, str]] = []


def _orders(event: Any) -> list[str]:
    return [json.loads(record["body"])["order"] for record in event["Records"]]


def put(event: Any, context: Any) -> None:
    for order in _orders(event):
        table.put_item(Item={"id": order, "at": int(time.time())})


def put_under_new_id(event: Any, context: Any) -> None:
    for order in _orders(event):
        table.put_item(Item={"id": str(uuid.uuid4())[:8], "order": order})


def charge_then_mark(event: Any, context: Any) -> None:
    for order in _orders(event):
        if "Item" in table.get_item(Key={"id": order}):
            continue
        client.update_item(
            TableName="orders",
            Key={"id": {"S": "total"}},
            UpdateExpression="ADD amount :five",
            ExpressionAttributeValues={":five": {"N": "5"}},
        )
        table.put_item(Item={"id": order})


def swallow(event: Any, context: Any) -> None:
    try:
        put(event, context)
    except Exception:
        return


def remember_in_module(event: Any, context: Any) -> None:
    for order in _orders(event):
        if order not in seen:
            seen.add(order)
            put(event, context)


def raise_always(event: Any, context: Any) -> None:
    raise KeyError("order")


def start_thread(event: Any, context: Any) -> None:
    try:
        threading.Thread(target=put, args=(event, context)).start()
    except:  # noqa: E722 - a refusal must not be swallowed
        return


def flip(event: Any, context: Any) -> None:
    if random.random() > 0.5:
        return
    put(event, context)


def publish(event: Any, context: Any) -> None:
    boto3.client("athena").start_query_execution(QueryString="SELECT 1")


def publish_under_token(event: Any, context: Any) -> None:
    boto3.client("athena").start_query_execution(QueryString="SELECT 1", ClientRequestToken=_orders(event)[0].zfill(32))


def report_second(event: Any, context: Any) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}


def put_ten(event: Any, context: Any) -> None:
    for number in range(10):
        table.update_item(
            Key={"id": "n"},
            UpdateExpression="SET n = :n",
            ExpressionAttributeValues={":n": number},
            ReturnValues="ALL_OLD",
        )


def add_twice(event: Any, context: Any) -> None:
    for _ in range(2):
        table.update_item(
            Key={"id": "n"},
            UpdateExpression="ADD n :one",
            ExpressionAttributeValues={":one": 1},
            ReturnValues="UPDATED_NEW",
        )


def put_batch(event: Any, context: Any) -> None:
    names = [f"{order}-{line}" for order in _orders(event) for line in (1, 2)]
    items: list[Any] = [{"PutRequest": {"Item": {"id": {"S": name}}}} for name in names]
    client.batch_write_item(RequestItems={"orders": items})


def put_batch_again(event: Any, context: Any) -> None:
    with table.batch_writer() as batch:
        for order in _orders(event):
            for line in (1, 2):
                batch.put_item(Item={"id": f"{order}-{line}"})


def wait_for_a_minute(event: Any, context: Any) -> None:
    for order in _orders(event):
        seen_at = int(
            client.update_item(
                TableName="orders",
                Key={"id": {"S": order}},
                UpdateExpression="SET seen_at = if_not_exists(seen_at, :now)",
                ExpressionAttributeValues={":now": {"N": str(int(time.time()))}},
                ReturnValues="ALL_NEW",
            )["Attributes"]["seen_at"]["N"]
        )
        if 0 < int(time.time()) - seen_at < 60:
            raise RuntimeError("too early")


def report_for_ever(event: Any, context: Any) -> dict[str, Any]:
    try:
        put(event, context)
    except client.exceptions.ClientError:
        failed.append({"itemIdentifier": event["Records"][0]["messageId"]})
    return {"batchItemFailures": failed}


def exit_after_failure(event: Any, context: Any) -> dict[str, Any]:
    return sys.exit(1) if failed else report_for_ever(event, context)


def report_what_fails(event: Any, context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            put({"Records": [record]}, context)
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def put_first_of_batch(event: Any, context: Any) -> None:
    put({"Records": event["Records"][:1]}, context)


def refuse_second(event: Any, context: Any) -> dict[str, Any]:
    """Answer 409 to a request that was done before."""
    try:
        table.put_item(Item={"id": event["body"]}, ConditionExpression="attribute_not_exists(id)")
    except client.exceptions.ConditionalCheckFailedException:
        return {"statusCode": 409, "body": ""}
    return {"statusCode": 201, "body": json.dumps({"id": event["body"], "trace": context.aws_request_id})}


def answer_again(event: Any, context: Any) -> dict[str, Any]:
    refuse_second(event, context)
    return {"statusCode": 201, "body": json.dumps({"id": event["body"], "trace": context.aws_request_id})}


def put_picture(event: Any, context: Any) -> None:
    for order in _orders(event):
        table.put_item(Item={"id": order, "picture": b"\x89PNG", "tags": {b"a", b"b"}})
        found: Any = table.get_item(Key={"id": order})["Item"]
        assert (found["picture"].value, found["tags"]) == (b"\x89PNG", {b"a", b"b"})


def draw_mixed(event: Any, context: Any) -> None:
    for order in _orders(event):
        first, second = (("even", "odd")[random.random() > 0.5] for _ in range(2))
        token = str(uuid.uuid4())
        table.put_item(
            Item={"id": order, "first": first, "second": second, "token": token, "wait": str(random.random())}
        )


def report_stream(event: Any, context: Any) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["dynamodb"]["SequenceNumber"]}]}


def recover_at_third_receive(event: Any, context: Any) -> None:
    for record in event["Records"]:
        key = {"id": json.loads(record["body"])["order"]}
        found: Any = table.get_item(Key=key).get("Item")
        if found == {**key, "status": "started"} and int(record["attributes"]["ApproximateReceiveCount"]) < 3:
            raise RuntimeError("left to the third receive")
        if found is None:
            table.put_item(Item={**key, "status": "started"})
        table.put_item(Item={**key, "status": "done"})


def add_under_token(event: Any, context: Any) -> None:
    """Add in a transaction that DynamoDB remembers for ten minutes."""
    for order in _orders(event):
        update = {
            "TableName": "orders",
            "Key": {"id": {"S": "total"}},
            "UpdateExpression": "ADD amount :five",
            "ExpressionAttributeValues": {":five": {"N": "5"}},
        }
        client.transact_write_items(TransactItems=[{"Update": update}], ClientRequestToken=order)  # type: ignore[typeddict-item]


def send_under_deduplication_id(event: Any, context: Any) -> None:
    """Send to a FIFO queue, which remembers the id for five minutes."""
    for order in _orders(event):
        url = "https://sqs.eu-west-2.amazonaws.com/000000000000/next.fifo"
        boto3.client("sqs").send_message(
            QueueUrl=url, MessageBody=order, MessageGroupId="g", MessageDeduplicationId=order
        )


def start_at_a_new_time(event: Any, context: Any) -> None:
    """Mark an order that an execution was started for before, by the times that Step Functions answers."""
    for order in _orders(event):
        machine = "arn:aws:states:eu-west-2:000000000000:stateMachine:orders"
        started = boto3.client("stepfunctions").start_execution(stateMachineArn=machine)["startDate"].isoformat()
        found: Any = table.get_item(Key={"id": order}).get("Item")
        table.put_item(Item={"id": order, "started": started, "late": bool(found) and found["started"] != started})
