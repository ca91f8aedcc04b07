"""A counter is right to the unit in every schedule of our words."""

from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.verdict import Result

TABLES = {"stock": "sku", "orders": ("customer", "order"), "customers": "id", "baskets": "id", "ledger": "message_id"}
ENVIRONMENT = {
    **{f"ONESLOT_TABLE_{table.upper()}": table for table in TABLES if table != "ledger"},
    "ONESLOT_KEY_ORDERS": "customer,order",
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "100000",
    "ONESLOT_QUEUE_URL": "https://queue",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://dead-letters",
}


def explored(orders: int, left: int, **options: Any) -> Result:
    ids = [f"o-{number}" for number in range(orders)]
    return explore(
        "counters.handler",
        path=Path(__file__).parent,
        messages=[{"message_id": each, "customer": "c"} for each in ids],
        tables=TABLES,
        rows={
            "stock": [{"sku": "socks", "left": left}],
            "customers": [{"id": "c", "status": "active"}],
            "baskets": [{"id": each} for each in ids],
        },
        env=ENVIRONMENT,
        ignore=["ledger.consumption_count"],
        law=lambda world: exact(world, left),
        **options,
    )


def exact(world: Any, left: int) -> bool:
    """Each sold order, and nothing else, has counted the stock down by one."""
    sold = [row for row in world["orders"] if row["outcome"] == "sold"]
    return bool(world["stock"][0]["left"] == left - len(sold)) and len(sold) <= left


@pytest.mark.parametrize(("orders", "copies", "faults"), [(1, 2, 1), (2, 1, 0)])
def test_counter_is_exact_in_every_schedule_of_effects(orders: int, copies: int, faults: int) -> None:
    result = explored(orders, 1, copies=copies, faults=faults)
    assert result.holds, str(result)
    assert not result.outside
