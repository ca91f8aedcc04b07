"""What a message does: one row in the table, under the message's own id."""

from oneslot import Effects, JsonMessage, Once, Put, Unprocessable


def take(message: JsonMessage) -> Effects:
    """Return the row that the message adds, and its answer. The ledger writes both in one transaction."""
    quantity = message.body.get("quantity", 1)
    if type(quantity) is not int or quantity < 1:
        raise Unprocessable("invalid_field", "quantity must be a whole number above 0")
    put = Put("orders", key="id", item={"id": message.message_id, "quantity": quantity})
    return Effects({"outcome": "taken"}, once=Once(put))
