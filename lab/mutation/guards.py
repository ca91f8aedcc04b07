"""The guards: named reasons why a mutant may live. Each mutant here must live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """What guards instead, in a sentence, and the mutants that live because of it."""

    sentence: str
    mutants: tuple[str, ...]


GUARDS: Mapping[str, Guard] = {
    "no lease once complete": Guard(
        "The commit removes `lease_until`, and a comparison with a missing attribute is false. So a claim cannot take over a"
        " COMPLETE row, even without the condition on IN_PROGRESS.",
        ("oneslot/runtime/stores/dynamodb.py:DynamoDBLedger.claim:condition always true:d2b14a",),
    ),
    "once, or nothing exists": Guard(
        "`Exists` answers a refused `once` write, so there is always one to ask for its answer.",
        ("oneslot/runtime/attempt.py:_decide_and_commit:always true:fe784e",),
    ),
    "nothing decided, nothing committed": Guard(
        "A record without a decision has no effects, and the ledger refuses that before it sends anything. So the group"
        " leaves the record to the ordinary way, as it does now.",
        ("oneslot/runtime/consumer/group_commit.py:GroupCommit._look_and_decide:one operand less:a367e8",),
    ),
    "always short enough": Guard(
        "An expression with few attributes is below the limit of 4 KB, so whether it is measured makes no difference.",
        (
            "oneslot/runtime/stores/checks.py:_check_expressions:one operand less:ade98a",
            "oneslot/runtime/stores/checks.py:_check_expressions:boundary:d33d73",
        ),
    ),
}
"""The guards by their names."""

GUARDED: Mapping[str, str] = {mutant: name for name, guard in GUARDS.items() for mutant in guard.mutants}


def guard_of(mutant: str) -> str:
    """Return the name of the guard that explains why this mutant lives; empty if none does."""
    return GUARDED.get(mutant, "")
