"""A hand-written history of the orders that `tests/oneslot/declaration/orders` declares, and ways to corrupt it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneslot.audit.layout import Full, Part, item_line, write_export
from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import read_declaration
from oneslot.laws.evidence import Evidence
from oneslot.laws.groups import judge
from oneslot.laws.ledger import SENT_WITHIN_MS
from tests.kits.histories import START, arn, write_lines

ORDERS_FILE = Path(__file__).parents[1] / "oneslot" / "declaration" / "orders" / "oneslot.toml"
ORDERS = read_declaration(ORDERS_FILE)
Row = dict[str, Any]


@dataclass
class OrderHistory:
    """Six sound orders: three charged, of which one came twice; one free; one quarantined; one still waiting."""

    ledger: list[Row] = field(default_factory=list)
    charges: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    accepted: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    now: int = START

    def __post_init__(self) -> None:
        for order_id in ("o-1", "o-2", "o-3"):
            self.charge(order_id)
        self.deliver("o-2", "duplicate", claimed_by="o-2", consumption_count=1, answer="charged")
        self.complete("o-4", "free")
        self.accept("o-5")
        self.deliver("o-5", "quarantined")
        self.dead_letters.append({"message_id": "o-5", "source_message_id": "s"})
        self.accept("o-6")
        self.waiting.append({"message_id": "o-6", "sqs_message_id": "s"})

    def accept(self, order_id: str) -> None:
        """Note a message in the archive."""
        self.accepted.append({"message_id": order_id, "sent": self.now - 100})

    def deliver(self, order_id: str, outcome: str, **values: Any) -> None:
        """Add a line to the delivery log."""
        usual = {
            "message": "delivery",
            "sqs_message_id": f"sqs-{order_id}",
            "sent": self.now - 100,
            "finished": self.now - 10,
        }
        self.deliveries.append({**usual, "message_id": order_id, "outcome": outcome, **values})

    def complete(self, order_id: str, outcome: str, logged: str | None = None, **values: Any) -> None:
        """Add the COMPLETE row of an accepted and delivered order, whose line may have another outcome."""
        row = {"message_id": order_id, "status": "COMPLETE", "consumption_count": 1, "updated": self.now - 20}
        self.ledger.append({**row, "claimed_by": order_id, "result": json.dumps({"outcome": outcome}), **values})
        self.accept(order_id)
        self.deliver(order_id, logged or outcome, claimed_by=order_id, consumption_count=1, answer=outcome)

    def charge(self, order_id: str, pence: int = 250, **values: Any) -> None:
        """Add a charged order."""
        self.complete(order_id, "charged", **values)
        self.charge_alone(order_id, pence)

    def charge_alone(self, order_id: str, pence: int = 250) -> None:
        """Add an order's effect."""
        self.charges.append({"order_id": order_id, "pence": pence, "charged_at": self.now - 20})

    def begin(self, order_id: str, lease_for: int = -5) -> None:
        """Add the row of an order that was claimed and is not complete."""
        row = {"message_id": order_id, "status": "IN_PROGRESS", "consumption_count": 1, "updated": self.now - 20}
        self.ledger.append({**row, "claimed_by": order_id, "lease_until": self.now + lease_for})

    def write(self, folder: Path) -> Path:
        """Write full exports with the logs, and return the folder."""
        for table in ("ledger", "charges"):
            lines = [item_line(row) for row in getattr(self, table)]
            write_export(folder / table, arn(table), Full(self.now), [Part(b"".join(lines), len(lines))])
        write_lines(folder / "deliveries" / "lines.jsonl", self.deliveries)
        write_lines(folder / "accepted" / "lines.jsonl", self.accepted)
        write_lines(folder / "dead-letters" / "lines.jsonl", self.dead_letters)
        write_lines(folder / "waiting" / "lines.jsonl", self.waiting)
        return folder

    def evidence(self, declaration: Declaration = ORDERS) -> Evidence:
        """Return the history as evidence."""
        return declaration.evidence(
            requests={row["message_id"] for row in self.accepted},
            ledger={row["message_id"]: row for row in self.ledger},
            charges={row["order_id"]: row for row in self.charges},
            quarantined={row["message_id"] for row in self.dead_letters},
            deliveries=self.deliveries,
            waiting={row["message_id"] for row in self.waiting},
            now=self.now,
        )

    def breaches(self, declaration: Declaration = ORDERS) -> set[tuple[str, str]]:
        """Return (law, subject) of each breach, as `oneslot check` finds them."""
        return {(each.invariant, each.subject) for each in judge(self.evidence(declaration), declaration.laws)}


def _reverted(history: OrderHistory) -> None:
    history.begin("reverted", lease_for=5)
    history.accept("reverted")
    history.deliver("reverted", "charged", claimed_by="reverted", consumption_count=1, answer="charged")
    history.waiting.append({"message_id": "reverted", "sqs_message_id": "s"})


def _set_aside_with_effect(history: OrderHistory) -> None:
    history.begin("set-aside")
    history.charge_alone("set-aside")
    history.dead_letters.append({"message_id": "set-aside", "source_message_id": "s"})


def _two_answers(history: OrderHistory) -> None:
    history.charge("two-answers")
    history.deliver("two-answers", "duplicate", claimed_by="two-answers", consumption_count=1, answer="other")


def _uncounted(history: OrderHistory) -> None:
    history.charge("uncounted")
    history.deliver("uncounted", "fenced", claimed_by="another", consumption_count=2)


def _free_and_charged(history: OrderHistory) -> None:
    history.charge_alone("free-and-charged")
    history.complete("free-and-charged", "free")


CORRUPTIONS: dict[tuple[str, str], Callable[[OrderHistory], object]] = {
    ("I2", "lost"): lambda history: history.accept("lost"),
    ("I5r", "alone"): lambda history: history.charge_alone("alone"),
    ("I6", "reverted"): _reverted,
    ("I7", "two-answers"): _two_answers,
    ("I7", "other-outcome"): lambda history: history.complete("other-outcome", "free", logged="charged"),
    ("I9", "stuck"): lambda history: history.begin("stuck"),
    ("I10", "uncounted"): _uncounted,
    ("I11", "set-aside"): _set_aside_with_effect,
    ("I12", "without-effect"): lambda history: history.complete("without-effect", "charged"),
    ("I12", "free-and-charged"): _free_and_charged,
    ("I13", "never-sent"): lambda history: history.complete(
        "never-sent", "free", unsent=2, updated=history.now - SENT_WITHIN_MS - 1
    ),
    ("every_order_costs_something", "cheap"): lambda history: history.charge("cheap", pence=-1),
}
"""Ways to corrupt the history, each by the law that it must break, and its subject."""
