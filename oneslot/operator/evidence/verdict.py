"""Count the evidence and reach a verdict. Only what the run left behind counts, never what the sender intended."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from oneslot.laws import groups
from oneslot.laws.evidence import Breach, Evidence, Law
from oneslot.laws.form import REJECT_SHARE, UNIDENTIFIED_PREFIX
from oneslot.laws.request import RequestVerdict
from oneslot.laws.traces import COMPLETE
from oneslot.operator.evidence.deliveries import identified
from oneslot.operator.evidence.gathering import Gathered
from oneslot.operator.evidence.malformed import Malformed, malformed_evidence
from oneslot.operator.evidence.tables import Missing
from oneslot.operator.evidence.unsent import Undelivered, format_undelivered
from oneslot.wording import counted, numbered

Kind = Literal["holds", "broken", "unfinished", "nothing", "unreadable"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
NOTHING_LOST = "I2"
WITHOUT_ANSWER: Mapping[str, str] = {
    RequestVerdict.QUARANTINED: "is quarantined with its reason",
    RequestVerdict.DROPPED: "was dropped by an operator",
    RequestVerdict.FORGOTTEN: "is forgotten, because its row expired",
    RequestVerdict.IN_FLIGHT: "is still at work",
}
"""What the sentence over all requests says of those that have no answer, by verdict. The others are breaches."""


@dataclass(frozen=True)
class Counts:
    """The evidence in numbers; None where the evidence cannot show the number.

    Attributes:
        requests: distinct requests, whichever source names them; `verdicts` are their ends, as the audit counts them, and
            `unarchived` of them are not in the archive of `oneslot send`.
        messages: messages that the queue accepted from `oneslot send`, re-sent copies included.
        deliveries: the consumer's deliveries, by its log; None if the log is empty although the ledger has rows.
            `malformed_deliveries`: lines that are not counted.
        completed: requests whose row in the ledger is COMPLETE.
        duplicates: deliveries that got the recorded answer.
        reused: messages from `oneslot send` whose id was known with other content; each is about the request of that id.
        dead_letters: messages in the dead-letter queue, by reason.
        lost: accepted requests, or messages without an id, of which nothing is left.
        double_booked: subjects that break a law about effects that happen once, such as a request with two slots; at least
            the requests whose verdict is a duplicate effect.
        too_old: accepted requests before the ledger's retention, of which a lost one would not show.
    """

    requests: int | None
    verdicts: dict[str, int] | None
    unarchived: int | None
    messages: int | None
    reused: int | None
    deliveries: int | None
    completed: int | None
    duplicates: int | None
    dead_letters: dict[str, int]
    lost: int | None
    double_booked: int | None
    too_old: int
    malformed_deliveries: int = 0


@dataclass(frozen=True)
class CheckVerdict:
    """A verdict with its reasons. Only the kind `holds` is a success."""

    kind: Kind
    sentence: str
    counts: Counts
    breaches: Sequence[Breach] = field(default_factory=tuple)
    malformed: Sequence[Malformed] = field(default_factory=tuple)
    missing: Sequence[Missing] = field(default_factory=tuple)
    laws: Sequence[Law] = field(default_factory=tuple)
    undelivered: Undelivered | None = None

    @property
    def holds(self) -> bool:
        """Return whether every invariant holds and nothing is left to do."""
        return self.kind == "holds"

    def document(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        return {
            "holds": self.holds,
            "kind": self.kind,
            "verdict": self.sentence,
            "counts": asdict(self.counts),
            "invariants": [
                {
                    "name": invariant.name,
                    "sentence": invariant.sentence,
                    "breaches": sum(breach.invariant == invariant.name for breach in self.breaches),
                }
                for invariant in self.laws
            ],
            "breaches": [asdict(breach) for breach in self.breaches],
            "malformed": [asdict(one) for one in self.malformed],
            "missing": [asdict(one) for one in self.missing],
            "undelivered": self.undelivered and asdict(self.undelivered),
        }


def judge(gathered: Gathered, command: Callable[[str], str], lasting: Sequence[Breach] | None = None) -> CheckVerdict:
    """Count the evidence, check every invariant that a history can show, and return the verdict.

    A missing table or a malformed row makes the verdict `unreadable`, and the rest is only counted. Malformed lines of the
    delivery log are left out; a share above the audit's limit is a failure. `lasting` replaces the breaches found, where an
    earlier look has shown which of them last. `command` is `Target.command`.
    """
    gathered = replace(gathered, evidence=with_unidentified(gathered))
    rows, lines = malformed_evidence(gathered.evidence), gathered.malformed_lines
    breaches: Sequence[Breach] | None = None
    not_local: dict[str, str] = {}
    unread = ""
    if gathered.missing:
        unread = f"No verdict: {' and '.join(map(str, gathered.missing))}. Restore it, then check again."
    elif rows:
        more = f" and {len(rows) - 1:,} more" if rows[1:] else ""
        unread = f"No verdict: {rows[0]}{more}. Complete or delete the row, then check again."
    else:
        found = groups.judge(gathered.evidence, gathered.declaration.laws, not_local)
        shown = [replace(each, subject=each.subject.removeprefix(UNIDENTIFIED_PREFIX)) for each in found]
        breaches = [*shown, *_lost_without_identity(gathered)] if lasting is None else lasting
    laws = [law for law in gathered.declaration.judged if law.name not in not_local]
    counts = _count(gathered, breaches)
    said: tuple[Kind, str] = (
        ("unreadable", unread) if unread else _conclude(gathered, breaches or (), counts, command, len(laws))
    )
    if lines and not unread:
        said = _with_malformed_lines(*said, gathered)
    if not_local:
        without = f"{' '.join(not_local.values())} The verdict without it: {said[1]}"
        said = ("broken" if said[0] == "broken" else "unreadable", without)
    return CheckVerdict(
        *said, counts, tuple(breaches or ()), [*rows, *lines], gathered.missing, laws, gathered.undelivered
    )


def _with_malformed_lines(kind: Kind, sentence: str, gathered: Gathered) -> tuple[Kind, str]:
    """Return a verdict that also speaks of the malformed lines. Above the audit's limit it is not a success."""
    evidence, lines = gathered.evidence, gathered.malformed_lines
    read = len(evidence.ledger) + sum(map(len, evidence.tables.values())) + len(evidence.deliveries)
    above = len(lines) > REJECT_SHARE * max(read, 1)
    malformed = counted(len(lines), "line of the delivery log is", "lines of the delivery log are")
    sentence += (
        f" {malformed} malformed, {'more than' if above else 'within'} "
        f"the limit of {REJECT_SHARE:.3%} of all rows and lines. The first: {lines[0]}."
    )
    if above and kind in ("holds", "nothing"):
        return "unreadable", f"Not sound, because too many lines are malformed. {sentence}"
    return kind, sentence


