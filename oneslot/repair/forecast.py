"""What a redrive would do for a dead letter: the ledger is asked, the message is parsed again, nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from appointments.allocation import answer_of
from appointments.invariants import result_of
from appointments.messages import BookRequest, parse_message
from appointments.statuses import COMPLETE
from oneslot.errors import OneslotError
from oneslot.evidence.missing import Missing, unless_missing
from oneslot.evidence.scanning import APPOINTMENTS, LEDGER, projection
from oneslot.evidence.stack_dead_letters import reading_of
from oneslot.evidence.unusable import Table, Unusable, stops_the_consumer
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.identity import parse_body, payload_hash
from oneslot.runtime.sqs.dead_letters import DeadLetter, HeldLetter, identity_of
from oneslot.runtime.stores.expressions import from_attributes
from oneslot.target import Target

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

T = TypeVar("T")

# BatchGetItem takes 100 keys.
KEYS_AT_ONCE = 100
ATTEMPTS = 8
BACKOFF_SECONDS = 0.1


class Outlook(StrEnum):
    """What would become of a dead letter in the queue."""

    DUPLICATE = "duplicate"
    DONE_BEFORE = "done_before"
    STUCK = "stuck"
    BUSY = "busy"
    RETRIED = "retried"
    REFUSED = "refused"
    FAILS_AGAIN = "fails_again"


OTHER_CONTENT = (Outlook.FAILS_AGAIN, "its message_id was used before with another content. Send it with a new id")

FINISHED = frozenset({Outlook.DUPLICATE, Outlook.DONE_BEFORE})
"""The request has its answer already: without this copy nothing would be lost."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a message says, as far as it decides its fate; nothing of it is personal.

    `problem` is why the consumer cannot take it, None if it can. `practice` and `not_after` are a booking's.
    """

    message_id: str | None
    type: str | None = None
    payload_hash: str | None = None
    practice: str | None = None
    not_after: datetime | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """A dead letter, what is known of it, and what a redrive would come to, in a word and in a sentence."""

    letter: DeadLetter
    facts: Facts
    outlook: Outlook
    because: str
    bytes: int
    ledger: Mapping[str, Any] | None = None

    @property
    def helps(self) -> bool:
        """Whether a redrive would bring the message to its end, and not back here."""
        return self.outlook is not Outlook.FAILS_AGAIN

    @property
    def finished(self) -> bool:
        """Whether its request has its answer without it."""
        return self.outlook in FINISHED

    def document(self) -> dict[str, Any]:
        """The forecast as JSON."""
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
    """Read a message as the consumer does."""
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
    """Say what would become of it, by the consumer's own rules, in the consumer's order; `command` is `Target.command`."""
    if facts.problem is not None:
        return Outlook.FAILS_AGAIN, f"{facts.problem}. Have it sent again, corrected"
    if isinstance(row, Missing):
        return _fails_without(row)
    if row is not None and (unusable := stops_the_consumer(row)):
        return Outlook.FAILS_AGAIN, f"{unusable[0]}. See: {command(f'ledger show {facts.message_id}')}"
    if row is not None and (known := _foresee_known(facts, row, now_ms)):
        return known
    if isinstance(appointment, Missing):
        return _fails_without(appointment)
    if facts.type == "book" and appointment is not None:
        return _foresee_answered(facts, appointment)
    if facts.not_after is not None and int(facts.not_after.timestamp() * 1000) <= now_ms:
        return Outlook.REFUSED, "its window has passed; the refusal is recorded as its answer"
    known_practice = facts.practice is None or practice_is_known(facts.practice)
    if isinstance(known_practice, Missing):
        return _fails_without(known_practice)
    if not known_practice:
        return (
            Outlook.FAILS_AGAIN,
            f"practice {facts.practice} has no slots here. Check its code; if it is right, open its slots, then redrive",
        )
    if row is not None:
        return (
            Outlook.STUCK,
            f"begun {row.get('consumption_count', 'some')} time(s) and not finished; it is taken over and finished",
        )
    return Outlook.RETRIED, "nothing was done for it yet; it is processed as if it came for the first time"


def _fails_without(missing: Missing) -> tuple[Outlook, str]:
    return Outlook.FAILS_AGAIN, f"{missing}, and every delivery fails. Get it back, then redrive"


def _foresee_answered(facts: Facts, appointment: Mapping[str, Any]) -> tuple[Outlook, str]:
    """What its appointment decides, by which the consumer answers."""
    if appointment.get("payload_hash", facts.payload_hash) != facts.payload_hash:
        return OTHER_CONTENT
    try:
        answer_of(appointment)
    except KeyError as missing:
        lacking = Unusable("appointments", appointment["appointment_id"], missing.args[0])
        return Outlook.FAILS_AGAIN, f"{lacking}. Complete it by hand"
    return (
        Outlook.DONE_BEFORE,
        f"the ledger has forgotten it, but its appointment is there ({appointment['status']}); it gets that answer",
    )


def _foresee_known(facts: Facts, row: Mapping[str, Any], now_ms: int) -> tuple[Outlook, str] | None:
    """What the row alone decides; None if it may be claimed."""
    if row.get("payload_hash") != facts.payload_hash:
        return OTHER_CONTENT
    if row["status"] == COMPLETE:
        return Outlook.DUPLICATE, f"already complete ({result_of(row).get('outcome')}); it gets the same answer again"
    if row.get("lease_until", 0) >= now_ms:
        seconds = (row["lease_until"] - now_ms) / 1000
        return Outlook.BUSY, f"a consumer has it for {seconds:.0f} s more; it waits for that, then it is tried again"
    return None


def forecast_all(target: Target, missing: list[Missing]) -> list[Forecast]:
    """Read the dead-letter queue, ask the ledger about each message, put all back. Memory: about 2 KB for each message.

    Tables that are not there and were asked are added to `missing`.
    """
    client, outputs = target.dynamodb, target.outputs
    found: list[tuple[DeadLetter, Facts, int]] = []
    with reading_of(target) as look:
        for batch in look:
            for held in batch:
                facts = facts_of(held)
                found.append((held.letter, facts, len(held.body.encode())))
    ids = sorted({facts.message_id for _, facts, _ in found if facts.message_id})
    ledger, slots, made = outputs.ledger_table_name, outputs.slots_table_name, outputs.appointments_table_name

    def asked(read: Callable[[], T], table: Table, name: str) -> T | Missing:
        answer = unless_missing(read, table, name)
        if isinstance(answer, Missing) and answer not in missing:
            missing.append(answer)
        return answer

    rows = asked(lambda: read_rows(client, ledger, "message_id", ids, LEDGER), "ledger", ledger)
    # A row that is not complete may have forgotten what an appointment remembers.
    known = {} if isinstance(rows, Missing) else rows
    open_ids = [each for each in ids if known.get(each, {}).get("status") != COMPLETE]
    appointments = asked(
        lambda: read_rows(client, made, "appointment_id", open_ids, APPOINTMENTS), "appointments", made
    )
    is_known = cache(lambda practice: asked(lambda: _has_slots(client, slots, practice), "slots", slots))
    now_ms = time.time_ns() // 1_000_000
    forecasts = []
    for letter, facts, size in found:
        row = rows if isinstance(rows, Missing) else rows.get(facts.message_id or "")
        appointment = appointments if isinstance(appointments, Missing) else appointments.get(facts.message_id or "")
        outlook, because = foresee(
            facts, row, appointment, practice_is_known=is_known, now_ms=now_ms, command=target.command
        )
        forecasts.append(Forecast(letter, facts, outlook, because, size, None if isinstance(row, Missing) else row))
    return sorted(forecasts, key=lambda each: (each.letter.reason, each.letter.sent, each.letter.sqs_message_id))


def read_rows(
    client: DynamoDBClient, table: str, key: str, ids: Sequence[str], attributes: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the rows of these ids, consistently read; an id without a row is left out."""
    rows: dict[str, dict[str, Any]] = {}
    for at in range(0, len(ids), KEYS_AT_ONCE):
        waiting: Any = {
            table: {
                "Keys": [{key: {"S": each}} for each in ids[at : at + KEYS_AT_ONCE]],
                "ConsistentRead": True,
                **projection(attributes),
            }
        }
        for attempt in range(1, ATTEMPTS + 1):
            answer = client.batch_get_item(RequestItems=waiting)
            for item in answer["Responses"].get(table, []):
                row = from_attributes(item)
                rows[row[key]] = row
            waiting = answer.get("UnprocessedKeys")
            if not waiting:
                break
            if attempt < ATTEMPTS:
                time.sleep(BACKOFF_SECONDS * 2 ** (attempt - 1))
        else:
            raise OneslotError(f"The table {table} is throttled. Nothing was changed; try again in a while.")
    return rows


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
        ConsistentRead=True,  # it decides what is told to do: a practice that was opened a moment ago is there
        KeyConditionExpression="practice = :practice",
        ExpressionAttributeValues={":practice": {"S": practice}},
        Limit=1,
        Select="COUNT",
    )
    return bool(answer["Count"])
