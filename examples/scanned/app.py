"""Two handlers as they are often written, for a first scan."""

import json
import os

import boto3

accounts = boto3.resource("dynamodb").Table(os.environ["ACCOUNTS"])


def charge(event, _context):
    """Add a payment to its account."""
    for record in event["Records"]:
        payment = json.loads(record["body"])
        accounts.update_item(
            Key={"id": payment["account"]},
            UpdateExpression="ADD pence :pence",
            ExpressionAttributeValues={":pence": payment["pence"]},
        )


def open_account(event, _context):
    """Open an account under the client's own id."""
    body = json.loads(event["body"])
    accounts.put_item(Item={"id": body["id"], "owner": body["owner"], "pence": 0})
    return {"statusCode": 201}
