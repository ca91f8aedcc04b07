"""DynamoDB's tables and contents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from oneslot.explorer.services.expressions import TypedItem


@dataclass(frozen=True)
class Table:
    """A table's keys and its local secondary indexes (name → sort key)."""

    partition_key: str
    sort_key: str = ""
    indexes: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the primary key's attributes."""
        return (self.partition_key, self.sort_key) if self.sort_key else (self.partition_key,)

    def key_text(self, item: TypedItem) -> str:
        """Return an item's primary key as text."""
        return "/".join(json.dumps(item[name], sort_keys=True) for name in self.keys)


@dataclass
class Contents:
    """The items by table and key, and the tokens of successful transactions.

    Items are never changed in place, so a shallow copy is a snapshot.
    """

    tables: dict[str, dict[str, TypedItem]] = field(default_factory=dict)
    tokens: dict[str, tuple[int, str]] = field(default_factory=dict)

    def copy(self) -> Contents:
        """Return a snapshot."""
        return Contents({name: dict(items) for name, items in self.tables.items()}, dict(self.tokens))
