"""How a free slot is named in the index. Needs nothing of the consumer: the audit on AWS has it without that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def free_key(slot: Mapping[str, Any]) -> str:
    """The sort key of a slot while it is free: one channel and service stand together, earliest first.

    `slot` is a row of the slots table, or the appointment that holds it. The key says all that a booking needs, so that a
    search reads nothing else: each attribute of an answer costs CPU. Whoever moves a free slot writes its key anew.
    """
    return f"{kind(slot['delivery_channel'], slot['service_type'])}{slot['start']}#{slot['end']}#{slot['slot_id']}"


def kind(delivery_channel: str, service_type: str) -> str:
    """What the keys of all free slots of this channel and service begin with."""
    return f"{delivery_channel}#{service_type}#"
