"""Exactly-once effects from a queue that delivers at least once. Knows nothing of appointments.

The public names are below; docs/reuse.md shows each at work. Start reading with `ledger.py`, the protocol;
`idempotency.py` wraps it for Powertools; `consumer.py` makes an SQS consumer of it; `handlers.py` is for work that no
transaction can hold.

A name is imported when it is first used, so that a part which needs nothing of AWS can be used where nothing of AWS is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exactly_once.consumer import Consumer
    from exactly_once.delivery import Queues
    from exactly_once.effects import Effects, Once, Put, Unprocessable, Update
    from exactly_once.handlers import Locked, acquire, make_handler_idempotent, mark_processed, release
    from exactly_once.idempotency import exactly_once
    from exactly_once.ledger import Ledger
    from exactly_once.memory_ledger import MemoryLedger
    from exactly_once.store import Store

__all__ = [
    "Consumer",
    "Effects",
    "Ledger",
    "Locked",
    "MemoryLedger",
    "Once",
    "Put",
    "Queues",
    "Store",
    "Unprocessable",
    "Update",
    "acquire",
    "exactly_once",
    "make_handler_idempotent",
    "mark_processed",
    "release",
]

_MODULES = {
    "Consumer": "consumer",
    "Effects": "effects",
    "Ledger": "ledger",
    "Locked": "handlers",
    "MemoryLedger": "memory_ledger",
    "Once": "effects",
    "Put": "effects",
    "Queues": "delivery",
    "Store": "store",
    "Unprocessable": "effects",
    "Update": "effects",
    "acquire": "handlers",
    "exactly_once": "idempotency",
    "make_handler_idempotent": "handlers",
    "mark_processed": "handlers",
    "release": "handlers",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
