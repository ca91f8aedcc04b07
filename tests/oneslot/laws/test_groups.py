"""Laws judge a subject by the rows that name it: the same breaches as in the whole evidence, or a refusal."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from oneslot.declaration.reading import parse_declaration
from oneslot.errors import BadInput
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.groups import judge
from tests.kits.histories import System
from tests.kits.order_histories import ORDERS, OrderHistory
from tests.oneslot.audit.audit_answers import evidence_of
from tests.oneslot.audit.corruptions import CORRUPTIONS, Picker
from workload.declared import CONSUMER

PARTS = parse_declaration(
    """
name = "orders"
handler = "app.handler"
stack = "Orders"
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
    """An order costs what its parts cost: a law over two tables."""
    for order_id, order in evidence.rows("orders").items():
        cost = sum(part["pence"] for part in evidence.rows("parts").values() if part["order_id"] == order_id)
        if cost != order["pence"]:
            yield order_id, f"costs {order['pence']} and its parts {cost}"


def customers_count_orders(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """A customer's count is that of all orders: no order names its customer here."""
    for customer_id, customer in evidence.rows("customers").items():
        if customer["orders"] != len(evidence.rows("orders")):
            yield customer_id, "counts other orders"


def shop() -> Evidence:
    """Return twenty orders of two parts each, and their customer."""
    orders = {f"o-{number}": {"order_id": f"o-{number}", "pence": 3, "note": "private"} for number in range(20)}
    parts = [{"order_id": order_id, "number": number, "pence": number} for order_id in orders for number in (1, 2)]
    return PARTS.evidence(
        orders=orders,
        parts={(part["order_id"], part["number"]): part for part in parts},
        customers={"c-1": {"customer_id": "c-1", "orders": 20}},
    )


def test_law_of_two_tables_is_local_when_its_rows_name_the_subject() -> None:
    found = shop()
    law = Law("parts_add_up", "", parts_add_up)
    assert judge(found, [law]) == []
    found.tables["parts"]["o-3", 1]["pence"] = 5  # type: ignore[index]
    assert [(breach.subject, breach.detail) for breach in judge(found, [law])] == [("o-3", "costs 3 and its parts 7")]


def test_law_is_refused_when_it_is_not_local() -> None:
    """Although the whole evidence has no breach."""
    law = Law("customers_count_orders", "", customers_count_orders)
    with pytest.raises(
        BadInput, match=r"The law customers_count_orders is not local, .* it finds 0 breaches .* and 1 .* c-1"
    ):
        judge(shop(), [law])


def test_law_reads_no_attribute_that_is_not_declared() -> None:
    def reads(evidence: Evidence) -> Iterator[tuple[str, str]]:
        yield from ((key, row["note"]) for key, row in evidence.rows("orders").items())

    with pytest.raises(
        BadInput, match=r"The law reads raised KeyError at .*test_groups.py:\d+\. Correct it, name what it reads"
    ):
        judge(shop(), [Law("reads", "", reads)])


def test_error_of_a_law_shows_no_value() -> None:
    def raises(evidence: Evidence) -> Iterator[tuple[str, str]]:
        for key, row in evidence.rows("orders").items():
            raise ValueError(f"the patient of {key} is 9990000018: {row}")
        yield "", ""

    with pytest.raises(BadInput) as refusal:
        judge(shop(), [Law("raises", "", raises)])
    assert "9990000018" not in str(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None


@pytest.mark.parametrize("seed", [21, 33, 5])
def test_groups_show_each_breach_of_the_whole_when_everything_is_corrupted(seed: int) -> None:
    world = System(seed, practices=8, slots_per_practice=26).run(420)
    pick = Picker(world, random.Random(seed))
    sown = {corruption(pick) for corruption in CORRUPTIONS}
    evidence = evidence_of(world)
    whole = {(breach.invariant, breach.subject, breach.detail) for breach in CONSUMER.check(evidence)}
    assert {(each.invariant, each.subject, each.detail) for each in judge(evidence, CONSUMER.laws)} == whole
    assert sown <= {(law, subject) for law, subject, _ in whole}


def test_orders_are_judged_alike_in_groups() -> None:
    history = OrderHistory()
    history.charge("cheap", pence=-1)
    evidence = history.evidence()
    assert {(each.invariant, each.subject) for each in judge(evidence, ORDERS.laws)} == history.breaches()
