"""The end of each request, by the function that the audit calls, so that both count alike.

A request is one message id, whichever source names it, or one message without an id. A message that reuses an id with other
content is a message about that request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from oneslot.laws.evidence import Breach, Evidence
from oneslot.laws.form import UNIDENTIFIED_PREFIX
from oneslot.laws.request import RequestVerdict
from oneslot.operator.evidence.gathering import Gathered


def with_unidentified(gathered: Gathered) -> Evidence:
    """Return the evidence in which a message without an id has one made of its SQS id, as in the audit."""
    letters = (letter for letter in gathered.dead_letters if letter.message_id is None)
    lines = [
        line if line["message_id"] is not None else {**line, "message_id": UNIDENTIFIED_PREFIX + line["sqs_message_id"]}
        for line in gathered.evidence.deliveries
    ]
    quarantined = {UNIDENTIFIED_PREFIX + str(letter.original_sqs_message_id) for letter in letters}
    return replace(gathered.evidence, deliveries=lines, quarantined={*gathered.evidence.quarantined, *quarantined})


@dataclass(frozen=True)
class Endings:
    """The verdict on each request of the evidence. `breaches` say which requests took effect twice, or are nowhere."""

    gathered: Gathered
    breaches: Collection[Breach]

    def count(self) -> dict[str, int]:
        """Return the number of requests by verdict, in the audit's order, without those that no request has."""
        laws = {law.name for law in self.gathered.declaration.laws if law.twice}
        twice = {breach.subject for breach in self.breaches if breach.invariant in laws}
        found = Counter(
            self.gathered.evidence.request(each).verdict(twice=each in twice) for each in sorted(self._identified)
        )
        found[RequestVerdict.LOST] += len(self._archived_alone)
        order = (*self.gathered.evidence.schema.answers, *map(str, RequestVerdict))
        return {verdict: found[verdict] for verdict in order if found[verdict]}

    @property
    def unarchived(self) -> int:
        """The number of requests that other producers sent: the archive of accepted requests does not name them."""
        accepted = self.gathered.accepted or ()
        archived = {line.request.message_id for line in accepted}
        archived |= {UNIDENTIFIED_PREFIX + each for line in accepted for each in line.sqs_message_ids}
        return len(self._identified - archived)

    @cached_property
    def _identified(self) -> frozenset[str]:
        evidence = self.gathered.evidence
        named = (evidence.ledger, evidence.quarantined, evidence.dropped, evidence.requests or (), evidence.lines)
        return frozenset(each for ids in named for each in ids)

    @cached_property
    def _archived_alone(self) -> set[str]:
        """The lost messages without an id of which only the archive tells."""
        known = {each.removeprefix(UNIDENTIFIED_PREFIX) for each in self._identified}
        return {breach.subject for breach in self.breaches if breach.invariant == "I2"} - known
