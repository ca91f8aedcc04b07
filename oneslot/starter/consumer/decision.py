"""What a message does: it changes the stock of an article, and leaves a row under its own id."""

from typing import TypedDict

from boto3.dynamodb.conditions import Attr
from oneslot import Effects, JsonMessage, Once, Put, Unprocessable, Update


class Change(TypedDict):
    """The body of a message: how many pieces of an article come in, or go out if negative."""

    article: str
    pieces: int


def take(message: JsonMessage[Change]) -> Effects:
    """Return the writes of a message, and its answer. The ledger commits all of it in one transaction."""
    article, pieces = message.body["article"], message.body["pieces"]
    if not article or pieces == 0:
        raise Unprocessable("invalid_field", "article must not be empty, and pieces not 0")
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
