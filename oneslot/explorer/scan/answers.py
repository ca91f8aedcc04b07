"""Made answers of operations without a stand-in: from the shape that botocore's model of the service gives them."""

from __future__ import annotations

import re
from typing import Any

MOST_LEVELS = 7
_ENDS = ("SUCCEEDED", "COMPLETED", "COMPLETE", "SUCCESS", "ACTIVE", "AVAILABLE")
"""The states in which waiting code goes on."""
_OF_PAGES = re.compile(r"token|marker|truncated|more|^next", re.IGNORECASE)
"""The names of an answer that has a next page."""


_SIMPLE: dict[str, Any] = {"map": {}, "blob": b"content-1", "boolean": True}
"""Values of other types than numbers."""


def answer_of(operation: str) -> dict[str, Any] | None:
    """Return an answer of "service.operation" with each member of its shape; None if botocore does not know it."""
    import botocore.session
    from botocore import xform_name
    from botocore.exceptions import BotoCoreError

    service, _, name = operation.partition(".")
    try:
        model: Any = botocore.session.get_session().get_service_model(service)
    except BotoCoreError:
        return None
    found = [one for one in model.operation_names if xform_name(one) == name]
    shape = model.operation_model(found[0]).output_shape if found else None
    return _value(shape, "", 0) if shape is not None else {}


def _value(shape: Any, name: str, level: int) -> Any:
    match shape.type_name:
        case "structure":
            held = {} if level > MOST_LEVELS else shape.members
            return {one: _value(kind, one, level + 1) for one, kind in held.items() if not _OF_PAGES.search(one)}
        case "list":
            return [_value(shape.member, name, level + 1)] * 2  # a table's first row may be its heading
        case "string":
            ends = [one for one in _ENDS if one in shape.enum]
            return (ends or shape.enum or [f"{name.lower()}-1"])[0]
        case kind:
            return _SIMPLE.get(kind, 1)
