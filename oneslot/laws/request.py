"""Everything that names one request, the states that follow from it, and its verdict.

The laws and the verdict read these states, in the explorer, the simulation, `check` and the audit alike.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from oneslot.laws.form import object_of
from oneslot.laws.schema import COMPLETE as ANY_ANSWER
from oneslot.laws.schema import Table, is_answer
from oneslot.laws.traces import COMPLETE, Traces
from oneslot.runtime.record import LONGEST_OUTCOME


class RequestVerdict(StrEnum):
    """The end of a request without a recorded answer. With one, the verdict is the answer's outcome."""

    QUARANTINED = "quarantined"
    DROPPED = "dropped"
    FORGOTTEN = "forgotten"
    IN_FLIGHT = "in_flight"
    STUCK = "stuck"
    LOST = "lost"
    UNREADABLE = "unreadable"
    DUPLICATE_EFFECT = "duplicate_effect"


UNSOUND = (
    RequestVerdict.LOST,
    RequestVerdict.STUCK,
    RequestVerdict.UNREADABLE,
    RequestVerdict.DUPLICATE_EFFECT,
)
"""Verdicts that a sound history does not have."""

VERDICT_SENTENCES = {
    RequestVerdict.QUARANTINED: "could not be processed; the message and its reason are in the dead-letter queue",
    RequestVerdict.DROPPED: "was given up: an operator deleted it from the dead-letter queue; "
    "the operator log says who and when",
    RequestVerdict.FORGOTTEN: "is older than the ledger remembers, and no other source says how it ended",
    RequestVerdict.IN_FLIGHT: "is still on its way",
    RequestVerdict.STUCK: "was begun; its lease is over and no message in the queue will continue it",
    RequestVerdict.LOST: "was accepted, and no source shows it since",
    RequestVerdict.UNREADABLE: "has a row that cannot be read, so no law speaks of it; rejects.jsonl locates the row",
    RequestVerdict.DUPLICATE_EFFECT: "took effect more than once",
}
"""Each verdict as the end of the sentence "The request ..."."""


