"""Our laws, checked in every state, at every write and at the end of every invocation.

The invariants of `appointments.invariants` that judge stored state are checked unchanged, in every state. Those about calls
and schedules are here, under the same names.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from demo.declared import CONSUMER
from lab.explore.practice import APPOINTMENTS, LEDGER, PATIENTS, SLOTS, claims_of, dead_letters
from oneslot.explorer.execution.process import HandlerEnd
from oneslot.explorer.laws import Laws
from oneslot.explorer.renaming import is_id_of
from oneslot.explorer.world import ApiCall, SqsMessage, World
from oneslot.runtime.protocol import COMPLETE, IN_PROGRESS
from oneslot.runtime.record import IDENTITY_ATTRIBUTE

UNFINISHED = ("failed", "busy", "fenced")


class OurLaws(Laws):
    """The laws of our handler: those of stored state, and those of the explorer."""

    def in_state(self, world: World, waiting: Collection[str], requests: Collection[str], now: int) -> Iterator[str]:
        """See `Laws`."""
        evidence = CONSUMER.evidence(
            requests=requests,
            ledger=world.by(LEDGER, "message_id"),
            slots=world.by(SLOTS, "practice", "slot_id"),
            appointments=world.by(APPOINTMENTS, "appointment_id"),
            quarantined=quarantined(world),
            waiting=waiting,
            now=now,
        )
        for breach in CONSUMER.check(evidence):
            yield f"{breach.invariant} {breach.subject}: {breach.detail}"
        claims = claims_of(world)
        for message_id, row in evidence.ledger.items():
            count, granted = row.get("consumption_count"), claims[message_id]
            if count != granted:
                yield f"I10 {message_id}: consumption_count {count}, claims granted {granted}"
        yield from _personal_data(world)

    def at_write(self, before: World, after: World, request: ApiCall, now: int, sender: str | None) -> Iterator[str]:
        """See `Laws`. A row's owner is its writer rather than its `claimed_by`, because two writers may use one value."""
        rows, earlier = after.by(LEDGER, "message_id"), before.by(LEDGER, "message_id")
        for message_id, row in rows.items():
            claimed_by = row.get("claimed_by")
            if claimed_by != earlier.get(message_id, {}).get("claimed_by") and not is_id_of(sender, claimed_by):
                yield f"E2 {message_id}: claimed with a `claimed_by` that is not its claimer's own"
        for message_id, row in earlier.items():
            then = rows.get(message_id, {})
            if then == row:
                continue
            if row.get("status") == COMPLETE:
                yield f"I6 {message_id}: COMPLETE reverted, changed or disappeared"
            if then and then.get("payload_hash") != row.get("payload_hash"):
                yield f"I7 {message_id}: its row was given to other content"
            if row.get("status") == IN_PROGRESS and row.get("lease_until", 0) >= now:
                owner = row.get("claimed_by")
                if then.get("claimed_by") != owner:
                    yield f"E2 {message_id}: taken over while its lease was live"
                elif not is_id_of(sender, owner) or (then.get("status") == IN_PROGRESS and _fence(request) != owner):
                    yield f"E2 {message_id}: its live lease was changed by another than its owner"

    def at_end(self, world: World, messages: Sequence[SqsMessage], outcome: HandlerEnd) -> Iterator[str]:
        """See `Laws`."""
        if outcome.error == "endless":
            yield "I9: the invocation makes call after call and never ends"
        if any(_names_patient(line) for line in outcome.lines):
            yield "L1: an NHS number in the delivery log"
        if any(_names_patient(line) for line in outcome.logged):
            yield "L1: an NHS number in a line of a logger"
        if _names_patient(outcome.error or ""):
            yield "L1: an NHS number in the exception, which Lambda logs"
        if outcome.error is not None:
            return
        lines = {line["sqs_message_id"]: line for line in map(json.loads, outcome.lines)}
        for message in messages:
            line = lines.get(message.sqs_id)
            if message.sqs_id not in outcome.failed:
                yield from self._acknowledged(world, message, line)

    def _acknowledged(self, world: World, message: SqsMessage, line: Mapping[str, Any] | None) -> Iterator[str]:
        if line is None or line["outcome"] in UNFINISHED:
            yield f"I8 {message.message_id}: acknowledged after {line['outcome'] if line else 'nothing'}"
            return
        if line["outcome"] == "quarantined":
            if not any(letter["MessageBody"] == message.body for letter in dead_letters(world)):
                yield f"I2 {message.message_id}: acknowledged as quarantined, and not in the dead-letter queue"
            return
        row = world.by(LEDGER, "message_id").get(message.message_id, {})
        appointment = world.by(APPOINTMENTS, "appointment_id").get(message.message_id, {})
        if appointment.get("payload_hash") not in (None, _content(message.body)):
            yield f"I2 {message.message_id}: acknowledged, and its appointment is for other content"
        if different := ", ".join(_differences(appointment, json.loads(message.body))):
            yield f"I2 {message.message_id}: acknowledged, and its appointment differs from the request: {different}"
        if row.get("status") != COMPLETE:
            yield f"I2 {message.message_id}: acknowledged, and its row is not COMPLETE"
        elif row.get("payload_hash") != _content(message.body):
            yield f"I2 {message.message_id}: acknowledged with the answer to other content"
        elif line["answer"] != _digest(json.loads(row.get("result", "null"))):
            yield f"I7 {message.message_id}: its delivery was given another answer than the recorded one"
        elif line["claimed_by"] != row.get("claimed_by"):
            yield f"I7 {message.message_id}: its delivery names another winner than the row"
        elif line["message_id"] != message.message_id:
            yield f"I7 {message.message_id}: its delivery is logged as one of {line['message_id']}"
        elif line["outcome"] not in ("duplicate", json.loads(row["result"])["outcome"]):
            yield f"I7 {message.message_id}: its delivery came to {line['outcome']}, which is not what the row keeps"

    def at_last(self, world: World, wanted: Sequence[str]) -> Iterator[str]:
        """See `Laws`."""
        found = appointments_and_slots(world)
        if found != sorted(wanted):
            yield f"I2 in the end: {', '.join(found) or 'nothing'} instead of {', '.join(sorted(wanted)) or 'nothing'}"

    def of_duplicate(
        self, before: World, message: SqsMessage, calls: Sequence[ApiCall], outcome: HandlerEnd
    ) -> Iterator[str]:
        """See `Laws`."""
        if before.by(LEDGER, "message_id").get(message.message_id, {}).get("status") != COMPLETE:
            return
        for line in map(json.loads, outcome.lines):
            if line["outcome"] not in ("duplicate", "quarantined"):
                yield f"I7 {message.message_id}: a duplicate of a finished request came to {line['outcome']}"
            if line["outcome"] == "duplicate" and len(calls) != 1:
                yield f"E3 {message.message_id}: a duplicate of a finished request cost {len(calls)} calls"


