"""One mutant of the simulated code, chosen by hand: a piece of one file and what stands there instead."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from lab.mutation.mutants import source_of
from lab.mutation.mutations import Mutant


class Outdated(AssertionError):
    """A piece that the file does not hold exactly once; the mutant must be written again."""


@dataclass(frozen=True, slots=True)
class Change:
    """A mutant.

    Attributes:
        defect: what the changed code does, in a few words; the mutant's name.
        file: its path below the import root.
        before, after: the piece, which the file holds once, and its replacement.
        scenarios: the scenarios that must kill it.
        guard: why it lives in all of them; empty for a mutant that must die.
    """

    defect: str
    file: str
    before: str
    after: str
    scenarios: tuple[str, ...]
    guard: str = ""

    @property
    def mutant(self) -> Mutant:
        """The mutated module. Raises `Outdated`."""
        source = source_of(self.file)
        if source.count(self.before) != 1:
            raise Outdated(f"{self.file} holds {self.before!r} {source.count(self.before)} times")
        changed = source.replace(self.before, self.after)
        return Mutant(self.defect, self.file, "", f"{self.before}  ->  {self.after}", lambda: ast.parse(changed))