def seen_before(breaches: Sequence[Breach], earlier: Sequence[Breach]) -> list[Breach]:
    """Return the breaches that an earlier look found as well: the same invariant for the same subject."""
    known = {(breach.invariant, breach.subject) for breach in earlier}
    return [breach for breach in breaches if (breach.invariant, breach.subject) in known]


def unsettled(verdict: CheckVerdict, command: Callable[[str], str]) -> CheckVerdict:
    """Return the verdict where each look found other breaches, because a request at work looks like one."""
    sentence = (
        f"Not finished: the consumer is at work, and each look found other breaches (the last: {len(verdict.breaches):,}). "
        f"Wait with `{command('watch --until-drained')}`, or stop the consumer, then check again."
    )
    counts = replace(verdict.counts, lost=None, double_booked=None)
    return replace(verdict, kind="unfinished", sentence=sentence, counts=counts, breaches=())


def _conclude(
    gathered: Gathered, breaches: Sequence[Breach], counts: Counts, command: Callable[[str], str], checked: int
) -> tuple[Kind, str]:
    """Return the kind of the verdict and its sentence, for evidence that can be read."""
    if breaches:
        names = ", ".join(dict.fromkeys(breach.invariant for breach in breaches))
        return "broken", (
            f"Broken: {counted(len(breaches), 'breach', 'breaches')} of {names}. "
            f"The first: {breaches[0].subject}: {breaches[0].detail}."
        )
    if not gathered.queue.empty:
        return "unfinished", (
            f"Not finished: the queue still holds {numbered(gathered.queue.total, 'message')}. Every answer so far is sound. "
            f"Wait with `{command('watch --until-drained')}`, then check again."
        )
    if gathered.hidden:
        hidden = counted(gathered.hidden, "dead letter is", "dead letters are")
        return "unfinished", (
            f"Not finished: about {hidden} not shown, because another reader hides them or they wait behind others of "
            f"their group on a FIFO queue. See `{command('dlq list')}`, then check again."
        )
    if unsent := " ".join(format_undelivered(gathered.undelivered, command)):
        return "unfinished", f"Not finished: {unsent}"
    left = (gathered.evidence.ledger, list(gathered.evidence.effects()), gathered.accepted, gathered.dead_letters)
    if not any(left) and not gathered.too_old:
        return "nothing", f"Nothing to check: no request has been sent. Send some, then run `{command('check')}` again."
    return "holds", _success(counts, gathered.declaration.twice, checked)


