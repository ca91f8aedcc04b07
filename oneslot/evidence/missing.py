"""Tables that DynamoDB does not know: deleted, or still being restored. What can be shown without them is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from botocore.exceptions import ClientError

from oneslot.evidence.unusable import Table
from oneslot.explanations import how_to_restore
from oneslot.runtime.stores.expressions import error_code

NOT_FOUND = "ResourceNotFoundException"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Missing:
    """A table that is not there: what it is for (`ledger`, `slots`, `appointments`), and its name."""

    table: Table
    name: str

    def __str__(self) -> str:
        return f"the table {self.name} ({self.table}) is missing"


def unless_missing(read: Callable[[], T], table: Table, name: str) -> T | Missing:
    """Return what `read` returns, or which table is missing. Any other refusal is raised as it is."""
    try:
        return read()
    except ClientError as error:
        if error_code(error) != NOT_FOUND:
            raise
        return Missing(table, name)


def told(missing: Sequence[Missing], command: Callable[[str], str]) -> Iterator[str]:
    """What to tell a person: each of them, and where their repair stands (`command`: `Target.command`)."""
    for one in missing:
        yield f"{str(one)[0].upper()}{str(one)[1:]}: nothing is known of what it holds."
    if missing:
        yield how_to_restore(command)
