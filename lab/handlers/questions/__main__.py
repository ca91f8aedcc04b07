"""Explore the handlers of the question pages, keep the figures and fill the pages: `python -m lab.handlers.questions`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.shop import scenario as shop
from lab.explore.practice import DEAD_LETTERS, LEDGER, QUEUE
from lab.handlers.figures import ASKED, QUESTIONS, Figures, keep, shown_path
from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.laws import View
from oneslot.explorer.scenario import MOST_REDELIVERIES

SHOP = Path(shop.__file__).parent
TOPIC = "arn:aws:sns:eu-west-2:000000000000:taken"
CONSTRUCT = {
    "ONESLOT_LEDGER_TABLE": LEDGER,
    "ONESLOT_QUEUE_URL": QUEUE,
    "ONESLOT_DEAD_LETTER_QUEUE_URL": DEAD_LETTERS,
    "ONESLOT_LEDGER_RETENTION_SECONDS": "2592000",
    "ONESLOT_MAX_RECEIVE_COUNT": str(MOST_REDELIVERIES),
}
"""The variables that the construct sets for every consumer."""
OF_SHOP = {
    f"ONESLOT_{kind}_{name.upper()}": text
    for name, key in shop.tables.items()
    for kind, text in (("TABLE", name), ("KEY", key if isinstance(key, str) else ",".join(key)))
}


def order_is_placed(world: View) -> bool:
    """the order is placed once"""
    return len(world["orders"]) == 1


ASKED_OF: Mapping[str, Mapping[str, Any]] = {
    "twice": {
        "messages": [{"id": "p-1", "account": "ada", "pence": 2500}],
        "tables": {"accounts": "id", "payments": "id"},
    },
    "in_progress": {
        "messages": ["report"],
        "tables": {"reports": "id", "idempotency": "id"},
        "receives": MOST_REDELIVERIES,
    },
    "dead_letter": {
        "messages": [{"order": "o-1"}],
        "tables": {"orders": "id", "locks": "id"},
        "law": order_is_placed,
        "receives": MOST_REDELIVERIES,
    },
    "fifo": {
        "messages": [{"body": '{"article": "teapot"}', "attributes": {"MessageDeduplicationId": "sale-1"}}],
        "tables": {"stock": "article", "sales": "id"},
        "rows": {"stock": [{"article": "teapot", "pieces": 9}]},
        "fifo": True,
    },
}
HANDLERS: Mapping[str, tuple[str, Path, Mapping[str, Any]]] = {
    f"{file}.{name}": (f"{file}.{name}", QUESTIONS, options)
    for file, options in ASKED_OF.items()
    for name in ("handler", "fixed")
} | {
    "shop.usual": (
        "usual.handler",
        SHOP,
        {
            "messages": shop.messages,
            "rows": shop.rows,
            "tables": {**shop.tables, "idempotency": "id"},
            "env": {"TOPIC": TOPIC},
        },
    ),
    "shop.app": (
        "app.handler",
        SHOP / "consumer",
        {
            "messages": shop.messages,
            "rows": shop.rows,
            "tables": {**shop.tables, LEDGER: "message_id"},
            "ignore": [f"{LEDGER}.consumption_count"],
            "env": {**CONSTRUCT, **OF_SHOP, "ONESLOT_SEND_TAKEN": TOPIC},
        },
    ),
}
"""A handler's name on its page → as Lambda names it, its folder, and the options of `explore`: as it breaks, then fixed."""


def explored(name: str) -> Figures:
    """Explore a handler of the pages. Raises `NotExplorable`."""
    handler, folder, options = HANDLERS[name]
    result = explore(handler, path=[folder], budget=300, **options)
    return {
        "handler": name,
        "holds": result.holds,
        "complete": result.holds,
        "schedules": sum(level.schedules for level in result.levels),
        "states": sum(level.states for level in result.levels),
        "path": shown_path(result.counterexample),
    }


if __name__ == "__main__":
    keep(ASKED, [explored(name) for name in HANDLERS])
    sys.stderr.write(f"Wrote {ASKED.name}.\n")
