"""Handlers that count a stock down: ours, in the words of effects, and the usual one."""

from typing import Any

import boto3
from boto3.dynamodb.conditions import Attr

from oneslot import Check, Delete, Effects, JsonMessage, Put, Update, consumer_from_environment


def sell(order: JsonMessage) -> Effects:
    """Take one of the stock, write the order, check the customer and delete the basket."""
    customer = order.body["customer"]

    def sold_out(found: Any) -> Effects:
        refused = Put("orders", {"customer": customer, "order": order.message_id, "outcome": "sold_out"})
        return Effects({"outcome": "sold_out"}, [refused])

    return Effects(
        {"outcome": "sold"},
        [
            Put("orders", {"customer": customer, "order": order.message_id, "outcome": "sold"}),
            Update("stock", {"sku": "socks"}, add={"left": -1}, expect=Attr("left").gte(1), otherwise=sold_out),
            Check("customers", {"id": customer}, expect=Attr("status").eq("active")),
            Delete("baskets", {"id": order.message_id}),
        ],
    )


handler = consumer_from_environment(sell)


def usual(event: Any, context: Any) -> None:
    """Look for the order, count the stock down, then write the order."""
    client = boto3.client("dynamodb")
    for record in event["Records"]:
        key = {"customer": {"S": "c"}, "order": {"S": record["messageId"]}}
        if "Item" in client.get_item(TableName="orders", Key=key, ConsistentRead=True):
            continue
        client.update_item(
            TableName="stock",
            Key={"sku": {"S": "socks"}},
            UpdateExpression="ADD #left :one",
            ExpressionAttributeNames={"#left": "left"},
            ExpressionAttributeValues={":one": {"N": "-1"}},
        )
        client.put_item(TableName="orders", Item={**key, "outcome": {"S": "sold"}})
