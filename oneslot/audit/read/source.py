"""A source of an audit: the form of its rows or lines, and the subjects that each names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import pyarrow as pa

from oneslot.laws.form import LARGEST, ROW_PREFIX, UNIDENTIFIED_PREFIX, Form, Kind
from oneslot.laws.groups import elements

TEXT, NUMBER = pa.string(), pa.int64()
NUMBER_OF, JSON_OF = " N", " J"
"""End the names of the columns with what is not text in an attribute of any type: a number, and other attributes as JSON."""
OTHERS = "other attributes"
"""Stands in a form for all attributes that it does not name: a law of a table that declares no `attributes` may read any."""
Named = tuple[str, ...]


@dataclass(frozen=True)
class ExportedTable:
    """How the rows of an exported table are read, checked and carried. Attributes that its form does not name are never read.

    Attributes:
        key: the attributes of the table's key.
        form: of the attributes that are read.
        subjects: the attributes of each subject that a row names, its own key first.
        counted: the column of verdicts that counts its rows.
        asks: whether functions of the consumer say which subjects a row names, or what it lacks.
        known: all attributes that a row may have; empty if it may have any.
        wanted: attributes that some row must have, with the name in the declaration that says so.
    """

    key: Named
    form: Form
    subjects: tuple[Named, ...]
    counted: str
    asks: bool = False
    known: frozenset[str] = frozenset()
    wanted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A source by its name. `table` is that of an export; a log or list has none.

    `kept` are the columns that travel. `number` stands for it where blocks travel.
    """

    name: str
    number: int
    form: Form
    kept: Named
    table: ExportedTable | None = None

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """The columns that travel, with the text of attributes of any type."""
        of = self.form.attributes
        return {name: NUMBER if name in of and of[name].kind in LARGEST else TEXT for name in self.kept}

    @property
    def any_type(self) -> list[str]:
        """The attributes of any type."""
        return [name for name, attribute in self.form.attributes.items() if attribute.kind == Kind.ANY]

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return pa.schema([("key", TEXT), *self.types.items()]).empty_table()

    def named(self, row: Mapping[str, Any]) -> list[str]:
        """Return the subjects that a row or line can be read to name, its own first."""
        if self.table is None:
            sqs = self.form.one_of[-1:] or ("",)
            own = row.get("message_id") or (f"{UNIDENTIFIED_PREFIX}{row[sqs[0]]}" if sqs[0] in row else None)
            return [own] if own else []
        named: dict[str, None] = {}
        for names in self.table.subjects:
            for parts in product(*(elements(row, name.split(".")) for name in names)):
                if all(isinstance(part, str | int) and not isinstance(part, bool) for part in parts):
                    named[str(parts[0]) if len(parts) == 1 else f"{ROW_PREFIX}{'/'.join(map(str, parts))}"] = None
        return [*named]


def with_others(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with the attributes that travelled together beside those that its form names."""
    return {name: value for name, value in row.items() if name != OTHERS} | dict(row.get(OTHERS, {}))
