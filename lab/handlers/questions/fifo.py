"""FIFO still runs twice: take one item from the stock."""

import json

import boto3

stock = boto3.resource("dynamodb").Table("stock")
client = stock.meta.client


def handler(event, context):
    for record in event["Records"]:
        article = json.loads(record["body"])["article"]
        stock.update_item(
            Key={"article": article},
            UpdateExpression="SET pieces = pieces - :one",
            ExpressionAttributeValues={":one": 1},
        )


def fixed(event, context):
    for record in event["Records"]:
        sale = {"id": record["attributes"]["MessageDeduplicationId"]}
        take = {
            "TableName": "stock",
            "Key": {"article": json.loads(record["body"])["article"]},
            "UpdateExpression": "SET pieces = pieces - :one",
            "ExpressionAttributeValues": {":one": 1},
        }
        once = {"TableName": "sales", "Item": sale, "ConditionExpression": "attribute_not_exists(id)"}
        try:
            client.transact_write_items(TransactItems=[{"Put": once}, {"Update": take}])
        except client.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
                raise