def appointments_and_slots(world: World) -> list[str]:
    """Return the statuses of all appointments and slots, sorted: "booked", "busy", "free", ..."""
    return sorted(str(row["status"]) for table in (APPOINTMENTS, SLOTS) for row in world.rows[table].values())


def quarantined(world: World) -> set[str]:
    """Return the ids of the messages in the dead-letter queue. A body without an id counts as its own id."""
    identities = set()
    for letter in dead_letters(world):
        attribute = letter["MessageAttributes"].get(IDENTITY_ATTRIBUTE, {}).get("StringValue")
        try:
            body = json.loads(letter["MessageBody"])
        except ValueError:
            body = {}
        identities.add(attribute or body.get("message_id") or letter["MessageBody"])
    return identities


def _digest(result: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]


def _content(body: str) -> str:
    """Return the ledger's digest of a content: SHA-256 of canonical JSON."""
    canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _differences(appointment: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields in which an appointment differs from the booking that made it, if one did."""
    if appointment.get("practice"):
        for name in ("practice", "nhs_number", "delivery_channel", "service_type"):
            if appointment.get(name) != request.get(name):
                yield name
        if "start" in appointment and not request["not_before"] <= appointment["start"] < request["not_after"]:
            yield "start"


def _fence(request: ApiCall) -> str:
    """Return the `claimed_by` that a request writes under; empty if it has none."""
    _, parameters = request.parts
    fence: dict[str, str] = parameters.get("ExpressionAttributeValues", {}).get(":claimed_by", {})
    return fence.get("S", "")


def _personal_data(world: World) -> Iterator[str]:
    """Yield the places with an NHS number, which may stand only in an appointment's attribute and in a body."""
    for letter in dead_letters(world):
        if _names_patient(json.dumps(letter["MessageAttributes"])):
            yield "L1: an NHS number in a dead letter's attributes"
    for table in (LEDGER, SLOTS):
        if any(_names_patient(json.dumps(row)) for row in world.rows[table].values()):
            yield f"L1: an NHS number in the table {table}"


def _names_patient(text: str) -> bool:
    # The known numbers rather than any with a valid check digit, because every eleventh time in seconds is one.
    return any(patient in text for patient in PATIENTS)
