"""The consumer of an audit, as Spark's Python workers get it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from oneslot.audit.model import Model, model_of
from oneslot.audit.read.source import Source
from oneslot.declaration.declaration import Declaration
from oneslot.laws.form import ROW_PREFIX
from oneslot.laws.groups import guarded, named_by
from oneslot.laws.schema import Row, text_of

T = TypeVar("T")


@dataclass(frozen=True)
class AuditConsumer:
    """What a Python worker must know to judge; it imports the rest. `path`: folders of the driver's `sys.path`."""

    declaration: Declaration
    path: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what was computed: laws and functions are imported where they run."""
        return AuditConsumer, (replace(self.declaration), self.path)

    @cached_property
    def model(self) -> Model:
        """The audit's model of the consumer."""
        sys.path.extend(folder for folder in self.path if folder not in sys.path)
        return model_of(self.declaration)

    def problem_of(self, source: Source, row: Row) -> str | None:
        """Return the first attribute that the consumer's own functions find missing or invalid."""
        table = self.declaration.schema.tables[source.name]
        return self._asked(source, lambda: next((name for _, name in table.problems(row)), None))

    def subjects_of(self, source: Source, row: Row) -> list[str]:
        """Return the subjects that a row names by the consumer's functions, its own key first."""
        table = self.declaration.schema.tables[source.name]
        named = self._asked(source, lambda: list(named_by(table, row)))
        return [*dict.fromkeys(f"{ROW_PREFIX if isinstance(each, tuple) else ''}{text_of(each)}" for each in named)]

    def _asked(self, source: Source, call: Callable[[], T]) -> T:
        what = f"The function in `request` or `lacking` of tables.{source.name}"
        return guarded(call, what, "or name an attribute")
