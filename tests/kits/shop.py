"""A stranger's consumer with laws of its own: one reads two tables, and one is not local."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from oneslot.declaration.reading import parse_declaration
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.schema import Row
from tests.kits.histories import START

SHOP = parse_declaration(
    """
name = "shop"
handler = "app.handler"
stack = "Shop"
laws = ["tests.kits.shop.parts_add_up"]
[tables.orders]
key = ["order_id"]
request = "order_id"
attributes = ["order_id", "pence"]
[tables.parts]
key = ["order_id", "number"]
names = ["order_id"]
attributes = ["order_id", "number", "pence"]
[tables.customers]
key = ["customer_id"]
attributes = ["customer_id", "orders"]
""",
    None,
)


def parts_add_up(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """An order costs what its parts cost."""
    orders, costs = evidence.rows("orders"), Counter[str]()
    for part in evidence.rows("parts").values():
        costs[part["order_id"]] += part["pence"]
    for order_id in {*orders, *costs}:
        price = orders[order_id]["pence"] if order_id in orders else 0
        if costs[order_id] != price:
            yield order_id, f"costs {price} and its parts {costs[order_id]}"


def customers_count_orders(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """A customer's count is that of all orders: no order names its customer here."""
    for customer_id, customer in evidence.rows("customers").items():
        if customer["orders"] != len(evidence.rows("orders")):
            yield customer_id, "counts other orders"


NOT_LOCAL = Law("customers_count_orders", "", customers_count_orders)


@dataclass
class Shop:
    """Twenty orders of two parts each, which a consumer answered once, and their customer."""

    orders: dict[str, Row] = field(default_factory=dict)
    parts: dict[tuple[str, int], Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for order_id in (f"s-{number}" for number in range(20)):
            self.orders[order_id] = {"order_id": order_id, "pence": 3, "note": "private"}
            for number in (1, 2):
                self.parts[order_id, number] = {"order_id": order_id, "number": number, "pence": number}

    def corrupt(self) -> None:
        """Change the price of a part, remove a part, and remove an order."""
        self.parts["s-3", 1] = {**self.parts["s-3", 1], "pence": 5}
        del self.parts["s-7", 2]
        del self.orders["s-9"]

    @property
    def ledger(self) -> dict[str, Row]:
        """The consumer's answers."""
        row = {"status": "COMPLETE", "consumption_count": 1, "updated": START - 20, "result": '{"outcome": "ordered"}'}
        return {order_id: {"message_id": order_id, **row} for order_id, _ in self.parts}

    def evidence(self) -> Evidence:
        """Return what `oneslot check` gathers."""
        return SHOP.evidence(
            requests=self.ledger.keys(),
            ledger=self.ledger,
            orders=self.orders,
            parts=self.parts,
            customers={"c-1": {"customer_id": "c-1", "orders": 20}},
            waiting=frozenset(),
            now=START,
        )
