"""Why a mutant may live: something else guards what its line guards. Each guard has a name; each mutant here must live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """What guards instead, in a sentence, and the mutants that live because of it."""

    sentence: str
    mutants: tuple[str, ...]


GUARDS: Mapping[str, Guard] = {}
"""The guards by their names."""

GUARDED: Mapping[str, str] = {mutant: name for name, guard in GUARDS.items() for mutant in guard.mutants}


def guard_of(mutant: str) -> str:
    """The guard that explains why this mutant lives; empty if there is none."""
    return GUARDED.get(mutant, "")
