"""A consumer of orders that a stranger could write, with ids of its own."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from oneslot.laws.evidence import Evidence
from oneslot.runtime.effects import Effects, Once, Put, Unprocessable
from oneslot.runtime.typed import JsonMessage

NOW = 1_795_161_600_000


def identity(record: Mapping[str, Any]) -> str:
    """Return the order's number with its shop: a body has no message_id."""
    order = json.loads(record["body"])
    return f"{order['shop']}-{order['number']}"


def decide(order: JsonMessage) -> Effects:
    """Charge an order, once."""
    pence = order.body["pence"]
    if order.body.get("article") == "unknown":
        raise Unprocessable("unknown_article", "article is not sold here")
    if not pence:
        return Effects({"outcome": "free"})
    charge = {"order_id": order.message_id, "pence": pence, "charged_at": NOW}
    result = {"outcome": "charged", "pence": pence}
    return Effects(result, once=Once(Put("charges", charge, key="order_id"), answer=lambda _: result))


def every_order_costs_something(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """A charge is above zero."""
    for order_id, charge in evidence.rows("charges").items():
        if charge["pence"] < 1:
            yield order_id, f"charged {charge['pence']} pence"


def count_articles(arguments: list[str]) -> int:
    """Count the articles."""
    print(f"articles: {len(arguments)}")  # noqa: T201 - the verb's own output
    return 3
