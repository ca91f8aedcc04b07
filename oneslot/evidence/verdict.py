"""Counts the evidence and judges it. Nothing here comes from what a sender meant to do, only from what was left behind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from appointments.invariants import INVARIANTS, Breach, check, result_of
from appointments.outcomes import ANSWERED
from appointments.statuses import COMPLETE
from oneslot.evidence.gathering import Gathered
from oneslot.evidence.missing import Missing
from oneslot.evidence.unusable import UNKNOWN, Table, Unusable, unusable_of
from oneslot.pipeline.vocabulary import REJECT_SHARE
from oneslot.sending.messages import MALFORMED
from oneslot.wording import numbered

Judgement = Literal["holds", "broken", "unfinished", "nothing", "unreadable"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
ONE_SLOT_PER_REQUEST, ONE_APPOINTMENT_PER_SLOT, NOTHING_LOST = "I1", "I3", "I2"


@dataclass(frozen=True)
class Counts:
    """What the evidence says, in numbers. None: the evidence cannot tell.

    Attributes:
        requests: different requests that the queue accepted within the ledger's retention, and of these `malformed`.
        messages: messages that it accepted, re-sent copies included.
        deliveries: attempts by the consumer, by its log; None if that says nothing, although the ledger has rows.
            `malformed_deliveries`: lines of it that are left out.
        appointments: rows, of which `booked`, `waitlisted` and `cancelled`.
        refused: requests whose recorded answer is a refusal.
        duplicates_suppressed: deliveries that were given an earlier answer again.
        quarantined: messages in the dead-letter queue, by reason.
        lost: accepted requests, or messages without an id, of which nothing is left.
        double_booked: requests with two slots, and slots with two appointments.
        too_old: accepted requests of before the ledger's retention: nobody can tell any more if one of them was lost.
    """

    requests: int | None
    malformed: int | None
    messages: int | None
    deliveries: int | None
    completed: int | None
    appointments: int | None
    booked: int | None
    waitlisted: int | None
    cancelled: int | None
    refused: int | None
    duplicates_suppressed: int | None
    quarantined: dict[str, int]
    lost: int | None
    double_booked: int | None
    too_old: int
    malformed_deliveries: int = 0


@dataclass(frozen=True)
class Verdict:
    """A judgement with its reasons. `holds` is the only one that is a success."""

    judgement: Judgement
    sentence: str
    counts: Counts
    breaches: Sequence[Breach] = field(default_factory=tuple)
    unusable: Sequence[Unusable] = field(default_factory=tuple)
    missing: Sequence[Missing] = field(default_factory=tuple)

    @property
    def holds(self) -> bool:
        """Whether everything that was promised is so."""
        return self.judgement == "holds"

    def document(self) -> dict[str, Any]:
        """The verdict as JSON."""
        return {
            "holds": self.holds,
            "judgement": self.judgement,
            "verdict": self.sentence,
            "counts": asdict(self.counts),
            "invariants": [
                {
                    "name": invariant.name,
                    "sentence": invariant.sentence,
                    "breaches": sum(breach.invariant == invariant.name for breach in self.breaches),
                }
                for invariant in INVARIANTS
                if invariant.breaches is not None
            ],
            "breaches": [asdict(breach) for breach in self.breaches],
            "unusable": [asdict(one) for one in self.unusable],
            "missing": [asdict(one) for one in self.missing],
        }


def judge(gathered: Gathered, command: Callable[[str], str], lasting: Sequence[Breach] | None = None) -> Verdict:
    """Count, check every invariant that a history can show, and say what it comes to, and what to type next: `Target.command`.

    Without one of the tables, or with a row that lacks what must be known of it, nothing is judged: what is there is
    counted. Lines of the delivery log that lack it are left out; more of them than the audit tolerates are no success.
    `lasting` are the breaches that this evidence is judged by, where an earlier look tells which of them count.
    """
    lines = gathered.unusable_lines
    rows = unusable_of(gathered.evidence)
    if missing := gathered.missing:
        names = " and ".join(map(str, missing))
        sentence = f"Nothing can be judged: {names}. Get it back, then check again."
        return Verdict("unreadable", sentence, _count(gathered, None), unusable=[*rows, *lines], missing=missing)
    if rows:
        return Verdict("unreadable", _nothing_judged(rows), _count(gathered, None), unusable=[*rows, *lines])
    verdict = _judge(gathered, command, lasting)
    if not lines:
        return verdict
    evidence = gathered.evidence
    read = len(evidence.ledger) + len(evidence.slots) + len(evidence.appointments) + len(evidence.deliveries)
    above = len(lines) > REJECT_SHARE * max(read, 1)
    judged = "more than" if above else "within"
    sentence = (
        f"{verdict.sentence} {len(lines):,} line(s) of the delivery log could not be read, {judged} "
        f"the limit of {REJECT_SHARE:.3%} of all rows and lines. The first: {lines[0]}."
    )
    judgement = "unreadable" if above and verdict.judgement in ("holds", "nothing") else verdict.judgement
    if judgement == "unreadable":
        sentence = f"Not sound as far as it can be read. {sentence}"
    return replace(verdict, judgement=judgement, sentence=sentence, unusable=lines)


def seen_before(breaches: Sequence[Breach], earlier: Sequence[Breach]) -> list[Breach]:
    """Return those of the breaches that an earlier look found, too: the same invariant, of the same subject."""
    known = {(breach.invariant, breach.subject) for breach in earlier}
    return [breach for breach in breaches if (breach.invariant, breach.subject) in known]


def changing(verdict: Verdict, command: Callable[[str], str]) -> Verdict:
    """Return what can be said where each look found other breaches: what is at work now looks like them."""
    sentence = (
        f"Not finished: requests are being worked on, and each look found something else between two steps (the last: "
        f"{len(verdict.breaches):,}). Wait with `{command('watch --until-drained')}`, or stop the consumer, then check again."
    )
    counts = replace(verdict.counts, lost=None, double_booked=None)
    return replace(verdict, judgement="unfinished", sentence=sentence, counts=counts, breaches=())


def _judge(gathered: Gathered, command: Callable[[str], str], lasting: Sequence[Breach] | None) -> Verdict:
    breaches = [*check(gathered.evidence), *_lost_without_identity(gathered)] if lasting is None else list(lasting)
    counts = _count(gathered, breaches)
    if breaches:
        names = ", ".join(dict.fromkeys(breach.invariant for breach in breaches))
        sentence = f"BROKEN: {len(breaches):,} breach(es) of {names}. The first: {_told(breaches[0])}."
        return Verdict("broken", sentence, counts, breaches)
    if not gathered.queue.empty:
        sentence = (
            f"Not finished: the queue still holds {gathered.queue.total:,} message(s). What is there so far is sound. "
            f"Wait with `{command('watch --until-drained')}`, then check again."
        )
        return Verdict("unfinished", sentence, counts)
    if gathered.behind:
        sentence = (
            f"Not finished: about {gathered.behind:,} dead letter(s) are not shown: another reader hides them, or they wait "
            "behind others of their groups on a FIFO queue. What is seen so far is sound. Look how to go on "
            f"(`{command('dlq list')}`), then check again."
        )
        return Verdict("unfinished", sentence, counts)
    kept = (gathered.evidence.ledger, gathered.evidence.appointments, gathered.accepted, gathered.dead_letters)
    if not any(kept) and not gathered.too_old:
        sentence = f"Nothing to check: no request has been sent. Send some: `{command('send')}`."
        return Verdict("nothing", sentence, counts)
    return Verdict("holds", _success(counts, _quarantined_of(gathered)), counts)


def _nothing_judged(rows: Sequence[Unusable]) -> str:
    more = f" {len(rows) - 1:,} more attribute(s) are missing elsewhere." if rows[1:] else ""
    return f"Nothing can be judged: {rows[0]}.{more} No consumer leaves such a row. Complete or delete it, then check again."


def _quarantined_of(gathered: Gathered) -> int:
    """How many dead letters are of the requests that the archive has: others may have been sent by somebody else."""
    accepted = gathered.accepted or ()
    ids = {line.request.message_id for line in accepted} - {None}
    sent = {sqs_message_id for line in accepted for sqs_message_id in line.sqs_message_ids}
    return sum(letter.message_id in ids or letter.original_sqs_message_id in sent for letter in gathered.dead_letters)


def _success(counts: Counts, quarantined: int) -> str:
    checked = sum(invariant.breaches is not None for invariant in INVARIANTS)
    older = f" {counts.too_old:,} more are older than what the ledger keeps, and nobody can tell any more."
    unlogged = (
        " The delivery log says nothing of them, so nobody can tell if an answer was changed or taken away."
        if counts.deliveries is None
        else ""
    )
    if counts.requests is None or counts.messages is None:
        unknown = " There is no archive of what the queue accepted, so nobody can tell if something was lost."
        completed = numbered(counts.completed or 0, "request")  # unknown only where nothing is judged
        return (
            f"Sound: of {completed} each has exactly one answer, none is booked twice, and all "
            f"{checked} invariants hold.{older if counts.too_old else unknown}{unlogged}"
        )
    return (
        f"Exactly once: of {numbered(counts.requests, 'request')} in {numbered(counts.messages, 'message')} each has "
        f"exactly one answer or is quarantined with its reason ({quarantined:,}); none is lost, none is booked twice; all "
        f"{checked} invariants hold.{older if counts.too_old else ''}{unlogged}"
    )


def _told(breach: Breach) -> str:
    return f"{breach.subject}: {breach.detail}"


def _count(gathered: Gathered, breaches: Sequence[Breach] | None) -> Counts:
    """Count; without `breaches` nothing was judged, and what follows from them is unknown."""
    evidence, accepted = gathered.evidence, gathered.accepted
    statuses = Counter(str(row.get("status", UNKNOWN)) for row in evidence.appointments.values())
    found = breaches or ()
    broken = {name: {breach.subject for breach in found if breach.invariant == name} for name in ("I1", "I2", "I3")}
    complete = [row for row in evidence.ledger.values() if row.get("status") == COMPLETE]
    missing = {each.table for each in gathered.missing}

    def of(table: Table, count: int) -> int | None:
        return None if table in missing else count

    def logged(count: int) -> int | None:
        return count if evidence.deliveries or gathered.unusable_lines or not evidence.ledger else None

    return Counts(
        requests=None if accepted is None else len(_subjects(gathered)),
        malformed=None if accepted is None else sum(line.request.kind == MALFORMED for line in accepted),
        messages=None if accepted is None else sum(len(line.sqs_message_ids) for line in accepted),
        deliveries=logged(len(evidence.deliveries)),
        completed=of("ledger", len(complete)),
        appointments=of("appointments", len(evidence.appointments)),
        booked=of("appointments", statuses["booked"]),
        waitlisted=of("appointments", statuses["waitlist"]),
        cancelled=of("appointments", statuses["cancelled"]),
        refused=of("ledger", sum(result_of(row).get("outcome") == "refused" for row in complete)),
        duplicates_suppressed=logged(sum(line["outcome"] == "duplicate" for line in evidence.deliveries)),
        quarantined=dict(sorted(Counter(letter.reason for letter in gathered.dead_letters).items())),
        lost=None if breaches is None or accepted is None or not gathered.complete else len(broken[NOTHING_LOST]),
        double_booked=None
        if breaches is None
        else len(broken[ONE_SLOT_PER_REQUEST]) + len(broken[ONE_APPOINTMENT_PER_SLOT]),
        too_old=gathered.too_old,
        malformed_deliveries=len(gathered.unusable_lines),
    )


def _subjects(gathered: Gathered) -> set[tuple[str | None, str | None]]:
    """Different requests: those with an id by it and what they say; those without one each for itself."""
    return {
        (line.request.message_id, line.request.payload_hash)
        if line.request.message_id
        else (None, next(iter(line.sqs_message_ids), None))
        for line in gathered.accepted or ()
    }


def _lost_without_identity(gathered: Gathered) -> list[Breach]:
    """A message without an id has no row under one; it must have been in the dead-letter queue.

    Or it was answered, where the consumer takes its content for its id: by the delivery log, or, of what a worker consumed,
    by the row under that id.
    """
    if gathered.accepted is None or not gathered.complete:
        return []
    ended = ANSWERED | {"duplicate", "quarantined"}
    accounted = {letter.original_sqs_message_id for letter in gathered.dead_letters} | {
        line["sqs_message_id"] for line in gathered.evidence.deliveries if line["outcome"] in ended
    }
    answered = {
        row.get("payload_hash")
        for message_id, row in gathered.evidence.ledger.items()
        if row["status"] == COMPLETE and _DIGEST.fullmatch(message_id)
    }
    return [
        Breach(
            NOTHING_LOST,
            sqs_message_id,
            "a message without an id, accepted by the queue, and never answered nor quarantined",
        )
        for line in gathered.accepted
        if line.request.message_id is None and (line.request.payload_hash or "") not in answered
        for sqs_message_id in line.sqs_message_ids
        if sqs_message_id not in accounted
    ]
