"""A handler that counts a stock down, in the words of effects."""

from typing import Any

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
