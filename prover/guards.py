"""Why a mutant may live: something else guards what its line guards. Each guard has a name; each mutant here must live."""

from __future__ import annotations

from collections.abc import Mapping

GUARDS: Mapping[str, str] = {}
"""The guards: name → what guards instead."""

_GUARDED: Mapping[str, str] = {}


def guard_of(mutant: str) -> str:
    """The guard that explains why this mutant lives; empty if there is none."""
    return _GUARDED.get(mutant, "")