def _success(counts: Counts, twice: str, checked: int) -> str:
    older = f" {counts.too_old:,} more are older than the ledger's retention, and were not checked."
    unlogged = " The delivery log is empty, so a changed or deleted answer would not show."
    verdicts = (counts.verdicts or {}).items()
    *ends, last = [
        "has exactly one answer",
        *(f"{WITHOUT_ANSWER[each]} ({number:,})" for each, number in verdicts if each in WITHOUT_ANSWER),
    ]
    ended = f"{', '.join(ends)} or {last}" if ends else last
    count = counts.requests or 0  # unknown only where nothing is judged
    each = "the only request" if count == 1 else f"each of {numbered(count, 'request')}"
    archived = counts.messages is not None
    claim, lost = ("Exactly once", "none is lost, ") if archived else ("Sound", "")
    unknown = "" if archived else " There is no archive of accepted requests, so a lost one would not show."
    return (
        f"{claim}: {each} {ended}; {lost}none is {twice}; all {checked} invariants hold."
        f"{older if counts.too_old else unknown}{unlogged if counts.deliveries is None else ''}"
    )


def _count(gathered: Gathered, breaches: Sequence[Breach] | None) -> Counts:
    """Count the evidence. Without `breaches` there is no verdict, and the counts that follow from them are None."""
    evidence, accepted, found = gathered.evidence, gathered.accepted, breaches or ()
    twice = {law.name for law in gathered.declaration.laws if law.twice}
    sources = (evidence.ledger, evidence.quarantined, evidence.dropped, evidence.requests or (), evidence.lines)
    identified = {each for ids in sources for each in ids}
    verdicts = None if breaches is None else _count_ends(evidence, identified, breaches, twice)
    archived = {line.request.message_id for line in accepted or ()}
    archived |= {UNIDENTIFIED_PREFIX + each for line in accepted or () for each in line.sqs_message_ids}
    contents = {line.subject for line in accepted or () if line.request.message_id}
    complete = [row for row in evidence.ledger.values() if row.get("status") == COMPLETE]

    def logged(count: int) -> int | None:
        return count if evidence.deliveries or gathered.malformed_lines or not evidence.ledger else None

    return Counts(
        requests=None if verdicts is None else sum(verdicts.values()),
        verdicts=verdicts,
        unarchived=None if breaches is None or accepted is None else len(identified - archived),
        messages=None if accepted is None else sum(len(line.sqs_message_ids) for line in accepted),
        reused=None if accepted is None else len(contents) - len({message_id for message_id, _ in contents}),
        deliveries=logged(len(evidence.deliveries)),
        completed=None if "ledger" in {each.table for each in gathered.missing} else len(complete),
        duplicates=logged(sum(line["outcome"] == "duplicate" for line in evidence.deliveries)),
        dead_letters=dict(sorted(Counter(letter.reason for letter in gathered.dead_letters).items())),
        lost=None
        if breaches is None or accepted is None or not gathered.complete
        else _subjects(found, {NOTHING_LOST}),
        double_booked=None
        if verdicts is None
        else max(_subjects(found, twice), verdicts.get(RequestVerdict.DUPLICATE_EFFECT, 0)),
        too_old=gathered.too_old,
        malformed_deliveries=len(gathered.malformed_lines),
    )


