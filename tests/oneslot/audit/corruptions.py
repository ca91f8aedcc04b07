"""Ways to corrupt a correct history. Each returns the invariant that it must break, and the subject.

Each changes requests that no other touches, so that all can be sown into one history.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from appointments.allocation import free_key
from tests.kits.histories import MINUTE, Item, System, World

Breach = tuple[str, str]


@dataclass
class Picker:
    """Picks untouched requests and slots of a world to corrupt."""

    world: World
    random: random.Random
    touched: set[str] = field(default_factory=set)

    def booked(self) -> Item:
        """Return an untouched booked appointment of an untouched, once-claimed request."""
        found = [
            item
            for item in self.world.appointments.values()
            if item["status"] == "booked" and item["appointment_id"] not in self.touched
        ]
        item = self.random.choice(found)
        self.touched.add(item["appointment_id"])
        return item

    def complete(self, outcome: str) -> Item:
        """Return an untouched COMPLETE row with this outcome, about the request's own appointment."""
        found = [
            row
            for row in self.world.ledger.values()
            if row["status"] == "COMPLETE" and row["message_id"] not in self.touched and self._is(row, outcome)
        ]
        row = self.random.choice(found)
        self.touched.add(row["message_id"])
        return row

    def _is(self, row: Item, outcome: str) -> bool:
        result = json.loads(row["result"])
        appointment = self.world.appointments.get(row["message_id"], {})
        wanted = {"booked": "booked", "waitlist": "waitlist"}.get(outcome)
        return bool(result["outcome"] == outcome and (wanted is None or appointment.get("status") == wanted))

    def free_slot(self) -> Item:
        """Return an untouched free slot."""
        found = [
            slot
            for slot in self.world.slots.values()
            if slot["status"] == "free" and slot["practice"] + slot["slot_id"] not in self.touched
        ]
        slot = self.random.choice(found)
        self.touched.add(slot["practice"] + slot["slot_id"])
        return slot

    def slot_of(self, appointment: Item) -> Item:
        """Return the slot that an appointment holds."""
        return self.world.slots[appointment["practice"], appointment["slot_id"]]


def _name(slot: Item) -> str:
    return f"{slot['practice']}/{slot['slot_id']}"


def _take(slot: Item, holder: str) -> None:
    slot |= {"status": "busy", "appointment_id": holder}
    del slot["free_key"]


def _free(slot: Item) -> None:
    slot |= {"status": "free", "free_key": free_key(slot)}
    del slot["appointment_id"]


def _reopen(pick: Picker) -> Item:
    row = pick.complete("waitlist")
    row |= {"status": "IN_PROGRESS", "lease_until": pick.world.now + MINUTE}
    del row["result"]
    return row


def _record(row: Item, outcome: str, appointment_id: str) -> tuple[str, str]:
    row["result"] = json.dumps({"outcome": outcome, "appointment_id": appointment_id, "reason": "window_passed"})
    return "I5", row["message_id"]


def second_slot(pick: Picker) -> Breach:
    """Give a request two slots: the plain double booking."""
    appointment, slot = pick.booked(), pick.free_slot()
    _take(slot, appointment["appointment_id"])
    return "I1", appointment["appointment_id"]


def two_on_one_slot(pick: Picker) -> Breach:
    """Book two appointments on one slot."""
    first, second = pick.booked(), pick.complete("waitlist")
    taken = {name: first[name] for name in ("practice", "slot_id", "start", "end")}
    pick.world.appointments[second["message_id"]] |= {"status": "booked", **taken}
    return "I3", f"{first['practice']}/{first['slot_id']}"


def busy_without_holder(pick: Picker) -> Breach:
    """Make a slot busy for an appointment that does not exist."""
    slot = pick.free_slot()
    _take(slot, f"unknown-{slot['slot_id']}")
    return "I4", _name(slot)


def slot_freed_under_appointment(pick: Picker) -> Breach:
    """Free the slot of a booked appointment."""
    appointment = pick.booked()
    _free(pick.slot_of(appointment))
    return "I4", appointment["appointment_id"]


def free_slot_names_appointment(pick: Picker) -> Breach:
    """Let a free slot name an appointment."""
    slot = pick.free_slot()
    slot["appointment_id"] = f"unknown-{slot['slot_id']}"
    return "I4", _name(slot)


def free_slot_hidden(pick: Picker) -> Breach:
    """Remove a free slot's key, so that no booking finds it."""
    slot = pick.free_slot()
    del slot["free_key"]
    return "I4", _name(slot)


def free_slot_misnamed(pick: Picker) -> Breach:
    """Move a free slot without its key: it would be booked at the time in the key."""
    slot = pick.free_slot()
    slot["start"], slot["end"] = slot["end"], slot["start"]
    return "I4", _name(slot)


