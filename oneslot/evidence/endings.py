"""The end of each request, in the audit's words and by the audit's rules, so that both count alike.

A request is one message id, whichever source names it, or one message without an id. A message that reuses an id with other
content is a message about that request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from oneslot.evidence.gathering import Gathered
from oneslot.laws.evidence import Breach, result_of
from oneslot.laws.schema import is_answer
from oneslot.pipeline.vocabulary import Verdict


@dataclass(frozen=True)
class Endings:
    """The verdict on each request of the evidence. `breaches` say which requests are lost, stuck or done twice."""

    gathered: Gathered
    breaches: Collection[Breach]

    def count(self) -> dict[str, int]:
        """Return the number of requests by verdict, in the audit's order, without those that no request has."""
        found = Counter(self._verdict(message_id) for message_id in self._identified)
        found.update(self._verdict_without_id(sqs_message_id) for sqs_message_id in self._unidentified)
        outcomes = self.gathered.declaration.outcomes or sorted(found.keys() - set(Verdict))
        order = dict.fromkeys([*outcomes, *map(str, Verdict)])
        return {verdict: found[verdict] for verdict in order if found[verdict]}

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
            letter.message_id is not None and self._verdict(letter.message_id) != Verdict.QUARANTINED
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
    def _made(self) -> Mapping[str, str]:
        """The outcome of each request that rows name: the row's status, the table's only outcome, or the deed."""
        evidence = self.gathered.evidence
        found = {}
        for table, key, effect in evidence.effects():
            usual = next(iter(table.outcomes)) if len(table.outcomes) == 1 else ""
            status = str(evidence.rows(table.name)[key].get("status", usual))
            found[effect.request] = status if effect.deed == "made" else effect.deed
        return found

    @cached_property
    def _logged_outcomes(self) -> Mapping[str | None, str]:
        lines = self.gathered.evidence.deliveries
        return {line["message_id"]: line["outcome"] for line in lines if is_answer(line["outcome"])}

    @cached_property
    def _broken(self) -> Mapping[str, set[str]]:
        """The subjects of the breaches, by invariant."""
        found: dict[str, set[str]] = defaultdict(set)
        for breach in self.breaches:
            found[breach.invariant].add(breach.subject)
        return found

    def _verdict(self, message_id: str) -> str:
        evidence = self.gathered.evidence
        if message_id in self._broken["I1"] | self._broken["I12"]:
            return Verdict.DUPLICATE_EFFECT
        if evidence.complete(message_id):
            return self._status(message_id) or self._of(str(result_of(evidence.ledger[message_id]).get("outcome")))
        if message_id in self._letters:
            return Verdict.QUARANTINED
        never_begun = message_id not in evidence.ledger
        return (self._without_row(message_id) if never_begun else None) or self._unfinished(message_id, never_begun)

    def _status(self, message_id: str) -> str | None:
        """Return the status of the row with the request's id, if it is an outcome: the end may have changed since."""
        for table in self.gathered.evidence.schema.tables.values():
            status = self.gathered.evidence.rows(table.name).get(message_id, {}).get("status")
            if table.by_request and status in self.gathered.declaration.outcomes:
                return str(status)
        return None

    def _unfinished(self, message_id: str, never_begun: bool) -> str:
        if message_id in self.gathered.evidence.quarantined:
            return Verdict.DROPPED
        if message_id in self._broken["I9"]:
            return Verdict.STUCK
        lost = never_begun and message_id in self._broken["I2"]
        return Verdict.LOST if lost else Verdict.IN_FLIGHT

    def _without_row(self, message_id: str) -> str | None:
        """Return the verdict on a request whose row is gone, by its effect or by the log; None if neither shows it."""
        if made := self._made.get(message_id):
            return self._of(made)
        if not self.gathered.evidence.forgotten(message_id):
            return None
        logged = self._logged_outcomes.get(message_id)
        return self._of(logged) if logged else Verdict.FORGOTTEN

    def _verdict_without_id(self, sqs_message_id: str) -> str:
        return Verdict.LOST if sqs_message_id in self._broken["I2"] else Verdict.QUARANTINED

    def _of(self, outcome: str) -> str:
        known = self.gathered.declaration.outcomes
        return outcome if not known or outcome in known else Verdict.STUCK
