"""DynamoDB's tables and contents."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from oneslot.dynamodb_in_memory.expressions.values import TypedItem


@dataclass(frozen=True)
class KeySchema:
    """The names of a key's attributes; without a sort key, one."""

    partition_key: str
    sort_key: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The names."""
        return (self.partition_key, self.sort_key) if self.sort_key else (self.partition_key,)


@dataclass(frozen=True)
class Index(KeySchema):
    """A secondary index.

    Attributes:
        projected: the attributes beside the keys that the index holds; None for all.
        is_global: whether it may have another partition key than its table, and no consistent reads.
    """

    projected: tuple[str, ...] | None = None
    is_global: bool = False


@dataclass(frozen=True)
class TableSchema(KeySchema):
    """A table's keys, its secondary indexes by name, and the types ("S", "N", "B") of key attributes that are known.

    `time_to_live`: the attribute with the time (epoch s) after which DynamoDB deletes an item; empty for none.
    """

    indexes: Mapping[str, Index] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    time_to_live: str = ""

    def key_text(self, item: TypedItem) -> str:
        """Return an item's primary key as text."""
        return "/".join([as_text(item[name]) for name in self.keys])


as_text = json.JSONEncoder(sort_keys=True, default=lambda binary: base64.b64encode(binary).decode()).encode
"""Returns typed values as one text. One encoder, because `json.dumps` makes a new one for each call."""


@dataclass
class Contents:
    """The items by table and key, and the tokens of successful transactions.

    Items are never changed in place.
    """

    tables: dict[str, dict[str, TypedItem]] = field(default_factory=dict)
    tokens: dict[str, tuple[int, str]] = field(default_factory=dict)

    def delete_expired(self, tables: Mapping[str, TableSchema], now_ms: int) -> None:
        """Delete the items whose time to live is over."""
        for name, items in self.tables.items():
            attribute = tables[name].time_to_live
            self.tables[name] = {
                key: item
                for key, item in items.items()
                if not attribute or float(item.get(attribute, {}).get("N", "inf")) * 1000 >= now_ms
            }
