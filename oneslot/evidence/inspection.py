"""Everything that is known about one request, as a timeline. The patient's number stays masked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from appointments.invariants import Evidence, result_of
from appointments.statuses import CANCELLED, COMPLETE
from oneslot.evidence.deliveries import sound_deliveries
from oneslot.evidence.missing import Missing, unless_missing
from oneslot.evidence.scanning import APPOINTMENTS, LEDGER, SLOTS, projection
from oneslot.evidence.stack_dead_letters import letters_of
from oneslot.evidence.unusable import Table, Unusable, is_moment, unusable_in_ledger_row, unusable_of
from oneslot.repair.ledger_row import Standing, standing
from oneslot.runtime.sqs.dead_letters import DeadLetter
from oneslot.runtime.stores.expressions import from_attributes
from oneslot.sending.archive import AcceptedRequest, read_archive
from oneslot.target import Target

MASKED = "*** *** ****"


@dataclass(frozen=True)
class Inspection:
    """What each place knows of a message id, or of an SQS message id; None or empty where it knows nothing.

    `missing`: tables that had to be asked and are not there.
    """

    message_id: str
    ledger: dict[str, Any] | None
    appointment: dict[str, Any] | None
    slot: dict[str, Any] | None
    accepted: list[AcceptedRequest]
    deliveries: list[dict[str, Any]]
    dead_letters: list[DeadLetter]
    unusable_lines: list[Unusable] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    @property
    def unusable(self) -> list[Unusable]:
        """What the rows and the log's lines about it lack."""
        appointments = {self.appointment["appointment_id"]: self.appointment} if self.appointment else {}
        slots = {(self.slot["practice"], self.slot["slot_id"]): self.slot} if self.slot else {}
        return [
            *(unusable_in_ledger_row(self.ledger) if self.ledger else ()),
            *unusable_of(Evidence(appointments=appointments, slots=slots)),
            *self.unusable_lines,
        ]

    @property
    def known(self) -> bool:
        """Whether anything knows it."""
        return any(
            (self.ledger, self.appointment, self.accepted, self.deliveries, self.dead_letters, self.unusable_lines)
        )

    def document(self) -> dict[str, Any]:
        """The inspection as JSON."""
        return {
            "message_id": self.message_id,
            "summary": self.summary(),
            "ledger": self.ledger and {**self.ledger, "result": result_of(self.ledger) or None},
            "appointment": self.appointment,
            "slot": self.slot,
            "accepted": [asdict(line) for line in self.accepted],
            "deliveries": self.deliveries,
            "dead_letters": [asdict(letter) for letter in self.dead_letters],
            "timeline": [{"at": at, "what": what} for at, what in self.timeline()],
            "unusable": [asdict(one) for one in self.unusable],
            "missing": [asdict(one) for one in self.missing],
        }

    def summary(self) -> str:
        """One sentence: what became of it."""
        complete = self.ledger is not None and self.ledger.get("status") == COMPLETE
        if self.ledger is not None and complete and not unusable_in_ledger_row(self.ledger):
            return self._with_letters(self._answered(result_of(self.ledger)))
        if not complete and self.appointment is not None and self.appointment.get("practice"):
            told = _outcome_told(str(self.appointment.get("status")), self.appointment)
            gone = any(each.table == "ledger" for each in self.missing)
            silent = "is missing" if gone else "does not say so any more"
            return self._with_letters(f"{told} The ledger {silent}: the appointment stands for it.")
        return self._unfinished(complete)

    def _answered(self, result: Mapping[str, Any]) -> str:
        outcome = str(result.get("outcome"))
        sentence = _outcome_told(outcome, result)
        if outcome in ("booked", "waitlist") and self.appointment and self.appointment.get("status") == CANCELLED:
            sentence += f" Cancelled since, by {self.appointment.get('cancelled_by')}."
        return sentence

    def _unfinished(self, complete: bool) -> str:
        if self.dead_letters and not complete:
            return f"Quarantined: {self.dead_letters[0].reason}."
        if self.ledger is None and (asked := [each for each in self.missing if each.table != "slots"]):
            return f"Nobody can tell: {asked[0]}."
        if self.ledger is None:
            return "Accepted by the queue, and not consumed yet." if self.accepted else "Not answered."
        if unusable := unusable_in_ledger_row(self.ledger):
            return f"Nobody can tell: {unusable[0]}."
        if standing(self.ledger, time.time_ns() // 1_000_000) is Standing.STUCK:
            return (
                "Begun and not finished; its lease is over, so the next delivery takes it over. If no queue holds a copy, have "
                "its producer send it again with the same message_id."
            )
        return "In progress: a consumer has it, or will have it again when its lease ends."

    def _with_letters(self, sentence: str) -> str:
        if not self.dead_letters:
            return sentence
        return f"{sentence} Another message with this id is quarantined: {self.dead_letters[0].reason}."

    def timeline(self) -> list[tuple[int, str]]:
        """What happened, each with its time (epoch ms), oldest first."""
        return sorted(self._events(), key=lambda event: event[0])

    def _events(self) -> Iterator[tuple[int, str]]:
        for line in self.accepted:
            copies = "1 copy" if len(line.sqs_message_ids) == 1 else f"{len(line.sqs_message_ids)} copies"
            fault = f", malformed: {line.request.fault}" if line.request.fault else ""
            yield line.sent, f"sent with `oneslot send`, accepted by the queue: {copies}{fault}"
        for sqs_message_id, sent in {
            attempt.get("sqs_message_id"): attempt["sent"] for attempt in self.deliveries
        }.items():
            yield sent, f"in the queue as {sqs_message_id or 'nobody knows what'}"
        for attempt in self.deliveries:
            reason = f" ({attempt['reason']})" if attempt.get("reason") else ""
            yield (
                attempt["finished"],
                f"delivery {attempt.get('receive_count', '?')} of {(attempt.get('sqs_message_id') or '?')[:8]}: "
                f"{attempt['outcome']}{reason}, {attempt.get('attempt_ms', '?')} ms",
            )
        for letter in self.dead_letters:
            yield letter.sent, f"in the dead-letter queue: {letter.reason}: {letter.detail}"
        cancelled = self.appointment is not None and self.appointment.get("status") == CANCELLED
        if self.appointment and cancelled and is_moment(self.appointment.get("updated")):
            yield self.appointment["updated"], f"appointment cancelled by {self.appointment.get('cancelled_by')}"


def inspect(target: Target, message_id: str) -> Inspection:
    """Ask every place. An SQS message id is known to the delivery log, the archive and the dead-letter queue only."""
    outputs = target.outputs
    missing: list[Missing] = []

    def row(table: Table, name: str, key: Mapping[str, Any], attributes: tuple[str, ...]) -> dict[str, Any] | None:
        found = unless_missing(lambda: _get(target, name, key, attributes), table, name)
        if not isinstance(found, Missing):
            return found
        missing.append(found)
        return None

    ledger = row("ledger", outputs.ledger_table_name, {"message_id": message_id}, LEDGER)
    answered = result_of(ledger).get("appointment_id") if ledger else None
    answered = answered if isinstance(answered, str) and answered else message_id
    made = outputs.appointments_table_name
    appointment = row("appointments", made, {"appointment_id": answered}, APPOINTMENTS)
    slot = None
    if appointment is not None:
        if appointment.get("practice"):
            appointment["nhs_number"] = MASKED
        key = {name: appointment.get(name) for name in ("practice", "slot_id")}
        if all(isinstance(value, str) and value for value in key.values()):
            slot = row("slots", outputs.slots_table_name, key, SLOTS)
    unusable_lines: list[Unusable] = []
    return Inspection(
        message_id,
        ledger,
        appointment,
        slot,
        accepted=[line for line in read_archive(target.archive, target.identity) if _speaks_of(line, message_id)],
        deliveries=list(sound_deliveries(target, unusable_lines, mentioning=message_id)),
        dead_letters=[letter for letter in letters_of(target) if letter.answers_to(message_id)],
        unusable_lines=unusable_lines,
        missing=missing,
    )


def _speaks_of(line: AcceptedRequest, message_id: str) -> bool:
    return message_id == line.request.message_id or message_id in line.sqs_message_ids


def _get(target: Target, table: str, key: Mapping[str, Any], attributes: tuple[str, ...]) -> dict[str, Any] | None:
    answer = target.dynamodb.get_item(
        TableName=table,
        Key={name: {"S": value} for name, value in key.items()},
        ConsistentRead=True,
        **projection(attributes),
    )
    return from_attributes(answer["Item"]) if "Item" in answer else None


def _outcome_told(outcome: str, about: Mapping[str, Any]) -> str:
    """An outcome in a sentence; `about` is the result that says more, or the appointment."""
    return {
        "booked": f"Booked: {about.get('practice')}, slot {about.get('slot_id')}, {about.get('start')}.",
        "waitlist": f"On the waitlist of {about.get('practice')}: no slot was free in its window.",
        "cancelled": f"Cancelled: appointment {about.get('appointment_id')}.",
        "refused": f"Refused: {about.get('reason')}.",
    }.get(outcome, f"Complete: {outcome}.")
