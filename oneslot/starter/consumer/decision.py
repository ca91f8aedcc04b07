"""What a message does: it changes the stock of an article, and leaves a row under its own id."""

from boto3.dynamodb.conditions import Attr
from oneslot import Effects, JsonMessage, Once, Put, Unprocessable, Update


def take(message: JsonMessage) -> Effects:
    """Return the writes of a message, and its answer. The ledger commits all of it in one transaction."""
    article, pieces = message.body.get("article"), message.body.get("pieces")
    if not isinstance(article, str) or not article or type(pieces) is not int or pieces == 0:
        raise Unprocessable("invalid_field", "article must be text, and pieces a whole number other than 0")
    stock = Update("stock", {"article": article}, add={"left": pieces})  # what comes in needs no condition
    if pieces < 0:
        stock = Update(
            "stock",
            {"article": article},
            Attr("left").gte(-pieces),
            add={"left": pieces},
            otherwise=lambda found: Effects({"outcome": "sold_out"}),
        )
    order = Put("orders", {"id": message.message_id, "article": article, "pieces": pieces}, key="id")
    return Effects({"outcome": "taken"}, [stock], once=Once(order))