def cancelled_but_slot_busy(pick: Picker) -> Breach:
    """Cancel an appointment without freeing its slot."""
    appointment = pick.booked()
    appointment |= {"status": "cancelled", "cancelled_by": "x"}
    return "I4", f"{appointment['practice']}/{appointment['slot_id']}"


def slot_deleted(pick: Picker) -> Breach:
    """Delete the slot of a booked appointment."""
    appointment = pick.booked()
    del pick.world.slots[appointment["practice"], appointment["slot_id"]]
    return "I4", appointment["appointment_id"]


def booking_vanished(pick: Picker) -> Breach:
    """Delete the appointment of a COMPLETE booking."""
    appointment = pick.booked()
    _free(pick.slot_of(appointment))
    del pick.world.appointments[appointment["appointment_id"]]
    return "I5", appointment["appointment_id"]


def other_slot_than_recorded(pick: Picker) -> Breach:
    """Move an appointment to another slot than the recorded answer names."""
    appointment, slot = pick.booked(), pick.free_slot()
    _free(pick.slot_of(appointment))
    _take(slot, appointment["appointment_id"])
    appointment |= {name: slot[name] for name in ("practice", "slot_id", "start", "end")}
    return "I5", appointment["appointment_id"]


def waitlist_vanished(pick: Picker) -> Breach:
    """Delete the appointment of a COMPLETE row on the waitlist."""
    row = pick.complete("waitlist")
    del pick.world.appointments[row["message_id"]]
    return "I5", row["message_id"]


def cancellation_without_effect(pick: Picker) -> Breach:
    """Add a COMPLETE cancellation of an appointment that is booked."""
    appointment = pick.booked()
    row: Item = {"message_id": f"cancel-{appointment['appointment_id']}", "status": "COMPLETE", "consumption_count": 1}
    pick.world.ledger[row["message_id"]] = row | {"updated": pick.world.now}
    _record(pick.world.ledger[row["message_id"]], "cancelled", appointment["appointment_id"])
    return "I5", appointment["appointment_id"]


def refused_but_booked(pick: Picker) -> Breach:
    """Record a refusal for a request with an appointment."""
    row = pick.complete("waitlist")
    return _record(row, "refused", row["message_id"])


def result_unknown(pick: Picker) -> Breach:
    """Record an outcome that the system does not have."""
    row = pick.complete("booked")
    return _record(row, "mislaid", row["message_id"])


def row_deleted(pick: Picker) -> Breach:
    """Delete the ledger's row of a booked appointment before its time."""
    row = pick.complete("booked")
    del pick.world.ledger[row["message_id"]]
    return "I5r", row["message_id"]


def row_reverted(pick: Picker) -> Breach:
    """Set a COMPLETE row back to IN_PROGRESS."""
    return "I6", _reopen(pick)["message_id"]


def refusal_deleted(pick: Picker) -> Breach:
    """Delete the ledger's row of a refusal that was delivered."""
    row = pick.complete("refused")
    del pick.world.ledger[row["message_id"]]
    return "I6", row["message_id"]


def request_lost(pick: Picker) -> Breach:
    """Add an archived request without any other trace."""
    message_id = f"lost-{pick.random.getrandbits(32):x}"
    pick.world.accepted.append({"message_id": message_id, "sent": pick.world.now - MINUTE, "copies": 1})
    return "I2", message_id


def request_stuck(pick: Picker) -> Breach:
    """Add a request that was claimed once: its lease is over, and no queue has it."""
    message_id = f"stuck-{pick.random.getrandbits(32):x}"
    pick.world.accepted.append({"message_id": message_id, "sent": pick.world.now - MINUTE, "copies": 1})
    pick.world.ledger[message_id] = {
        "message_id": message_id,
        "status": "IN_PROGRESS",
        "consumption_count": 1,
        "updated": pick.world.now - MINUTE,
        "lease_until": pick.world.now - 1,
    }
    return "I9", message_id


def answers_differ(pick: Picker) -> Breach:
    """Give a duplicate another answer than the original."""
    return "I7", _deliver_again(pick, outcome="duplicate", answer="another")["message_id"]


def _deliver_again(pick: Picker, **more: object) -> Item:
    row = pick.complete("booked")
    line = next(line for line in pick.world.deliveries if line["message_id"] == row["message_id"] and line["answer"])
    pick.world.deliveries.append({**line, "finished": pick.world.now - 1, **more})
    return row


def claim_not_counted(pick: Picker) -> Breach:
    """Log two claims where the row counts one."""
    row = _deliver_again(pick, outcome="fenced", claimed_by="f" * 32, answer=None)
    row["consumption_count"] = 1
    return "I10", row["message_id"]


