"""What must hold, checked in every state, at every write and whenever an invocation ends.

Those of `appointments.invariants` that look at what is left are asked as they stand, in every single state. The others, which
speak of calls and schedules, are here, under the same names.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from appointments.invariants import Evidence, check
from appointments.statuses import COMPLETE, IN_PROGRESS
from oneslot.explorer.process import Outcome
from oneslot.explorer.renaming import is_id_of
from oneslot.explorer.world import LEDGER, Request, Services, World, error_text
from oneslot.runtime.identity import IDENTITY_ATTRIBUTE
from verification.scenarios.messages import PATIENTS, SqsMessage

UNFINISHED = ("failed", "busy", "fenced")
UNREADABLE = "unreadable"
"""In place of a law's name: something is there, or is asked of the services, that nobody has words for."""


class Laws(Protocol):
    """The invariants that a subject of the prover is held to. Each answer is a sentence that starts with a law's name."""

    def in_state(self, world: World, waiting: Collection[str], requests: Collection[str], now: int) -> Iterator[str]:
        """Breaches in one state; `waiting` are the requests of which the queue still holds a message."""

    def at_write(self, before: World, after: World, request: Request, now: int, sender: str | None) -> Iterator[str]:
        """Breaches by one write; `sender` is the name of the delivery that sent it, None if it lands late."""

    def at_end(self, world: World, messages: Sequence[SqsMessage], outcome: Outcome) -> Iterator[str]:
        """Breaches by one invocation that has ended with this outcome, for the messages of its batch."""

    def at_last(self, world: World, wanted: Sequence[str]) -> Iterator[str]:
        """Breaches by what is there when everything is over; `wanted` as `appointments_and_slots` tells it."""

    def of_duplicate(
        self, before: World, message: SqsMessage, calls: Sequence[Request], outcome: Outcome
    ) -> Iterator[str]:
        """Breaches by a duplicate that is delivered when everything is over, in the world `before`."""


def law_name(breach: str) -> str:
    """The law that a sentence of `Laws` speaks of."""
    return breach.split(" ", 1)[0].rstrip(":")


def asked(breaches: Iterator[str]) -> Iterator[str]:
    """The same; and an error on the way, as of a row without its attributes, is a breach itself.

    It has a path like any other, and the figures of everything else are not lost by it.
    """
    try:
        yield from breaches
    except Exception as error:
        yield unreadable(error)


