"""Everything that the evidence knows about one request, as a timeline. The patient's number is masked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from oneslot.application import CANCELLED, COMPLETE, Evidence, result_of
from oneslot.evidence.dead_letters import list_dead_letters
from oneslot.evidence.deliveries import valid_deliveries
from oneslot.evidence.malformed import (
    Malformed,
    Standing,
    is_epoch_ms,
    malformed_evidence,
    malformed_ledger_row,
    standing,
)
from oneslot.evidence.tables import APPOINTMENTS, LEDGER, SLOTS, Missing, Table, read_row, unless_missing
from oneslot.runtime.sqs.dead_letters import DeadLetter
from oneslot.sending.archive import AcceptedRequest, read_archive
from oneslot.target import Target

MASKED = "*** *** ****"


@dataclass(frozen=True)
class Inspection:
    """The evidence about one message id, or one SQS message id; None or empty where there is none.

    `missing`: missing tables that may have had a row about it.
    """

    message_id: str
    ledger: dict[str, Any] | None
    appointment: dict[str, Any] | None
    slot: dict[str, Any] | None
    accepted: list[AcceptedRequest]
    deliveries: list[dict[str, Any]]
    dead_letters: list[DeadLetter]
    malformed_lines: list[Malformed] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    @property
    def malformed(self) -> list[Malformed]:
        """The malformed attributes of the rows and the log lines about it."""
        appointments = {self.appointment["appointment_id"]: self.appointment} if self.appointment else {}
        slots = {(self.slot["practice"], self.slot["slot_id"]): self.slot} if self.slot else {}
        return [
            *(malformed_ledger_row(self.ledger) if self.ledger else ()),
            *malformed_evidence(Evidence(appointments=appointments, slots=slots)),
            *self.malformed_lines,
        ]

    @property
    def known(self) -> bool:
        """Return whether there is any evidence about it."""
        return any(
            (self.ledger, self.appointment, self.accepted, self.deliveries, self.dead_letters, self.malformed_lines)
        )

    def document(self) -> dict[str, Any]:
        """Return the inspection as JSON."""
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
            "malformed": [asdict(one) for one in self.malformed],
            "missing": [asdict(one) for one in self.missing],
        }

    def summary(self) -> str:
        """Return its outcome as a sentence."""
        complete = self.ledger is not None and self.ledger.get("status") == COMPLETE
        if self.ledger is not None and complete and not malformed_ledger_row(self.ledger):
            return self._with_letters(self._answered(result_of(self.ledger)))
        if not complete and self.appointment is not None and self.appointment.get("practice"):
            sentence = _format_outcome(str(self.appointment.get("status")), self.appointment)
            gone = any(each.table == "ledger" for each in self.missing)
            why = "is missing" if gone else "has no complete row of it"
            return self._with_letters(f"{sentence} The ledger {why}; the appointment shows the answer.")
        return self._unfinished(complete)

    def _answered(self, result: Mapping[str, Any]) -> str:
        outcome = str(result.get("outcome"))
        sentence = _format_outcome(outcome, result)
        if outcome in ("booked", "waitlist") and self.appointment and self.appointment.get("status") == CANCELLED:
            sentence += f" Cancelled since, by {self.appointment.get('cancelled_by')}."
        return sentence

    def _unfinished(self, complete: bool) -> str:
        if self.dead_letters and not complete:
            return f"Quarantined: {self.dead_letters[0].reason}."
        if self.ledger is None and (asked := [each for each in self.missing if each.table != "slots"]):
            return f"Unknown: {asked[0]}."
        if self.ledger is None:
            return "Accepted by the queue, and not consumed yet." if self.accepted else "Not answered."
        if malformed := malformed_ledger_row(self.ledger):
            return f"Unknown: {malformed[0]}."
        if standing(self.ledger, time.time_ns() // 1_000_000) is Standing.STUCK:
            return (
                "Begun and not finished. Its lease has expired, so the next delivery takes it over; if no queue holds a copy, "
                "have its producer send it again with the same message_id."
            )
        return "In progress: a consumer holds its lease."

    def _with_letters(self, sentence: str) -> str:
        if not self.dead_letters:
            return sentence
        return f"{sentence} Another message with this id is quarantined: {self.dead_letters[0].reason}."

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
            reason = f" ({attempt['reason']})" if attempt.get("reason") else ""
            yield (
                attempt["finished"],
                f"delivery {attempt.get('receive_count', '?')} of {(attempt.get('sqs_message_id') or '?')[:8]}: "
                f"{attempt['outcome']}{reason}, {attempt.get('attempt_ms', '?')} ms",
            )
        for letter in self.dead_letters:
            yield letter.sent, f"in the dead-letter queue: {letter.reason}: {letter.detail}"
        cancelled = self.appointment is not None and self.appointment.get("status") == CANCELLED
        if self.appointment and cancelled and is_epoch_ms(self.appointment.get("updated")):
            yield self.appointment["updated"], f"appointment cancelled by {self.appointment.get('cancelled_by')}"


def inspect(target: Target, message_id: str) -> Inspection:
    """Look the id up everywhere. An SQS message id is in the delivery log, the archive and the dead-letter queue only."""
    outputs = target.outputs
    missing: list[Missing] = []

    def row(table: Table, name: str, key: Mapping[str, str], attributes: tuple[str, ...]) -> dict[str, Any] | None:
        found = unless_missing(lambda: read_row(target.dynamodb, name, key, attributes), table, name)
        if not isinstance(found, Missing):
            return found
        missing.append(found)
        return None

    ledger = row("ledger", outputs.ledger_table_name, {"message_id": message_id}, LEDGER)
    answered = result_of(ledger).get("appointment_id") if ledger else None
    answered = answered if isinstance(answered, str) and answered else message_id
    appointment = row("appointments", outputs.appointments_table_name, {"appointment_id": answered}, APPOINTMENTS)
    slot = None
    if appointment is not None:
        if appointment.get("practice"):
            appointment["nhs_number"] = MASKED
        place = {name: appointment.get(name) for name in ("practice", "slot_id")}
        key = {name: value for name, value in place.items() if isinstance(value, str) and value}
        if key.keys() == place.keys():
            slot = row("slots", outputs.slots_table_name, key, SLOTS)
    malformed_lines: list[Malformed] = []
    return Inspection(
        message_id,
        ledger,
        appointment,
        slot,
        accepted=[line for line in read_archive(target.archive, target.identity) if _is_about(line, message_id)],
        deliveries=list(valid_deliveries(target, malformed_lines, mentioning=message_id)),
        dead_letters=[letter for letter in list_dead_letters(target) if letter.answers_to(message_id)],
        malformed_lines=malformed_lines,
        missing=missing,
    )


def _is_about(line: AcceptedRequest, message_id: str) -> bool:
    return message_id == line.request.message_id or message_id in line.sqs_message_ids


def _format_outcome(outcome: str, about: Mapping[str, Any]) -> str:
    """Return an outcome as a sentence; `about` is the recorded result, or the appointment."""
    return {
        "booked": f"Booked: {about.get('practice')}, slot {about.get('slot_id')}, {about.get('start')}.",
        "waitlist": f"On the waitlist of {about.get('practice')}: no slot was free in its window.",
        "cancelled": f"Cancelled: appointment {about.get('appointment_id')}.",
        "refused": f"Refused: {about.get('reason')}.",
    }.get(outcome, f"Complete: {outcome}.")