def count_zero(pick: Picker) -> Breach:
    """Set a row's count of claims to 0."""
    row = pick.complete("booked")
    row["consumption_count"] = 0
    return "I10", row["message_id"]


def quarantined_after_booking(pick: Picker) -> Breach:
    """Put a message into the dead-letter queue that has an appointment and no COMPLETE row."""
    row = _reopen(pick)
    pick.world.dead_letters.append({"message_id": row["message_id"], "source_message_id": "s", "reason": None})
    return "I11", row["message_id"]


def cancelled_by_unknown_request(pick: Picker) -> Breach:
    """Cancel an appointment and free its slot, without a request for it."""
    appointment = pick.booked()
    author = f"unknown-{appointment['appointment_id']}"
    _cancel(pick, appointment, author)
    return "I5r", author


def cancelled_by_a_booking(pick: Picker) -> Breach:
    """Cancel an appointment in the name of a request that booked its own."""
    appointment, author = pick.booked(), pick.complete("booked")
    _cancel(pick, appointment, author["message_id"])
    return "I5", author["message_id"]


def _cancel(pick: Picker, appointment: Item, author: str) -> None:
    _free(pick.slot_of(appointment))
    appointment |= {"status": "cancelled", "cancelled_by": author, "updated": pick.world.now}


def held_slot_moved(pick: Picker) -> Breach:
    """Move a slot to another time without its appointment."""
    appointment = pick.booked()
    pick.slot_of(appointment)["start"] = "2026-11-23T07:00:00Z"
    return "I4", appointment["appointment_id"]


def answered_another_time(pick: Picker) -> Breach:
    """Record another time than that of slot and appointment."""
    row = pick.complete("booked")
    appointment = pick.world.appointments[row["message_id"]]
    pick.touched.add(appointment["appointment_id"])
    result = json.loads(row["result"])
    row["result"] = json.dumps({**result, "end": result["start"]})
    return "I5", row["message_id"]


def waits_elsewhere(pick: Picker) -> Breach:
    """Move a waiting appointment to another practice than the recorded one."""
    row = pick.complete("waitlist")
    appointment = pick.world.appointments[row["message_id"]]
    appointment["practice"] = next(code for code, _ in pick.world.slots if code != appointment["practice"])
    return "I5", row["message_id"]


def refused_but_withdrawn(pick: Picker) -> Breach:
    """Record a refusal for a request whose appointment was cancelled."""
    withdrawn = (
        item for item in pick.world.appointments.values() if item["status"] == "cancelled" and "practice" in item
    )
    row = pick.world.ledger[next(withdrawn)["appointment_id"]]
    return _record(row, "refused", row["message_id"])


def answer_of_another(pick: Picker) -> Breach:
    """Record the answer to another request."""
    row, other = pick.complete("waitlist"), pick.complete("waitlist")
    row["result"] = other["result"]
    return "I5", row["message_id"]


def answer_of_a_cancellation(pick: Picker) -> Breach:
    """Record for a booking that another request's appointment is cancelled, as it is."""
    row = pick.complete("waitlist")
    cancelled = next(item for item in pick.world.appointments.values() if item["status"] == "cancelled")
    return _record(row, "cancelled", cancelled["appointment_id"])


def answered_otherwise(pick: Picker) -> Breach:
    """Log a booking as the answer where row and tables show a refusal."""
    row = pick.complete("refused")
    for line in pick.world.deliveries:
        if line["message_id"] == row["message_id"] and line["outcome"] == "refused":
            line["outcome"] = "booked"
    return "I7", row["message_id"]


def tombstone_without_author(pick: Picker) -> Breach:
    """Add a cancelled appointment whose cancellation the ledger does not know."""
    author = f"author-{pick.random.getrandbits(32):x}"
    target = f"target-{author}"
    mark = {"status": "cancelled", "cancelled_by": author, "created": pick.world.now, "updated": pick.world.now}
    pick.world.appointments[target] = {"appointment_id": target, **mark}
    return "I5r", author


CORRUPTIONS: tuple[Callable[[Picker], Breach], ...] = tuple(
    each for each in [*globals().values()] if getattr(each, "__annotations__", {}).get("return") is Breach
)
"""Every function above that returns a breach."""


def corrupted(seed: int) -> tuple[World, dict[str, Breach]]:
    """Return a world with every corruption, and what each breaks, by its name."""
    world = System(seed, practices=8, slots_per_practice=26).run(420)
    pick = Picker(world, random.Random(seed))
    return world, {corruption.__name__: corruption(pick) for corruption in CORRUPTIONS}