class Request:
    """One request, as far as the evidence shows it. Times are epoch ms, None if nothing says them.

    Attributes:
        row: its row in the ledger; None without one.
        lines: its lines in the delivery log.
        made: the effects of rows that name it.
        done: how many deliveries got an answer, the first or a duplicate's.
        answered: the outcomes that its log gives as the first answer.
        sent, last: when SQS accepted its first known copy, and when its last delivery ended.
        first_done: when the first delivery with an answer of its own ended.
        quarantined_at: when the consumer last put a copy into the dead-letter queue.
        counted: the largest count of claims in the log.
    """

    def __init__(self, message_id: str, evidence: Traces) -> None:
        self.id = message_id
        self.evidence = evidence
        self.row = evidence.ledger.get(message_id)
        self.complete = self.row is not None and self.row["status"] == COMPLETE
        self.lines = evidence.lines.get(message_id, ())
        self.made = evidence.made.get(message_id, ())
        self.done = self.counted = 0
        self.answered: set[str] = set()
        self.sent: int | None = None
        self.last: int | None = None
        self.first_done: int | None = None
        self.quarantined_at: int | None = None
        for line in self.lines:
            self._read(line)

    def _read(self, line: Mapping[str, Any]) -> None:
        outcome = line["outcome"]
        finished = line.get("finished", self.evidence.now)
        sent = line.get("sent", finished)
        if self.sent is None or sent < self.sent:
            self.sent = sent
        if self.last is None or finished > self.last:
            self.last = finished
        self.counted = max(self.counted, line.get("consumption_count") or 0)
        if is_answer(outcome):
            self.done += 1
            self.answered.add(outcome)
            first = line.get("first_finished", finished)  # of several lines that the audit folded into one
            self.first_done = first if self.first_done is None else min(self.first_done, first)
        elif outcome == "duplicate":
            self.done += 1
        elif outcome == "quarantined":
            self.quarantined_at = finished if self.quarantined_at is None else max(self.quarantined_at, finished)

    @property
    def acted(self) -> bool:
        """Whether a row says that it made or changed something."""
        return bool(self.made)

    @cached_property
    def own(self) -> bool:
        """Whether a row says that it made something, rather than that it undid another request's effect."""
        return any(not made.effect.undoes for made in self.made)

    @property
    def undone(self) -> str | None:
        """The deed by which another request undid its effect; None if it stands."""
        return self.evidence.undone.get(self.id)

    @property
    def accepted(self) -> bool:
        """Whether the archive has it."""
        return self.id in (self.evidence.requests or ())

    @property
    def seen(self) -> bool:
        """Whether the queue is known to have accepted it, by the archive or by a delivery."""
        return bool(self.lines) or self.accepted

    @property
    def first_seen(self) -> int | None:
        """When the producer sent it, by the archive, or SQS accepted it, by the log."""
        return self.evidence.sent.get(self.id, self.sent)

    @cached_property
    def resting(self) -> int:
        """The time since which no consumer holds its unfinished row; 0 without one.

        A released claim has a lease in the past and the time of the release.
        """
        if self.row is None or self.complete:
            return 0
        return int(max(self.row.get("updated", 0), self.row["lease_until"]))

    @cached_property
    def since(self) -> int | None:
        """When its row was last written, as far as other sources show it.

        That is the commit. A duplicate does not extend the row's life. An effect carries the time of the commit; the next best
        is the first answer. Where only an effect without a time or a duplicate shows that there was an answer, it may be of
        any time, even before the first known copy was sent: 0.
        """
        times = [
            self.evidence.now if made.effect.at is None else made.effect.at
            for made in self.made
            if not (self.own and made.effect.undoes)
        ]
        if committed := max(times, default=0):
            return committed
        if self.first_done is not None:
            return self.first_done
        if self.made or self.done:
            return 0
        known = [time for time in (self.sent, self.evidence.sent.get(self.id)) if time is not None]
        return self.last if self.last is not None else min(known, default=None)

    def _gone_at(self, moment: int | None) -> bool:
        return self.evidence.may_be_gone(self.since, moment)

    @cached_property
    def forgotten(self) -> bool:
        """Whether its row has expired."""
        return self.row is None and self._gone_at(self.evidence.now)

    @cached_property
    def excused(self) -> bool:
        """Whether it need not be COMPLETE: its row expired, or a copy that came later began a new one."""
        return self.forgotten or (self.row is not None and not self.complete and self._gone_at(self.resting))

    @property
    def renewed(self) -> bool:
        """Whether the log may be about an earlier row. DynamoDB deletes late, so a young line may be about an old row."""
        return self.evidence.may_be_gone(self.sent, self.evidence.now)

    @property
    def answered_again(self) -> bool:
        """Whether a copy that came after the row was gone may have found its effect undone, or restored away by an operator."""
        restored = self.sent is not None and self.sent < self.evidence.forgotten_before
        return restored or (self.undone is not None and self._gone_at(self.last))

    @property
    def dead(self) -> bool:
        """Whether the dead-letter queue holds a copy."""
        return self.id in self.evidence.quarantined

    @property
    def dropped(self) -> bool:
        """Whether an operator deleted a copy from the dead-letter queue."""
        return self.id in self.evidence.dropped

    @property
    def waiting(self) -> bool:
        """Whether the queue is known to hold a copy."""
        return self.id in (self.evidence.waiting or ())

    @property
    def nowhere(self) -> bool:
        """Whether no queue is known to hold it, and no operator dropped it."""
        return not (self.waiting or self.dead or self.dropped)

    @property
    def set_aside(self) -> bool:
        """Whether the log says quarantined, no consumer wrote the row since, and not both queues are listed."""
        if (self.evidence.waiting is not None and self.evidence.dead_letters_known) or self.quarantined_at is None:
            return False
        # The consumer releases its claim before it quarantines. A row written later belongs to a redriven message.
        return self.nowhere and self.quarantined_at >= self.resting

    def _over(self, since: int | None) -> bool:
        """Return whether the wait for it is over: at once where the queue's content is known, else after the patience."""
        if self.evidence.waiting is not None:
            return True
        return since is not None and since + self.evidence.patience_ms < self.evidence.now

    @property
    def lost(self) -> bool:
        """Whether it was seen, has no row, and no message will begin it."""
        return self.row is None and self.seen and self.nowhere and not self.set_aside and self._over(self.first_seen)

    @property
    def stuck(self) -> bool:
        """Whether its row is unfinished and unheld, and no message will continue it."""
        if self.row is None or self.complete:
            return False
        # The lease first: the explorer must see a row without one.
        over = self.resting < self.evidence.now
        return over and self.nowhere and not self.set_aside and self._over(self.resting)

    @property
    def left_begun(self) -> bool:
        """Whether it was seen, its row is unfinished, and no queue holds it, though its lease may last."""
        if self.evidence.waiting is None:
            return self.stuck
        unfinished = self.row is not None and not self.complete
        return unfinished and self.seen and self.nowhere and not self.set_aside

    @cached_property
    def kept(self) -> str | None:
        """The outcome that its row keeps; None without one, and where the row holds another request's answer."""
        result = object_of(self.row.get("result")) if self.complete and self.row is not None else None
        outcome = None if result is None else str(result.get("outcome", ANY_ANSWER))[:LONGEST_OUTCOME]
        known = self.evidence.schema.outcomes
        if result is None or outcome is None or not known:
            return outcome
        if outcome not in known or (known[outcome].request and result.get(known[outcome].request or "") != self.id):
            return None
        return None if known[outcome].names and not result.get(known[outcome].names or "") else outcome

    @property
    def recorded(self) -> str | None:
        """The answer that its row keeps, as a verdict."""
        return self.evidence.schema.word_of(self.kept)

    @property
    def logged(self) -> str | None:
        """The first answer in its log, as a verdict; of several the last that is declared."""
        words = {self.evidence.schema.word_of(outcome) for outcome in self.answered}
        return next((word for word in reversed(self.evidence.schema.answers) if word in words), None)

    @property
    def shown(self) -> str:
        """The answer that its effects show: a row's status, the table's only outcome, the log's, or just that there is one."""
        for table, _, row, effect in sorted(self.made, key=lambda made: made.effect.undoes):
            if effect.undoes:
                return effect.deed
            if row.get("status") in self.evidence.schema.answers:
                return str(row["status"])
            if len(table.outcomes) == 1:
                return table.outcomes[0]
        return self.logged or (RequestVerdict.STUCK if self.answered else ANY_ANSWER)

    def rows_of(self, table: Table) -> int:
        """Return how many of its effects are in a table."""
        return sum(made.table is table for made in self.made)

    @property
    def twice(self) -> bool:
        """Whether more rows name it than one effect has."""
        return any(table.rows is not None and self.rows_of(table) > table.rows for table, *_ in self.made)

    def verdict(self, *, twice: bool = False) -> str:
        """Return the first end that applies, from the worst to the plainest. `twice`: a law or an export says so."""
        if twice or self.twice:
            return RequestVerdict.DUPLICATE_EFFECT
        if self.complete:
            return self.undone or self.recorded or RequestVerdict.STUCK
        if self.dead:
            return RequestVerdict.QUARANTINED
        if self.row is None and self.acted:
            return self.shown
        if self.forgotten and self.answered:
            return self.logged or RequestVerdict.STUCK
        return self._unfinished()

    def _unfinished(self) -> str:
        if self.dropped and not self.waiting:
            return RequestVerdict.DROPPED
        if self.set_aside:
            return RequestVerdict.QUARANTINED
        if self.stuck:
            return RequestVerdict.STUCK
        if self.forgotten and self.nowhere:
            return RequestVerdict.FORGOTTEN
        return RequestVerdict.LOST if self.lost else RequestVerdict.IN_FLIGHT
