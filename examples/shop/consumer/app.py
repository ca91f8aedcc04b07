"""A shop: an order counts the stock down, empties the customer's basket, and is announced."""

from boto3.dynamodb.conditions import Attr

from oneslot import Check, Delete, Effects, JsonMessage, Once, Put, Send, Unprocessable, Update
from oneslot import consumer_from_environment as consume


def take(order: JsonMessage) -> Effects:
    """Return what an order does: all of it, or nothing."""
    customer, article = order.body.get("customer"), order.body.get("article")
    if not isinstance(customer, str) or not isinstance(article, str) or not customer or not article:
        raise Unprocessable("invalid_field", "customer and article must be text")
    row = {"customer": customer, "number": order.message_id, "article": article}
    return Effects(
        {"outcome": "taken"},
        [
            Check(
                "customers", {"id": customer}, {"status": "active"}, otherwise=lambda _: Effects({"outcome": "unknown"})
            ),
            Update(
                "stock",
                {"article": article},
                Attr("left").gt(0),
                add={"left": -1},
                otherwise=lambda _: Effects({"outcome": "sold_out"}),
            ),
            Delete("baskets", {"customer": customer}),
        ],
        once=Once(Put("orders", row)),
        sends=[Send("taken", {"order": order.message_id, "article": article})],
    )


handler = consume(take)
