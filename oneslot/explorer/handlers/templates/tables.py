"""The tables of a handler, as its user names them by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneslot.dynamodb_in_memory.contents import Index, TableSchema


def table(
    name: str, key: str, sort: str = "", time_to_live: str = "", **indexes: str | tuple[str, str]
) -> tuple[str, TableSchema]:
    """Return a table by hand: `table("orders", "id", by_customer=("customer", "day"))`, with its global indexes."""
    keys = {index: (parts, "") if isinstance(parts, str) else parts for index, parts in indexes.items()}
    made = {index: Index(first, second, is_global=True) for index, (first, second) in keys.items()}
    return name, TableSchema(key, sort, made, time_to_live=time_to_live)


def tables_of(tables: Any) -> dict[str, TableSchema]:
    """Return tables from {"orders": "id"}, {"orders": ("customer", "id")}, ["orders:id"] or [table("orders", "id")]."""
    pairs = tables.items() if isinstance(tables, Mapping) else [_pair(one) for one in tables]
    return {name: _table(keys) for name, keys in pairs}


def _pair(one: Any) -> tuple[str, Any]:
    if isinstance(one, str):
        name, _, keys = one.partition(":")
        return name, tuple(keys.split("/"))
    name, keys = one
    return name, keys


def _table(keys: Any) -> TableSchema:
    if isinstance(keys, TableSchema):
        return keys
    return TableSchema(*((keys,) if isinstance(keys, str) else keys))
