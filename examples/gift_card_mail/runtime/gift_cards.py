"""The domain: an order for a gift card → a card and, in the same transaction, a mail in the outbox."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oneslot.runtime.effects import Effects, Once, Put, Unprocessable, conflict

CARDS, OUTBOX = "cards", "outbox"
"""Logical names of the tables."""

LARGEST_PENCE = 50_000
# Only what a mail needs: one address, no spaces, no header injection.
_ADDRESS = re.compile(r"[^\s@<>,;\"]{1,64}@[A-Za-z0-9.-]{1,190}")


@dataclass(frozen=True, slots=True)
class Order:
    """An order for one gift card. `pence` is its value."""

    message_id: str
    payload_hash: str
    to: str = field(repr=False)
    pence: int


def parse(message_id: str, payload_hash: str, body: Mapping[str, Any]) -> Order:
    """Return the order in a message's body. Raises `Unprocessable`, whose detail names the field and never a value."""
    to, pence = body.get("to"), body.get("pence")
    if not isinstance(to, str) or not _ADDRESS.fullmatch(to):
        raise Unprocessable("invalid_field", "to must be one mail address")
    if not isinstance(pence, int) or isinstance(pence, bool) or not 1 <= pence <= LARGEST_PENCE:
        raise Unprocessable("invalid_field", f"pence must be a whole number from 1 to {LARGEST_PENCE}")
    return Order(message_id, payload_hash, to, pence)


def new_code() -> str:
    """Return the secret code of a new card. Each attempt has another; the commit keeps one."""
    return secrets.token_hex(8)


def issue(order: Order, new_code: Callable[[], str] = new_code) -> Effects:
    """Return the effects: the card and the mail's row in the outbox, both or none.

    The mail itself cannot be part of a transaction. Its row can.
    """
    card = {
        "card_id": order.message_id,
        "payload_hash": order.payload_hash,
        "code": new_code(),
        "pence": order.pence,
    }

    def answer(found: Mapping[str, Any]) -> Mapping[str, Any]:
        if found["payload_hash"] != order.payload_hash:
            raise conflict()  # another order under an id that the ledger has forgotten
        return {"outcome": "issued", "card_id": found["card_id"]}

    mail = {"mail_id": order.message_id, "to": order.to, "code": card["code"], "pence": order.pence}
    return Effects(
        result={"outcome": "issued", "card_id": order.message_id},
        writes=(Put(OUTBOX, "mail_id", mail),),
        once=Once(Put(CARDS, "card_id", card), answer),
    )
