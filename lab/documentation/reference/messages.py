"""The fields of the two messages, from their JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.figures.tables import table

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "look-up" / "schemas"


def fields(kind: str) -> str:
    """Return the table of a message's fields."""
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text(encoding="utf-8"))
    rows = [[f"`{name}`", each["description"], _form(each)] for name, each in schema["properties"].items()]
    return table(["field", "meaning", "form"], rows)


def _form(field: Mapping[str, Any]) -> str:
    if "format" in field:
        return "RFC 3339 `date-time`"
    if "const" in field or "enum" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    return f"`{field['pattern'].strip('^$')}`"