def unreadable(error: Exception) -> str:
    """The breach that an error in the laws or in the services is."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{UNREADABLE}: {type(error).__name__} in {at.name}: {error}"


def performed(
    services: Services,
    laws: Laws,
    before: World,
    request: Request,
    *,
    now: int,
    sender: str | None,
    conflict: int | None = None,
) -> tuple[World, str, tuple[str, ...]]:
    """The world after a request, what its caller sees, and the breaches by the write."""
    try:
        after, observation = services(before, request, now, conflict)
    except Exception as error:  # DynamoDB would refuse it, too
        return before, error_text({"Error": {"Code": "ValidationException", "Message": ""}}), (unreadable(error),)
    if after == before:
        return before, observation, ()
    return after, observation, tuple(asked(laws.at_write(before, after, request, now, sender)))


class OurLaws:
    """All of them."""

    def in_state(self, world: World, waiting: Collection[str], requests: Collection[str], now: int) -> Iterator[str]:
        """See `Laws`."""
        evidence = Evidence(
            requests=requests,
            ledger=world.by(LEDGER, "message_id"),
            slots=world.by("slots", "practice", "slot_id"),
            appointments=world.by("appointments", "appointment_id"),
            quarantined=quarantined(world),
            waiting=waiting,
            now=now,
        )
        for breach in check(evidence):
            yield f"{breach.invariant} {breach.subject}: {breach.detail}"
        for message_id, row in evidence.ledger.items():
            count, granted = row.get("consumption_count"), world.claims.get(message_id, 0)
            if count != granted:
                yield f"I10 {message_id}: consumption_count {count}, claims granted {granted}"
        yield from _personal_data(world)

    def at_write(self, before: World, after: World, request: Request, now: int, sender: str | None) -> Iterator[str]:
        """See `Laws`. Who owns a row is known by who wrote it, not by what it wrote: two may give the same name."""
        rows, earlier = after.by(LEDGER, "message_id"), before.by(LEDGER, "message_id")
        for message_id, row in rows.items():
            claimed_by = row.get("claimed_by")
            if claimed_by != earlier.get(message_id, {}).get("claimed_by") and not is_id_of(sender, claimed_by):
                yield f"E2 {message_id}: claimed in a name that is not its claimer's own"
        for message_id, row in earlier.items():
            then = rows.get(message_id, {})
            if then == row:
                continue
            if row.get("status") == COMPLETE:
                yield f"I6 {message_id}: COMPLETE reverted, changed or disappeared"
            if then and then.get("payload_hash") != row.get("payload_hash"):
                yield f"I7 {message_id}: its row was given to another content"
            if row.get("status") == IN_PROGRESS and row.get("lease_until", 0) >= now:
                owner = row.get("claimed_by")
                if then.get("claimed_by") != owner:
                    yield f"E2 {message_id}: taken over while its lease was live"
                elif not is_id_of(sender, owner) or (then.get("status") == IN_PROGRESS and _fence(request) != owner):
                    yield f"E2 {message_id}: its live lease was changed by another than its owner"

    def at_end(self, world: World, messages: Sequence[SqsMessage], outcome: Outcome) -> Iterator[str]:
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
            if not any(letter["MessageBody"] == message.body for letter in world.dead_letters):
                yield f"I2 {message.message_id}: acknowledged as quarantined, and not in the dead-letter queue"
            return
        row = world.by(LEDGER, "message_id").get(message.message_id, {})
        made = world.by("appointments", "appointment_id").get(message.message_id, {})
        if made.get("payload_hash") not in (None, _content(message.body)):
            yield f"I2 {message.message_id}: acknowledged, and its appointment was made for another content"
        if different := ", ".join(_not_as_asked(made, json.loads(message.body))):
            yield f"I2 {message.message_id}: acknowledged, and its appointment is not as it asked: {different}"
        if row.get("status") != COMPLETE:
            yield f"I2 {message.message_id}: acknowledged, and its row is not COMPLETE"
        elif row.get("payload_hash") != _content(message.body):
            yield f"I2 {message.message_id}: acknowledged with the answer to another content"
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
        self, before: World, message: SqsMessage, calls: Sequence[Request], outcome: Outcome
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
    """How appointments and slots stand, in the alphabet's order: "booked", "busy", "free", ..."""
    return sorted(str(row["status"]) for table in ("appointments", "slots") for row in world.rows[table].values())


def quarantined(world: World) -> set[str]:
    """The identities of what is in the dead-letter queue; a body without one counts as itself."""
    identities = set()
    for letter in world.dead_letters:
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
    """The digest by which the ledger knows a content: SHA-256 of canonical JSON."""
    canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _not_as_asked(appointment: Mapping[str, Any], asked_for: Mapping[str, Any]) -> Iterator[str]:
    """Where an appointment differs from the booking in this body; nowhere if no booking made it."""
    if appointment.get("practice"):
        for name in ("practice", "nhs_number", "delivery_channel", "service_type"):
            if appointment.get(name) != asked_for.get(name):
                yield name
        if "start" in appointment and not asked_for["not_before"] <= appointment["start"] < asked_for["not_after"]:
            yield "start"


def _fence(request: Request) -> str:
    """The claim in whose name a request writes; empty if it names none."""
    _, parameters = request.parts
    fence: dict[str, str] = parameters.get("ExpressionAttributeValues", {}).get(":claimed_by", {})
    return fence.get("S", "")


def _personal_data(world: World) -> Iterator[str]:
    """An NHS number belongs into the appointment's own attribute and into a body, and nowhere else."""
    for letter in world.dead_letters:
        if _names_patient(json.dumps(letter["MessageAttributes"])):
            yield "L1: an NHS number in a dead letter's attributes"
    for table in (LEDGER, "slots"):
        if any(_names_patient(json.dumps(row)) for row in world.rows[table].values()):
            yield f"L1: an NHS number in the table {table}"


def _names_patient(text: str) -> bool:
    # The known numbers, not "any number with a valid check digit": every eleventh time in seconds is one.
    return any(patient in text for patient in PATIENTS)
