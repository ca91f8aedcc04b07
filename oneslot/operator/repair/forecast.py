"""Forecast what a redrive would do for each dead letter, from its message and the tables. Nothing is changed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from itertools import chain
from typing import Any, TypeVar

from oneslot.declaration.declaration import Declaration
from oneslot.errors import name_fault
from oneslot.laws.traces import COMPLETE, outcome_of, result_of
from oneslot.operator.evidence.dead_letters import read_dead_letters
from oneslot.operator.evidence.deliveries import Failure
from oneslot.operator.evidence.malformed import Standing, blocking_attributes, standing
from oneslot.operator.evidence.tables import Missing, read_rows, unless_missing
from oneslot.operator.target import Target
from oneslot.runtime.effects import Unprocessable, conflict
from oneslot.runtime.handlers import OUTCOME_UNKNOWN
from oneslot.runtime.protocol import conflicts
from oneslot.runtime.record import parse_body, parsed, payload_hash
from oneslot.runtime.sqs.dead_letters import RECEIVES_EXHAUSTED, DeadLetter, identity_and_content, identity_of
from oneslot.runtime.sqs.queue import is_fifo

T = TypeVar("T")


class Outlook(StrEnum):
    """The outcome of a dead letter, if it were in the queue."""

    DUPLICATE = "duplicate"
    DONE_BEFORE = "done_before"
    TAKEN_OVER = "taken_over"
    BUSY = "busy"
    RETRIED = "retried"
    REFUSED = "refused"
    FAILS_AGAIN = "fails_again"
    CORRECTED = "corrected"


OTHER_CONTENT = (Outlook.FAILS_AGAIN, "its message_id was used before with other content. Have it sent with a new id")

_SHOWN_BY_ROWS = frozenset({RECEIVES_EXHAUSTED, OUTCOME_UNKNOWN, conflict().reason})
"""The reasons that the rows confirm or end, so that the letter's own word is not needed."""

WOULD = {
    Outlook.DUPLICATE: "answer it as a duplicate",
    Outlook.DONE_BEFORE: "repeat its earlier answer",
    Outlook.TAKEN_OVER: "try it again",
    Outlook.BUSY: "wait for the consumer that has it",
    Outlook.RETRIED: "process it",
    Outlook.REFUSED: "record its refusal",
    **dict.fromkeys((Outlook.FAILS_AGAIN, Outlook.CORRECTED), "fail again"),
}
"""What a redrive would do, by the outlook."""

FINISHED = frozenset({Outlook.DUPLICATE, Outlook.DONE_BEFORE, Outlook.CORRECTED})
"""The outlooks of a request that has its answer, so that dropping the dead letter loses nothing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The parts of a message that decide its outlook, without personal data.

    `problem` is the reason for which the consumer would quarantine it; None if it would not. `request` is what the
    consumer's `parse` returns; None without that.
    """

    message_id: str | None
    payload_hash: str | None = None
    problem: str | None = None
    request: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A dead letter with its outlook, the reason `because`, and the ledger row.

    `bytes` is the length of its body. `place` counts the messages that the queue showed before it. `group` is its message
    group on a FIFO queue. `failure` is its last failed delivery, where the delivery log was read.
    """

    letter: DeadLetter
    facts: Facts
    outlook: Outlook
    because: str
    bytes: int
    ledger: Mapping[str, Any] | None = None
    place: int = 0
    group: str | None = None
    failure: Failure | None = None

    @property
    def helps(self) -> bool:
        """Return whether a redrive would finish the request."""
        return self.outlook not in {Outlook.FAILS_AGAIN, Outlook.CORRECTED}

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
            "payload_hash": self.facts.payload_hash,
            "bytes": self.bytes,
            "sent": self.letter.sent,
            "reason": self.letter.reason,
            "detail": self.letter.detail,
            "outlook": self.outlook.value,
            "because": self.because,
            "failure": self.failure and str(self.failure),
            "ledger": self.ledger and {**self.ledger, "result": result_of(self.ledger) or None},
        }


class TableReader:
    """Reads the tables for one look at the dead letters. `missing` has those that it needed and DynamoDB does not know."""

    def __init__(self, target: Target) -> None:
        self.missing: list[Missing] = []
        self._target = target

    def rows(self, table: str, key: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]] | Missing:
        """Return the rows that have these values of the key, or the missing table."""
        dynamodb, surroundings = self._target.dynamodb, self._target.surroundings
        name, attributes = self._target.tables[table]
        return self._unless_missing(
            table, lambda: read_rows(dynamodb, name, key, ids, attributes, surroundings=surroundings)
        )

    @cache  # noqa: B019 - a reader lives as long as one forecast
    def has(self, table: str, key: str) -> bool | Missing:
        """Return whether a table has a row with this partition key."""
        query = partial(
            self._target.dynamodb.query,
            TableName=self._target.outputs.tables[table],
            ConsistentRead=True,  # an eventually consistent read could miss a row that was put a moment ago
            KeyConditionExpression="#key = :key",
            ExpressionAttributeNames={"#key": self._target.declaration.schema.tables[table].key[0]},
            ExpressionAttributeValues={":key": {"S": key}},
            Limit=1,
            Select="COUNT",
        )
        return self._unless_missing(table, lambda: bool(query()["Count"]))

    def _unless_missing(self, table: str, read: Callable[[], T]) -> T | Missing:
        answer = unless_missing(read, table, self._target.tables[table][0])
        if isinstance(answer, Missing) and answer not in self.missing:
            self.missing.append(answer)
        return answer


Rows = Mapping[str, Mapping[str, Any] | Missing | None]
"""A request's rows in the tables whose key is its id: the row, None without one, or the missing table."""

