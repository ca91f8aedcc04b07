"""The consumer of an audit, as Spark's Python workers get it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from oneslot.audit.judged import REJECTED, decoded, row_key
from oneslot.audit.model import Model, model_of
from oneslot.declaration.declaration import Declaration
from oneslot.laws.form import FILE_PREFIX, Problem
from oneslot.laws.groups import guarded, named_by
from oneslot.laws.schema import text_of


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

    def subjects_of(self, file: str, place: int, text: str) -> Iterator[tuple[str, int, str]]:
        """Yield a carried row under each subject that it names by the consumer's functions, or as a reject of its file."""
        if abs(place) == REJECTED:
            yield file if place > 0 else FILE_PREFIX, place, text
            return
        table = self.declaration.schema.tables[self.model.sources[abs(place) - 1]]
        row = decoded(json.loads(text))
        found = guarded(
            lambda: None if any(table.problems(row)) else list(dict.fromkeys(named_by(table, row))),
            f"The function in `request` or `lacking` of tables.{table.name}",
            "or name an attribute",
        )
        if found is None:
            reject = REJECTED if place > 0 else -REJECTED
            yield file if place > 0 else FILE_PREFIX, reject, str(int(Problem.MISSING_ATTRIBUTE))
            return
        own = table.key_of(row)
        for subject in found:
            yield row_key(own) if isinstance(own, tuple) and subject == text_of(own) else subject, place, text
