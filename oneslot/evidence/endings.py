"""The end of each request, in the audit's words and by the audit's rules, so that both count alike.

A request is one message id, whichever source names it, or one message without an id. A message that reuses an id with other
content is a message about that request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from oneslot.application import ANSWERED, CANCELLED, COMPLETE, Breach, result_of
from oneslot.evidence.gathering import Gathered
from oneslot.pipeline.vocabulary import Verdict

_ENDED = frozenset({"booked", "waitlist", "cancelled", "refused"})
"""Outcomes, and statuses of an appointment, that are a verdict of the same name."""


@dataclass(frozen=True)
class Endings:
    """The verdict on each request of the evidence. `breaches` say which requests are lost, stuck or done twice."""

    gathered: Gathered
    breaches: Collection[Breach]

    def count(self) -> dict[str, int]:
        """Return the number of requests by verdict, in the audit's order, without those that no request has."""
        found = Counter(self._verdict(message_id) for message_id in self._identified)
        found.update(self._verdict_without_id(sqs_message_id) for sqs_message_id in self._unidentified)
        return {verdict.value: found[verdict] for verdict in Verdict if found[verdict]}

    @property
    def unarchived(self) -> int:
        """The number of requests that other producers sent: the archive of accepted requests does not name them."""
        accepted = self.gathered.accepted or ()
        ids = {line.request.message_id for line in accepted}
        sent = {sqs_message_id for line in accepted for sqs_message_id in line.sqs_message_ids}
        return len(self._identified - ids) + len(self._unidentified - sent)

    @property
    def letters_of_others(self) -> int:
        """The number of dead letters whose request has another end: they reuse its id with other content, for example."""
        return sum(
            letter.message_id is not None and self._verdict(letter.message_id) is not Verdict.QUARANTINED
            for letter in self.gathered.dead_letters
        )

    @cached_property
    def _identified(self) -> frozenset[str]:
        evidence = self.gathered.evidence
        logged = {line["message_id"] for line in evidence.deliveries if line["message_id"] is not None}
        return frozenset({*evidence.ledger, *evidence.quarantined, *(evidence.requests or ()), *logged})

    @cached_property
    def _unidentified(self) -> frozenset[str]:
        gathered = self.gathered
        letters = {letter.original_sqs_message_id for letter in gathered.dead_letters if letter.message_id is None}
        logged = {line["sqs_message_id"] for line in gathered.evidence.deliveries if line["message_id"] is None}
        return frozenset({*letters, *logged, *self._broken["I2"] - self._identified})

    @cached_property
    def _letters(self) -> frozenset[str]:
        return frozenset(letter.message_id for letter in self.gathered.dead_letters if letter.message_id)

    @cached_property
    def _cancellers(self) -> frozenset[str]:
        rows = self.gathered.evidence.appointments.values()
        return frozenset(str(row.get("cancelled_by")) for row in rows if row.get("status") == CANCELLED)

    @cached_property
    def _logged_outcomes(self) -> Mapping[str | None, str]:
        lines = self.gathered.evidence.deliveries
        return {line["message_id"]: line["outcome"] for line in lines if line["outcome"] in ANSWERED}

    @cached_property
    def _broken(self) -> Mapping[str, set[str]]:
        """The subjects of the breaches, by invariant."""
        found: dict[str, set[str]] = defaultdict(set)
        for breach in self.breaches:
            found[breach.invariant].add(breach.subject)
        return found

    def _verdict(self, message_id: str) -> Verdict:
        row = self.gathered.evidence.ledger.get(message_id)
        if message_id in self._broken["I1"]:
            return Verdict.DUPLICATE_EFFECT
        if row is not None and row["status"] == COMPLETE:
            appointment = self.gathered.evidence.appointments.get(message_id, {})
            outcome = str(result_of(row).get("outcome"))
            return Verdict.CANCELLED if appointment.get("status") == CANCELLED else _of(outcome)
        if message_id in self._letters:
            return Verdict.QUARANTINED
        return (self._without_row(message_id) if row is None else None) or self._unfinished(message_id, row is None)

    def _unfinished(self, message_id: str, never_begun: bool) -> Verdict:
        if message_id in self.gathered.evidence.quarantined:
            return Verdict.DROPPED
        if message_id in self._broken["I9"]:
            return Verdict.STUCK
        lost = never_begun and message_id in self._broken["I2"]
        return Verdict.LOST if lost else Verdict.IN_FLIGHT

    def _without_row(self, message_id: str) -> Verdict | None:
        """Return the verdict on a request whose row is gone, by its appointment or by the log; None if neither shows it."""
        appointment = self.gathered.evidence.appointments.get(message_id, {})
        if appointment.get("practice"):
            return _of(str(appointment.get("status")))
        if message_id in self._cancellers:
            return Verdict.CANCELLED
        if not self.gathered.evidence.forgotten(message_id):
            return None
        logged = self._logged_outcomes.get(message_id)
        return _of(logged) if logged else Verdict.FORGOTTEN

    def _verdict_without_id(self, sqs_message_id: str) -> Verdict:
        return Verdict.LOST if sqs_message_id in self._broken["I2"] else Verdict.QUARANTINED


def _of(outcome: str) -> Verdict:
    return Verdict(outcome) if outcome in _ENDED else Verdict.STUCK
