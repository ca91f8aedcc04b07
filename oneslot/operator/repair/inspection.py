"""Everything that the evidence knows about one request, as a timeline. Only the declared attributes are read."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import declared
from oneslot.laws.evidence import Evidence
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.laws.traces import COMPLETE, outcome_of, result_of
from oneslot.operator.evidence.deliveries import failure_of, valid_deliveries
from oneslot.operator.evidence.malformed import Malformed, Standing, malformed_evidence, malformed_ledger_row, standing
from oneslot.operator.evidence.operator_log import DROPPED, changes, dropped_at
from oneslot.operator.evidence.tables import Missing, read_row, unless_missing
from oneslot.operator.repair.forecast import Forecast, forecast_all
from oneslot.operator.sending.archive import AcceptedRequest, read_archive
from oneslot.operator.target import Target

_ENDED = {Standing.RELEASED: "was released after an error", Standing.EXPIRED: "has expired"}


@dataclass(frozen=True)
class Inspection:
    """The evidence about one message id, or one SQS message id; None or empty where there is none.

    `rows`: its row in each of the consumer's tables. `missing`: missing tables that may have had a row about it.
    `now_ms`: when it was looked up, in epoch milliseconds. `changes`: the operator log's lines about it.
    """

    message_id: str
    ledger: dict[str, Any] | None
    rows: dict[str, dict[str, Any]]
    accepted: list[AcceptedRequest]
    deliveries: list[dict[str, Any]]
    dead_letters: list[Forecast]
    now_ms: int
    malformed_lines: list[Malformed] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    declaration: Declaration = field(default_factory=declared)
    changes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def malformed(self) -> list[Malformed]:
        """The malformed attributes of the rows and the log lines about it."""
        schema = self.declaration.schema
        tables = {name: schema.tables[name].by_key([row]) for name, row in self.rows.items()}
        return [
            *(malformed_ledger_row(self.ledger) if self.ledger else ()),
            *malformed_evidence(Evidence(tables=tables, schema=schema)),
            *self.malformed_lines,
        ]

    @property
    def known(self) -> bool:
        """Return whether there is any evidence about it."""
        rows = self.ledger or self.rows
        return any((rows, self.accepted, self.deliveries, self.dead_letters, self.malformed_lines, self.changes))

    def document(self) -> dict[str, Any]:
        """Return the inspection as JSON."""
        return {
            "message_id": self.message_id,
            "summary": self.summary(),
            "ledger": self.ledger and {**self.ledger, "result": result_of(self.ledger) or None},
            "rows": self.rows,
            "accepted": [asdict(line) for line in self.accepted],
            "deliveries": self.deliveries,
            "dead_letters": [
                {**asdict(each.letter), "outlook": each.outlook.value, "because": each.because}
                for each in self.dead_letters
            ],
            "timeline": [{"at": at, "what": what} for at, what in self.timeline()],
            "malformed": [asdict(one) for one in self.malformed],
            "missing": [asdict(one) for one in self.missing],
        }

    def summary(self) -> str:
        """Return its outcome as a sentence."""
        complete = self.ledger is not None and self.ledger.get("status") == COMPLETE
        if self.ledger is not None and complete and not malformed_ledger_row(self.ledger):
            result = result_of(self.ledger)
            sentence = format_outcome(self.declaration, str(result.get("outcome", "complete")), result)
            return self._with_letters(" ".join([sentence, *(said for _, _, said in self._story() if said)]))
        if not complete and (made := self._made()):
            name, row = made
            outcome = str(row.get("status", ""))
            known = outcome in self.declaration.outcomes
            sentence = format_outcome(self.declaration, outcome, row) if known else f"Its row in {name} is there."
            gone = any(each.table == "ledger" for each in self.missing)
            why = "is missing" if gone else "has no complete row of it"
            return self._with_letters(f"{sentence} The ledger {why}; the row in {name} shows the answer.")
        return self._unfinished(complete)

    def _made(self) -> tuple[str, dict[str, Any]] | None:
        """Return the table and the row that name this request as done."""
        for name, row in self.rows.items():
            effects = self.declaration.schema.tables[name].effects
            if effects and any(effect.request == self.message_id for effect in effects(row)):
                return name, row
        return None

    def _story(self) -> list[tuple[int | None, str, str]]:
        """Return (time, event, sentence) of what the consumer says about the rows; no time for no event."""
        story = self.declaration.tool("story")
        return list(story(self.message_id, self.rows)) if story else []

    def _unfinished(self, complete: bool) -> str:  # noqa: PLR0911 - one return for each state
        if self.dead_letters and not complete:
            return f"Quarantined: {self.dead_letters[0].letter.reason}."
        tables = self.declaration.schema.tables
        asked = [each for each in self.missing if each.table == "ledger" or tables[each.table].effects]
        if self.ledger is None and asked:
            return f"Unknown: {asked[0]}."
        if (dropped := dropped_at(self.changes)) and self.timeline()[-1][0] <= dropped:
            return DROPPED
        if self.ledger is None:
            return "Accepted by the queue, and not consumed yet." if self.accepted else "Not answered."
        if malformed := malformed_ledger_row(self.ledger):
            return f"Unknown: {malformed[0]}."
        if ended := _ENDED.get(standing(self.ledger, self.now_ms)):
            return (
                f"Begun and not finished. Its lease {ended}, so the next delivery takes it over; if no queue holds a "
                "copy, have its producer send it again with the same message_id."
            )
        return "In progress: a consumer holds its lease."

    def _with_letters(self, sentence: str) -> str:
        if not self.dead_letters:
            return sentence
        return f"{sentence} Another message with this id is quarantined: {self.dead_letters[0].letter.reason}."

    def timeline(self) -> list[tuple[int, str]]:
        """Return each event with its time (epoch ms), oldest first."""
        return sorted(self._events(), key=lambda event: event[0])

    def _events(self) -> Iterator[tuple[int, str]]:
        for line in self.accepted:
            copies = "1 copy" if len(line.sqs_message_ids) == 1 else f"{len(line.sqs_message_ids)} copies"
            malformed = f", malformed: {line.request.malformation}" if line.request.malformation else ""
            yield line.sent, f"sent with `oneslot send`, accepted by the queue: {copies}{malformed}"
        for sqs_message_id, sent in {
            attempt.get("sqs_message_id"): attempt["sent"] for attempt in self.deliveries
        }.items():
            yield sent, f"in the queue as {sqs_message_id or 'an unknown id'}"
        for attempt in self.deliveries:
            reason = f" ({failure_of(attempt)})" if attempt.get("reason") else ""
            yield (
                attempt["finished"],
                f"delivery {attempt.get('receive_count', '?')} of {(attempt.get('sqs_message_id') or '?')[:8]}: "
                f"{attempt['outcome']}{reason}, {attempt.get('attempt_ms', '?')} ms",
            )
        for letter in (each.letter for each in self.dead_letters):
            yield letter.sent, f"in the dead-letter queue: {letter.reason}: {letter.detail}"
        for change in self.changes:
            yield change["at_ms"], f"`oneslot {change['action']}` by {change['who']['user']}: {change['outcome']}"
        row, logged = self.ledger, {attempt.get("claimed_by") for attempt in self.deliveries}
        if row and standing(row, self.now_ms) is Standing.COMPLETE and row["claimed_by"] not in logged:
            yield row["updated"], f"{outcome_of(row)}, by the ledger; the delivery log has no line of it"
        yield from ((at, what) for at, what, _ in self._story() if at is not None)


def inspect(target: Target, message_id: str) -> Inspection:
    """Look the id up everywhere. An SQS message id is in the delivery log, the archive and the dead-letter queue only."""
    outputs = target.outputs
    missing: list[Missing] = []

    def row(table: str, name: str, key: Mapping[str, Any], attributes: tuple[str, ...]) -> dict[str, Any] | None:
        found = unless_missing(lambda: read_row(target.dynamodb, name, key, attributes), table, name)
        if not isinstance(found, Missing):
            return found
        missing.append(found)
        return None

    ledger = row("ledger", outputs.ledger_table_name, {"message_id": message_id}, LEDGER_ATTRIBUTES)
    # The answer names the rows, or a row found before does; else a row may have the request's own id.
    named = dict(result_of(ledger)) if ledger else {}
    rows: dict[str, dict[str, Any]] = {}
    asked: set[str] = set()
    tables = target.declaration.schema.tables
    for _ in tables:
        for name, table in tables.items():
            known = {table.key[0]: message_id} | named if table.by_request else named
            key = {attribute: known.get(attribute) for attribute in table.key}
            if name in asked or not all(
                isinstance(each, str | int | Decimal | bytes) and each != "" for each in key.values()
            ):
                continue
            asked.add(name)
            if found := row(name, outputs.tables[name], key, table.attributes):
                rows[name] = found
                named = {**found, **named}
    malformed_lines: list[Malformed] = []
    dead_letters, needed = forecast_all(target, about=message_id)
    return Inspection(
        message_id,
        ledger,
        dict(sorted(rows.items(), key=lambda found: found[0])),
        accepted=[
            line
            for line in read_archive(target.archive, target.identity)
            if message_id in (line.request.message_id, *line.sqs_message_ids)
        ],
        deliveries=list(valid_deliveries(target, malformed_lines, mentioning=message_id)),
        dead_letters=dead_letters,
        now_ms=target.surroundings.now_ms(),
        malformed_lines=malformed_lines,
        missing=list(dict.fromkeys([*missing, *needed])),
        declaration=target.declaration,
        changes=list(changes(target, message_id)),
    )


def format_outcome(declaration: Declaration, outcome: str, about: Mapping[str, Any]) -> str:
    """Return an outcome as a sentence; `about` is the recorded result, or a row with the same attributes."""
    known = declaration.outcomes.get(outcome)
    if known is None or not known.sentence:
        return f"Complete: {outcome}."
    return known.sentence.format_map(defaultdict(lambda: "None", {name: str(value) for name, value in about.items()}))