def with_unidentified(gathered: Gathered) -> Evidence:
    """Return the evidence in which a message without an id has one made of its SQS id, as in the audit."""
    letters = (letter for letter in gathered.dead_letters if letter.message_id is None)
    lines = [
        line if line["message_id"] is not None else {**line, "message_id": UNIDENTIFIED_PREFIX + line["sqs_message_id"]}
        for line in identified(gathered.evidence.deliveries)
    ]
    quarantined = {UNIDENTIFIED_PREFIX + str(letter.original_sqs_message_id) for letter in letters}
    return replace(gathered.evidence, deliveries=lines, quarantined={*gathered.evidence.quarantined, *quarantined})


def _count_ends(
    evidence: Evidence, identified: Collection[str], breaches: Sequence[Breach], twice: Collection[str]
) -> dict[str, int]:
    """Return the number of requests by verdict, in the audit's order, without those that no request has.

    A request is one message id, whichever source names it, or one message without an id. A message that reuses an id with
    other content is a message about that request. `twice` are the laws about effects that happen once.
    """
    doubled = {breach.subject for breach in breaches if breach.invariant in twice}
    found = Counter(evidence.request(each).verdict(twice=each in doubled) for each in sorted(identified))
    known = {each.removeprefix(UNIDENTIFIED_PREFIX) for each in identified}
    # Of a lost message without an id only the archive tells.
    found[RequestVerdict.LOST] += len({each.subject for each in breaches if each.invariant == NOTHING_LOST} - known)
    order = (*evidence.schema.answers, *map(str, RequestVerdict))
    return {verdict: found[verdict] for verdict in order if found[verdict]}


def _subjects(breaches: Sequence[Breach], laws: set[str]) -> int:
    return len({(breach.invariant, breach.subject) for breach in breaches if breach.invariant in laws})


def _lost_without_identity(gathered: Gathered) -> list[Breach]:
    """Return a breach for each message without an id that only the archive shows: no delivery and no dead letter.

    Only a consumer that identifies messages by their content answers one. The delivery log shows it, or the row under the
    digest of its content if a worker consumed it. A message that either names is judged as a request.
    """
    if gathered.accepted is None or not gathered.complete:
        return []
    accounted = {letter.original_sqs_message_id for letter in gathered.dead_letters}
    accounted |= {line["sqs_message_id"] for line in gathered.evidence.deliveries}
    accounted |= {each.removeprefix(UNIDENTIFIED_PREFIX) for each in gathered.evidence.dropped}
    answered = {
        row.get("payload_hash")
        for message_id, row in gathered.evidence.ledger.items()
        if row["status"] == COMPLETE and _DIGEST.fullmatch(message_id)
    }
    return [
        Breach(
            NOTHING_LOST,
            sqs_message_id,
            "a message without an id that the queue accepted, neither answered nor quarantined",
        )
        for line in gathered.accepted
        if line.request.message_id is None and (line.request.payload_hash or "") not in answered
        for sqs_message_id in line.sqs_message_ids
        if sqs_message_id not in accounted
    ]
