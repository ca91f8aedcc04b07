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
    from exactly_once.effects import Effects, Once, Put, Unprocessable, Update, conflict
    from exactly_once.handlers import acquire, make_handler_idempotent, mark_processed, release
    from exactly_once.idempotency import exactly_once
    from exactly_once.ledger import Ledger
    from exactly_once.memory_ledger import MemoryLedger
    from exactly_once.producer import Outgoing, Producer
    from exactly_once.valkey_ledger import ValkeyLedger

__all__ = [
    "Consumer",
    "Effects",
    "Ledger",
    "MemoryLedger",
    "Once",
    "Outgoing",
    "Producer",
    "Put",
    "Unprocessable",
    "Update",
    "ValkeyLedger",
    "acquire",
    "conflict",
    "exactly_once",
    "make_handler_idempotent",
    "mark_processed",
    "release",
]

_MODULES = {
    "Consumer": "consumer",
    "Effects": "effects",
    "Ledger": "ledger",
    "MemoryLedger": "memory_ledger",
    "Once": "effects",
    "Outgoing": "producer",
    "Producer": "producer",
    "Put": "effects",
    "Unprocessable": "effects",
    "Update": "effects",
    "ValkeyLedger": "valkey_ledger",
    "acquire": "handlers",
    "conflict": "effects",
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
