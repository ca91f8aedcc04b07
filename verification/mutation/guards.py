"""Why a mutant may live: something else guards what its line guards. Each guard has a name; each mutant here must live."""

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
        "The commit removes `lease_until` from the row, and a comparison with an attribute that is missing is false: a claim"
        " cannot take a COMPLETE row over, even if it did not ask for IN_PROGRESS.",
        ("oneslot/runtime/stores/dynamodb.py:Ledger.claim.attempt:condition always true:d2b14a",),
    ),
    "an exception means a claim": Guard(
        "Powertools asks to delete a record only after the decision raised, and the decision runs only under a claim: what"
        " is released is always one.",
        ("oneslot/runtime/powertools.py:LedgerPersistence.delete_record:always true:9ff940",),
    ),
    "once, or nothing exists": Guard(
        "`Exists` is the answer to a `once` write that was refused, so there is one whenever it is asked for its answer.",
        ("oneslot/runtime/powertools.py:_decide_and_commit:always true:bc07a4",),
    ),
    "what is held back has failed": Guard(
        "A record that is held back behind a failure is reported as failed itself, so that the next one of its group is held"
        " back, too, even if the failure before it were forgotten.",
        ("oneslot/runtime/consumer/batch.py:ConcurrentBatchProcessor.process.process_group:one operand less:040f2a",),
    ),
    "nothing decided, nothing committed": Guard(
        "What was not decided has no effects, and the ledger refuses that before it sends anything: the group would leave it"
        " to the ordinary way, as it does now.",
        ("oneslot/runtime/consumer/group_commit.py:GroupConsumer._look_and_decide:one operand less:a367e8",),
    ),
}
"""The guards by their names."""

GUARDED: Mapping[str, str] = {mutant: name for name, guard in GUARDS.items() for mutant in guard.mutants}


def guard_of(mutant: str) -> str:
    """The guard that explains why this mutant lives; empty if there is none."""
    return GUARDED.get(mutant, "")