Foresight = Callable[[Any, Rows, TableReader, int], "tuple[Outlook, str] | Missing | None"]
"""A consumer's `tools.foresee`: the parsed message, its rows, a reader and the time (epoch ms) → the outlook with its reason.

`RETRIED` means that the consumer refuses it for no reason, whatever it said before; None that nothing shows this, so a
reason that the consumer gave stands. A missing table means that its deliveries fail.
"""


def facts_of(
    message: Mapping[str, Any], declaration: Declaration, known: str | None = None, *, content_based: bool = False
) -> Facts:
    """Parse a message, as SQS returns it, as the consumer does; `known` is its id if a reader has found it."""
    own, parse = declaration.tool("identity"), declaration.tool("parse")
    text, attributes = message["Body"], message.get("MessageAttributes", {})
    try:
        if own is not None:
            identity, body = identity_and_content(own, message)
        else:
            identity = known or identity_of(text, attributes, content_based=content_based)
            body = parse_body(text)
        digest = payload_hash(body)
    except Unprocessable as error:
        return Facts(known, problem=error.detail)
    try:
        request = parsed(parse, identity, digest, body) if parse else None
    except Exception as error:  # of the consumer's code, which failed on this message before
        problem = error.detail if isinstance(error, Unprocessable) else f"parse raised {name_fault(error)}"
        return Facts(known, payload_hash=digest, problem=problem)
    return Facts(identity, digest, request=request)


def foresee(  # noqa: PLR0911, PLR0912 - one return for each fate
    letter: DeadLetter,
    facts: Facts,
    row: Mapping[str, Any] | Missing | None,
    rows: Rows,
    *,
    reader: TableReader,
    now_ms: int,
    target: Target,
) -> tuple[Outlook, str]:
    """Return the outlook and its reason, by the consumer's rules in the consumer's order.

    The reason that the consumer gave counts before what the declared rules find, for the handler's may be others.
    """
    declaration, command = target.declaration, target.command
    remedy = declaration.reasons.get(letter.reason, "It fails again unless code or data changed").rstrip(".")
    by_consumer = f"refused by the consumer ({letter.reason}: {letter.detail}). {remedy}"
    refused = None if letter.reason in _SHOWN_BY_ROWS else (Outlook.FAILS_AGAIN, by_consumer)
    if refused and isinstance(row, Mapping) and standing(row, now_ms) is Standing.COMPLETE:
        other = conflicts(row["payload_hash"], row["status"], facts.payload_hash or "")
        if other and letter.sent <= row["updated"]:
            return Outlook.CORRECTED, "its request was sent again, corrected, and has its answer. Drop this message"
    if facts.problem is not None:
        if refused and letter.detail != facts.problem:
            return refused
        if letter.reason == RECEIVES_EXHAUSTED and not (declaration.tools.identity or declaration.tools.parse):
            return (
                Outlook.RETRIED,
                f"a guess, without tools.identity in oneslot.toml: by the default rules {facts.problem}",
            )
        remedy = declaration.reasons.get(letter.reason, "Have it sent again, corrected")
        return Outlook.FAILS_AGAIN, f"{facts.problem}. {remedy.rstrip('.')}"
    if isinstance(row, Missing):
        return _fails_without(row)
    if row is not None and (malformed := blocking_attributes(row)):
        return Outlook.FAILS_AGAIN, f"{malformed[0]}. See: {command(f'ledger show {facts.message_id}')}"
    if row is not None and (known := _foresee_known(facts, row, now_ms)):
        return known
    own: Foresight | None = declaration.tool("foresee")
    foreseen = own(facts.request, rows, reader, now_ms) if own else foresee_rows(facts, rows)
    if isinstance(foreseen, Missing):
        return _fails_without(foreseen)
    if foreseen is None and refused:
        return refused
    if foreseen is not None and foreseen[0] is not Outlook.RETRIED:
        return foreseen
    if row is None:
        return Outlook.RETRIED, "nothing was done for it yet; the consumer processes it as the first copy"
    if letter.reason == OUTCOME_UNKNOWN:
        return Outlook.FAILS_AGAIN, (
            "its outside effect may have happened. If it did, drop this message; "
            f"if not, run `{command(f'ledger forget {facts.message_id}')}`, then redrive"
        )
    return (
        Outlook.TAKEN_OVER,
        f"begun and not finished (claims: {row.get('consumption_count', 'unknown')}); the consumer tries it again",
    )


