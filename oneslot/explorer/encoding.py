"""Parameters and answers of AWS's calls as JSON text, with bytes and times in it."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from decimal import Decimal
from typing import Any


def to_text(value: Any) -> str:
    """Return JSON text of parameters or an answer."""
    return json.dumps(value, sort_keys=True, default=_encoded)


def from_text(text: str) -> Any:
    """Return what `to_text` was given."""
    return json.loads(text, object_hook=_decoded if '"$' in text else None)


def _encoded(value: Any) -> Any:
    if hasattr(value, "read"):
        value = value.read()
    match value:
        case str():
            return value
        case bytes() | bytearray():
            return {"$bytes": base64.b64encode(value).decode()}
        case datetime():
            return {"$time": value.isoformat()}
        case Decimal():
            return int(value) if value == int(value) else float(value)
        case set() | frozenset() | tuple():
            return sorted(value)
    raise TypeError(f"{type(value).__name__} is not a parameter of an AWS call")


def _decoded(value: dict[str, Any]) -> Any:
    if value.keys() == {"$bytes"}:
        return base64.b64decode(value["$bytes"])
    return datetime.fromisoformat(value["$time"]) if value.keys() == {"$time"} else value
