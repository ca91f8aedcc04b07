"""Forecast what a redrive would do for each dead letter, from its message and the tables. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from oneslot.application import COMPLETE, BookRequest, answer_of, parse_message, result_of
from oneslot.evidence.dead_letters import read_dead_letters
from oneslot.evidence.malformed import Malformed, blocking_attributes
from oneslot.evidence.tables import APPOINTMENTS, LEDGER, Missing, Table, read_rows, unless_missing
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.identity import parse_body, payload_hash
from oneslot.runtime.sqs.dead_letters import DeadLetter, HeldLetter, identity_of
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.target import Target

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

T = TypeVar("T")


class Outlook(StrEnum):
    """The outcome of a dead letter, if it were in the queue."""

    DUPLICATE = "duplicate"
    DONE_BEFORE = "done_before"
    STUCK = "stuck"
    BUSY = "busy"
    RETRIED = "retried"
    REFUSED = "refused"
    FAILS_AGAIN = "fails_again"


OTHER_CONTENT = (Outlook.FAILS_AGAIN, "its message_id was used before with other content. Have it sent with a new id")

FINISHED = frozenset({Outlook.DUPLICATE, Outlook.DONE_BEFORE})
"""The outlooks of a request that has its answer, so that dropping the dead letter loses nothing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The parts of a message that decide its outlook, without personal data.

    `problem` is the reason for which the consumer would quarantine it; None if it would not. Only a booking has `practice`
    and `not_after`.
    """

    message_id: str | None
    type: str | None = None
    payload_hash: str | None = None
    practice: str | None = None
    not_after: datetime | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """A dead letter with its outlook, the reason `because`, and the ledger row.

    `bytes` is the length of its body. `place` counts the messages that the queue showed before it. `group` is its message
    group on a FIFO queue.
    """

    letter: DeadLetter
    facts: Facts
    outlook: Outlook
    because: str
    bytes: int
    ledger: Mapping[str, Any] | None = None
    place: int = 0
    group: str | None = None

    @property
    def helps(self) -> bool:
        """Return whether a redrive would finish the request."""
        return self.outlook is not Outlook.FAILS_AGAIN

    @property
    def finished(self) -> bool:
        """Return whether its request has an answer already."""
        return self.outlook in FINISHED

    def document(self) -> dict[str, Any]:
        """Return the forecast as JSON."""
        return {
            "message_id": self.letter.message_id,
            "sqs_message_id": self.letter.sqs_message_id,
            "source_sqs_message_id": self.letter.source_sqs_message_id,
            "type": self.facts.type,
            "practice": self.facts.practice,
            "payload_hash": self.facts.payload_hash,
            "bytes": self.bytes,
            "sent": self.letter.sent,
            "reason": self.letter.reason,
            "detail": self.letter.detail,
            "outlook": self.outlook.value,
            "because": self.because,
            "ledger": self.ledger and {**self.ledger, "result": result_of(self.ledger) or None},
        }


def facts_of(held: HeldLetter) -> Facts:
    """Parse a message as the consumer does."""
    try:
        identity = held.letter.message_id or identity_of(held.body, held.attributes)
        body = parse_body(held.body)
        digest = payload_hash(body)
    except Unprocessable as problem:
        return Facts(held.letter.message_id, problem=problem.detail)
    try:
        request = parse_message(identity, digest, body)
    except Unprocessable as problem:
        return Facts(held.letter.message_id, payload_hash=digest, problem=problem.detail)
    if isinstance(request, BookRequest):
        return Facts(identity, "book", digest, request.practice, request.not_after)
    return Facts(identity, "cancel", digest)


def foresee(  # noqa: PLR0911 - one return for each fate
    facts: Facts,
    row: Mapping[str, Any] | Missing | None,
    appointment: Mapping[str, Any] | Missing | None,
    *,
    practice_is_known: Callable[[str], bool | Missing],
    now_ms: int,
    command: Callable[[str], str],
) -> tuple[Outlook, str]:
    """Return the outlook and its reason, by the consumer's rules in the consumer's order; `command` is `Target.command`."""
    if facts.problem is not None:
        return Outlook.FAILS_AGAIN, f"{facts.problem}. Have it sent again, corrected"
    if isinstance(row, Missing):
        return _fails_without(row)
    if row is not None and (malformed := blocking_attributes(row)):
        return Outlook.FAILS_AGAIN, f"{malformed[0]}. See: {command(f'ledger show {facts.message_id}')}"
    if row is not None and (known := _foresee_known(facts, row, now_ms)):
        return known
    if isinstance(appointment, Missing):
        return _fails_without(appointment)
    if facts.type == "book" and appointment is not None:
        return _foresee_answered(facts, appointment)
    if facts.not_after is not None and int(facts.not_after.timestamp() * 1000) <= now_ms:
        return Outlook.REFUSED, "its window has passed, so it is refused"
    known_practice = facts.practice is None or practice_is_known(facts.practice)
    if isinstance(known_practice, Missing):
        return _fails_without(known_practice)
    if not known_practice:
        return (
            Outlook.FAILS_AGAIN,
            f"practice {facts.practice} has no slots. Correct its code, or open its slots, then redrive",
        )
    if row is not None:
        return (
            Outlook.STUCK,
            f"begun and not finished (claims: {row.get('consumption_count', 'unknown')}); the consumer takes it over",
        )
    return Outlook.RETRIED, "nothing was done for it yet; the consumer processes it as the first copy"


def _fails_without(missing: Missing) -> tuple[Outlook, str]:
    return Outlook.FAILS_AGAIN, f"{missing}, so every delivery fails. Restore it, then redrive"


def _foresee_answered(facts: Facts, appointment: Mapping[str, Any]) -> tuple[Outlook, str]:
    """Return the outlook of a request that the ledger forgot, from its appointment."""
    if appointment.get("payload_hash", facts.payload_hash) != facts.payload_hash:
        return OTHER_CONTENT
    try:
        answer_of(appointment)
    except KeyError as missing:
        malformed = Malformed("appointments", appointment["appointment_id"], missing.args[0])
        return Outlook.FAILS_AGAIN, f"{malformed}. Complete it by hand"
    return (
        Outlook.DONE_BEFORE,
        f"its ledger row expired, but its appointment is there ({appointment['status']}); it gets that answer",
    )


def _foresee_known(facts: Facts, row: Mapping[str, Any], now_ms: int) -> tuple[Outlook, str] | None:
    """Return the outlook that the row alone decides; None if the request may be claimed."""
    if row.get("payload_hash") != facts.payload_hash:
        return OTHER_CONTENT
    if row["status"] == COMPLETE:
        return Outlook.DUPLICATE, f"already complete ({result_of(row).get('outcome')}); it gets the same answer"
    if row.get("lease_until", 0) >= now_ms:
        seconds = (row["lease_until"] - now_ms) / 1000
        return Outlook.BUSY, f"a consumer holds its lease for {seconds:.0f} s more; then it is retried"
    return None


def forecast_all(target: Target, missing: list[Missing]) -> list[Forecast]:
    """Read the dead-letter queue and return a forecast for each message, in about 2 KB of memory each.

    Missing tables that a forecast needed are added to `missing`.
    """
    client, outputs = target.dynamodb, target.outputs
    fifo = is_fifo(outputs.queue_url)
    found: list[tuple[DeadLetter, Facts, int, str | None]] = []
    with read_dead_letters(target) as look:
        for batch in look:
            for held in batch:
                facts = facts_of(held)
                found.append((held.letter, facts, len(held.body.encode()), held.group if fifo else None))
    ids = sorted({facts.message_id for _, facts, *_ in found if facts.message_id})
    ledger, slots, appointments_table = (
        outputs.ledger_table_name,
        outputs.slots_table_name,
        outputs.appointments_table_name,
    )

    def asked(read: Callable[[], T], table: Table, name: str) -> T | Missing:
        answer = unless_missing(read, table, name)
        if isinstance(answer, Missing) and answer not in missing:
            missing.append(answer)
        return answer

    rows = asked(
        lambda: read_rows(client, ledger, "message_id", ids, LEDGER, surroundings=target.surroundings), "ledger", ledger
    )
    # An appointment outlives the ledger row, so it may show the answer of a request whose row is not complete.
    known = {} if isinstance(rows, Missing) else rows
    open_ids = [each for each in ids if known.get(each, {}).get("status") != COMPLETE]
    appointments = asked(
        lambda: read_rows(
            client, appointments_table, "appointment_id", open_ids, APPOINTMENTS, surroundings=target.surroundings
        ),
        "appointments",
        appointments_table,
    )
    is_known = cache(lambda practice: asked(lambda: _has_slots(client, slots, practice), "slots", slots))
    now_ms = target.surroundings.now_ms()
    forecasts = []
    for place, (letter, facts, size, group) in enumerate(found):
        row = rows if isinstance(rows, Missing) else rows.get(facts.message_id or "")
        appointment = appointments if isinstance(appointments, Missing) else appointments.get(facts.message_id or "")
        outlook, because = foresee(
            facts, row, appointment, practice_is_known=is_known, now_ms=now_ms, command=target.command
        )
        known_row = None if isinstance(row, Missing) else row
        forecasts.append(Forecast(letter, facts, outlook, because, size, known_row, place, group))
    return sorted(forecasts, key=lambda each: (each.letter.reason, each.letter.sent, each.letter.sqs_message_id))


def grouped(forecasts: Sequence[Forecast]) -> Iterator[tuple[str, Outlook, list[Forecast]]]:
    """Yield `(reason, outlook, messages)`, by reason and then by outlook."""
    groups: dict[tuple[str, Outlook], list[Forecast]] = {}
    for each in forecasts:
        groups.setdefault((each.letter.reason, each.outlook), []).append(each)
    for (reason, outlook), members in sorted(groups.items()):
        yield reason, outlook, members


def _has_slots(client: DynamoDBClient, table: str, practice: str) -> bool:
    answer = client.query(
        TableName=table,
        ConsistentRead=True,  # an eventually consistent read could miss a practice that was opened a moment ago
        KeyConditionExpression="practice = :practice",
        ExpressionAttributeValues={":practice": {"S": practice}},
        Limit=1,
        Select="COUNT",
    )
    return bool(answer["Count"])