def _fails_without(missing: Missing) -> tuple[Outlook, str]:
    return Outlook.FAILS_AGAIN, f"{missing}, so every delivery fails. Restore it, then redrive"


def foresee_rows(facts: Facts, rows: Rows) -> tuple[Outlook, str] | Missing | None:
    """Return the outlook of a consumer without a foresight: a row of the request shows that it is done."""
    for name, row in rows.items():
        if isinstance(row, Missing):
            return row
        if row is not None:
            if row.get("payload_hash", facts.payload_hash) != facts.payload_hash:
                return OTHER_CONTENT
            return Outlook.DONE_BEFORE, f"its ledger row expired, but its row in {name} is there; it gets that answer"
    return None


def _foresee_known(facts: Facts, row: Mapping[str, Any], now_ms: int) -> tuple[Outlook, str] | None:
    """Return the outlook that the row alone decides; None if the request may be claimed."""
    if conflicts(row["payload_hash"], row["status"], facts.payload_hash or ""):
        return OTHER_CONTENT
    if row["status"] == COMPLETE:
        return Outlook.DUPLICATE, f"already complete ({outcome_of(row)}); it gets the same answer"
    if row.get("lease_until", 0) >= now_ms:
        seconds = (row["lease_until"] - now_ms) / 1000
        return Outlook.BUSY, f"a consumer holds its lease for {seconds:.0f} s more; then it is retried"
    return None


def forecast_all(target: Target, about: str | None = None) -> tuple[list[Forecast], list[Missing]]:
    """Read the dead-letter queue. Return a forecast for each message, and the missing tables that these needed.

    A forecast takes about 2 KB of memory. `about` leaves out the messages that have another id.
    """
    declaration, fifo = target.declaration, is_fifo(target.outputs.queue_url)
    found: list[tuple[DeadLetter, Facts, int, str | None]] = []
    with read_dead_letters(target) as look:
        for held in chain.from_iterable(look):
            if about is None or held.letter.answers_to(about):
                message = {"Body": held.body, "MessageAttributes": held.attributes, "Attributes": held.system}
                facts = facts_of(message, declaration, held.letter.message_id)
                found.append((held.letter, facts, len(held.body.encode()), held.group if fifo else None))
    reader = TableReader(target)
    ids = sorted({facts.message_id for _, facts, *_ in found if facts.message_id})
    ledger = reader.rows("ledger", "message_id", ids)
    # A row of the consumer's outlives the ledger's, so it may show the answer of a request whose ledger row is not complete.
    known = {} if isinstance(ledger, Missing) else ledger
    open_ids = [each for each in ids if known.get(each, {}).get("status") != COMPLETE]
    effects = {
        name: reader.rows(name, table.key[0], open_ids)
        for name, table in declaration.schema.tables.items()
        if table.by_request and len(table.key) == 1  # with a sort key, the id alone names no row
    }
    now_ms = target.surroundings.now_ms()
    forecasts = []
    for place, (letter, facts, size, group) in enumerate(found):
        row, rows = _row_of(facts, ledger), {name: _row_of(facts, each) for name, each in effects.items()}
        outlook, because = foresee(letter, facts, row, rows, reader=reader, now_ms=now_ms, target=target)
        kept = None if isinstance(row, Missing) else row
        forecasts.append(Forecast(letter, facts, outlook, because, size, kept, place, group))
    forecasts.sort(key=lambda each: (each.letter.reason, each.letter.sent, each.letter.sqs_message_id))
    return forecasts, reader.missing


def _row_of(facts: Facts, rows: Mapping[str, Mapping[str, Any]] | Missing) -> Mapping[str, Any] | Missing | None:
    return rows if isinstance(rows, Missing) else rows.get(facts.message_id or "")


def grouped(forecasts: Sequence[Forecast]) -> Iterator[tuple[str, Outlook, list[Forecast]]]:
    """Yield `(reason, outlook, messages)`, by reason and then by outlook."""
    groups: dict[tuple[str, Outlook], list[Forecast]] = {}
    for each in forecasts:
        groups.setdefault((each.letter.reason, each.outlook), []).append(each)
    for (reason, outlook), members in sorted(groups.items()):
        yield reason, outlook, members
