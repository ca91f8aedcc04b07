"""The table of named defects: each is an edit of one file, with the search that notices it and the law that it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("edits.txt")


class Outdated(AssertionError):
    """The file does not have the text before exactly once; write the edit again."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A defect: `before` becomes `after`. `search` is `explore SCENARIO`, `simulate SCENARIO SEED`, `replay NAME`
    or `judge SEED`, of the audit's quick look."""

    file: str
    search: str
    law: str
    defect: str
    before: str
    after: str

    def apply(self, source: str) -> str:
        """Return the edited source. Raises `Outdated`."""
        if source.count(self.before) != 1:
            raise Outdated(f"{self.defect}: {self.file} has {self.before!r} {source.count(self.before)} times")
        return source.replace(self.before, self.after)


def read_edits() -> Iterator[Edit]:
    """Yield the edits of the table. Lines with `@` begin an edit, those with `<` and `>` are the texts before and after."""
    for block in TABLE.read_text().split("@ ")[1:]:
        head, *lines = block.splitlines()
        before, after = ("\n".join(line[2:] for line in lines if line[:1] == mark) for mark in "<>")
        file, search, law, defect = head.split(" | ")
        yield Edit(file, search, law, defect, before, after)
