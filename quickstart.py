"""Charge an order whose worker is killed right after the charge. Run: python quickstart.py"""

import sys
from collections.abc import Callable

if sys.version_info < (3, 11):  # noqa: UP036 - this file also runs where nothing was installed that could refuse
    sys.exit(f"Oneslot needs Python 3.11 or newer, and this is {sys.version.split()[0]}. Try: python3.11 quickstart.py")

from oneslot import Effects, JsonMessage, MemoryLedger, Once, Put, attempt

order = JsonMessage("order-1", body={"pence": 2500})


class Killed(BaseException):
    """The end of a worker under `kill -9`."""


# The usual worker looks, charges, and marks the order as done. The kill comes between charge and mark.
charges: list[int] = []
done: set[str] = set()


def usual_worker(killed: bool) -> None:
    if order.message_id not in done:
        charges.append(order.body["pence"])
        if killed:
            raise Killed
        done.add(order.message_id)


# Oneslot's worker decides, and the ledger writes charge and mark in one step. The same kill comes after both.
ledger = MemoryLedger()


def decide(order: JsonMessage) -> Effects:
    charge = Put("charges", {"order_id": order.message_id, "pence": order.body["pence"]}, key="order_id")
    return Effects({"outcome": "charged"}, once=Once(charge, answer=lambda _: {"outcome": "charged"}))


def oneslot_worker(killed: bool) -> None:
    attempt(ledger, order, decide, deadline=ledger.surroundings.now_ms() + 30_000)
    if killed:
        raise Killed


def deliver_twice(worker: Callable[[bool], None]) -> None:
    """Deliver the order as SQS does: again, because the first worker never acknowledged it."""
    for killed in (True, False):
        try:
            worker(killed)
        except Killed:
            continue


deliver_twice(usual_worker)
deliver_twice(oneslot_worker)
usual, ours = len(charges), len(ledger.tables["charges"])
print(f"""One order, delivered twice: the first worker was killed right after the charge.
  usual handler   charged {usual} times   look, charge, then mark
  Oneslot         charged {ours} time    charge and mark in one step""")  # noqa: T201
sys.exit(0 if (usual, ours) == (2, 1) else 1)
