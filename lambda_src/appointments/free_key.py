"""The sort key of free slots. It imports nothing of the consumer, so that the audit can use it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def free_key(slot: Mapping[str, Any]) -> str:
    """Return the sort key of a free slot: grouped by channel and service, earliest first.

    `slot` is a row of the slots table, or the appointment that holds it. The key holds all that a booking needs, because
    each further attribute of an answer costs CPU. A free slot that moves needs a new key.
    """
    return f"{kind(slot['delivery_channel'], slot['service_type'])}{slot['start']}#{slot['end']}#{slot['slot_id']}"


def kind(delivery_channel: str, service_type: str) -> str:
    """Return the beginning of the keys of all free slots of this channel and service."""
    return f"{delivery_channel}#{service_type}#"
