"""Handlers to explore, and those in this repository: ours, and the examples of the question pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.shop import scenario as shop
from lab.explore.practice import (
    APPOINTMENTS,
    DEAD_LETTERS,
    LEDGER,
    QUEUE,
    SLOTS,
    TABLES,
    booking,
    free_slots,
)
from oneslot.explorer.handlers.laws import View
from oneslot.explorer.scenario import MOST_REDELIVERIES

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Subject:
    """A handler.

    Attributes:
        name: its name in the table.
        handler: as Lambda names it.
        folders: its folder and its layers, below the clone or below this repository.
        options: the options of `explore`.
        repository, commit: where it is from; empty for ours.
    """

    name: str
    handler: str
    folders: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    repository: str = ""
    commit: str = ""

    def paths(self, clones: Path) -> list[Path]:
        """Return its folders. `clones` has the clone of each repository under the repository's own name."""
        base = clones / Path(self.repository).name if self.repository else REPOSITORY
        return [base / folder for folder in self.folders]


PRACTICE: Mapping[str, Any] = {
    "messages": [booking("r-1").body],
    "tables": {name: TABLES[name] for name in (SLOTS, APPOINTMENTS, LEDGER)},
    "rows": {SLOTS: free_slots(2)},
    "ignore": [f"{LEDGER}.consumption_count"],
}

CONSTRUCT = {
    "ONESLOT_LEDGER_TABLE": LEDGER,
    "ONESLOT_QUEUE_URL": QUEUE,
    "ONESLOT_DEAD_LETTER_QUEUE_URL": DEAD_LETTERS,
    "ONESLOT_LEDGER_RETENTION_SECONDS": "2592000",
    "ONESLOT_MAX_RECEIVE_COUNT": str(MOST_REDELIVERIES),
}
"""The variables that the construct sets for every consumer."""

OURS = (
    Subject(
        "Oneslot, what `oneslot new` writes",
        "app.handler",
        ("oneslot/starter/consumer",),
        {
            "messages": [{"message_id": "first", "article": "teapot", "pieces": -2}],
            "tables": {"orders": "id", "stock": "article", LEDGER: "message_id"},
            "rows": {"stock": [{"article": "teapot", "left": 3}]},
            "ignore": [f"{LEDGER}.consumption_count"],
            "env": {**CONSTRUCT, "ONESLOT_TABLE_ORDERS": "orders", "ONESLOT_TABLE_STOCK": "stock"},
        },
    ),
    Subject(
        "Oneslot, the appointments",
        "handler.lambda_handler",
        ("lambda_src",),
        {
            **PRACTICE,
            "env": {
                **CONSTRUCT,
                "ONESLOT_TABLE_SLOTS": SLOTS,
                "ONESLOT_TABLE_APPOINTMENTS": APPOINTMENTS,
                "BATCH_CONCURRENCY": "1",
                "CANDIDATE_SLOTS": "20",
                "CONTENT_BASED_DEDUPLICATION": "false",
                "POWERTOOLS_SERVICE_NAME": "appointments",
                "POWERTOOLS_METRICS_NAMESPACE": "Oneslot",
            },
        },
    ),
)


def order_is_placed(world: View) -> bool:
    """the order is placed once"""
    return len(world["orders"]) == 1


def _both(file: str, **options: Any) -> tuple[Subject, ...]:
    folder = "lab/handlers/questions"
    return tuple(Subject(f"{file}.{each}", f"{file}.{each}", (folder,), options) for each in ("handler", "fixed"))


TOPIC = "arn:aws:sns:eu-west-2:000000000000:taken"
SHOP: Mapping[str, Any] = {"messages": shop.messages, "rows": shop.rows}
SHOP_VARIABLES = {
    **CONSTRUCT,
    **{f"ONESLOT_TABLE_{name.upper()}": name for name in shop.tables},
    **{
        f"ONESLOT_KEY_{name.upper()}": key if isinstance(key, str) else ",".join(key)
        for name, key in shop.tables.items()
    },
    "ONESLOT_SEND_TAKEN": TOPIC,
}

QUESTIONS = (
    *_both(
        "twice",
        messages=[{"id": "p-1", "account": "ada", "pence": 2500}],
        tables={"accounts": "id", "payments": "id"},
    ),
    *_both("in_progress", messages=["report"], tables={"reports": "id", "idempotency": "id"}),
    *_both("dead_letter", messages=[{"order": "o-1"}], tables={"orders": "id", "locks": "id"}, law=order_is_placed),
    *_both(
        "fifo",
        messages=[{"body": '{"article": "teapot"}', "attributes": {"MessageDeduplicationId": "sale-1"}}],
        tables={"stock": "article", "sales": "id"},
        rows={"stock": [{"article": "teapot", "pieces": 9}]},
        fifo=True,
    ),
    Subject(
        "shop.usual",
        "usual.handler",
        ("examples/shop",),
        {**SHOP, "tables": {**shop.tables, "idempotency": "id"}, "env": {"TOPIC": TOPIC}},
    ),
    Subject(
        "shop.app",
        "app.handler",
        ("examples/shop/consumer",),
        {
            **SHOP,
            "tables": {**shop.tables, LEDGER: "message_id"},
            "ignore": [f"{LEDGER}.consumption_count"],
            "env": SHOP_VARIABLES,
        },
    ),
)
"""The handlers of the question pages: as they break, and fixed."""
