"""What a decision reads is what was there a moment ago, not what a copy of the table that lags behind still shows."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from appointments.allocation import free_key
from appointments.messages import Request, parse_message
from booking.slot_search import SlotSearch
from lab.explore.practice import APPOINTMENTS, LEDGER, SLOTS, TABLES, booking, cancellation, free_slots
from lab.explore.scenarios import FORGOTTEN, ONE_REQUEST
from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.explorer.world import NOON, SqsMessage
from oneslot.runtime.effects import Effects, Unprocessable
from oneslot.runtime.record import payload_hash
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import Intercepted, bench, record
from tests.kits.consumer import booking as kit_booking

EARLY, LATE = free_slots(2)
BOOKED = FORGOTTEN.before
"""Booked by m-1: the first of two slots."""


class Replicas:
    """DynamoDB: who does not ask for a consistent read is answered by a copy that has not heard of the last change."""

    def __init__(self, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        self._lagging, self._leader = (
            InMemoryDynamoDB(lambda: NOON, TABLES, replace(ONE_REQUEST, before=rows).world.contents(TABLES))
            for rows in (then, now)
        )

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read one item."""
        return (self._leader if request.get("ConsistentRead") else self._lagging).get_item(**request)

    def query(self, **request: Any) -> Mapping[str, Any]:
        """Read the items of one partition."""
        return (self._leader if request.get("ConsistentRead") else self._lagging).query(**request)


def schedule(then: Mapping[str, Any], now: Mapping[str, Any], now_ms: int = NOON) -> SlotSearch:
    client: Any = Replicas(then, now)
    tables = {"slots": SLOTS, "appointments": APPOINTMENTS}
    surroundings = Surroundings(now_ms=lambda: now_ms)
    ledger = DynamoDBLedger(client, LEDGER, retention_seconds=None, tables=tables, surroundings=surroundings)
    return SlotSearch(ledger, 20)


def request(message: SqsMessage) -> Request:
    body = json.loads(message.body)
    return parse_message(message.message_id, payload_hash(body), body)


@pytest.mark.parametrize("together", [False, True])
def test_a_slot_that_was_free_is_not_chosen(together: bool) -> None:
    """By itself and in a group: it would cost a refused transaction, and with few slots one after the other."""
    reader = schedule({"slots": [EARLY]}, {"slots": [LATE]})
    one = request(booking("m-1"))
    decided = reader.decide_together([one])[0] if together else reader.decide(one)
    assert decided is not None
    assert decided.result["slot_id"] == LATE["slot_id"]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("not_before", "not_after", "slot"),
    [
        ("2026-11-23T07:00:00Z", "2026-11-23T08:00:00Z", None),
        ("2026-11-23T07:00:00Z", "2026-11-23T08:00:01Z", EARLY),
        ("2026-11-23T08:00:01Z", "2026-11-23T08:10:01Z", LATE),
        ("2026-11-23T08:10:00Z", "2026-11-24T08:00:00Z", LATE),
        ("2026-11-23T08:10:01Z", "2026-11-24T08:00:00Z", None),
    ],
)
def test_booked_slot_lies_in_the_requested_window(
    not_before: str, not_after: str, slot: Mapping[str, Any] | None, together: bool
) -> None:
    """It waits, though others are free."""
    reader = schedule({}, {"slots": free_slots(2)})
    one = request(booking("m-1", not_before=not_before, not_after=not_after))
    decided = reader.decide_together([one])[0] if together else reader.decide(one)
    assert decided is not None
    assert (decided.result["outcome"], decided.result.get("slot_id")) == (
        ("booked", slot["slot_id"]) if slot else ("waitlist", None)
    )


def test_request_is_not_waitlisted_for_slots_left_unread() -> None:
    """Together they read the first slots of all their windows; where those end before a window begins, it decides alone."""
    slots = free_slots(6)
    reader = replace(schedule({}, {"slots": slots}), candidate_slots=2)
    early = request(booking("m-1", not_after="2026-11-23T08:10:00Z"))
    late = request(booking("m-2", not_before=slots[5]["start"]))
    first, second = reader.decide_together([early, late])
    assert first is not None
    assert first.result["slot_id"] == slots[0]["slot_id"]
    assert second is None
    assert reader.decide(late).result["slot_id"] == slots[5]["slot_id"]


def tables_of(effects: Effects) -> set[str]:
    return {write.table for write in effects.all_writes}


def test_cancellation_frees_the_slot_of_a_new_appointment() -> None:
    """Not seen, it would be cancelled as one that was never booked."""
    reader = schedule({"slots": free_slots(2)}, BOOKED)
    assert tables_of(reader.decide(request(cancellation("c-1", "m-1")))) == {"slots", "appointments"}


def test_new_appointment_is_found_when_its_window_has_passed() -> None:
    """Not seen, its booking would be answered with a refusal when it comes again too late."""
    reader = schedule({"slots": free_slots(2)}, BOOKED, NOON + 40 * 86_400_000)
    assert reader.decide(request(booking("m-1"))).result["outcome"] == "booked"


@pytest.mark.parametrize("together", [False, True])
def test_practice_with_new_slots_is_known(together: bool) -> None:
    """Not seen, a request that has to wait would be set aside as one for a practice that there is not."""
    reader = schedule({"slots": []}, BOOKED, NOON)
    video = request(booking("m-2", 1, delivery_channel="Video"))
    decided = reader.decide_together([video])[0] if together else reader.decide(video)
    assert decided is not None
    assert decided.result["outcome"] == "waitlist"


@pytest.mark.parametrize("together", [False, True])
def test_unreadable_slot_does_not_quarantine_the_request(together: bool) -> None:
    """It stays in the queue until the row is fixed, and is not set aside."""
    with bench(slots=1) as made:
        (slot,) = made.rows("slots")
        bad = f"{slot['delivery_channel']}#{slot['service_type']}#{slot['start']}"
        made.dynamodb.put_item(TableName="slots", Item=to_attributes({**slot, "free_key": bad}))
        consumer = made.another_consumer({"GROUP_COMMIT": str(together).lower()})
        records = [record(kit_booking(message_id)) for message_id in ("m-1", "m-2")]
        assert made.deliver(*records, consumer=consumer) == [one["messageId"] for one in records]
        assert {(line.outcome, line.reason) for line in made.deliveries} == {("failed", "UnreadableFreeKey")}
        made.dynamodb.put_item(TableName="slots", Item=to_attributes(slot))
        assert made.deliver(*records, consumer=consumer) == []


TOMBSTONE = {"appointment_id": "m-1", "status": "cancelled", "created": 1, "updated": 1, "cancelled_by": "c-1"}


@pytest.mark.parametrize(
    ("appointments", "outcome"),
    [(BOOKED["appointments"], "booked"), ([TOMBSTONE], "cancelled")],
    ids=["made", "tombstone"],
)
def test_appointment_answers_at_a_practice_without_slots(appointments: list[Mapping[str, Any]], outcome: str) -> None:
    """The practice's slots were cleared away since. Not seen, a booking that was answered would be set aside."""
    reader = schedule({}, {"appointments": appointments})
    decided = reader.decide(request(booking("m-1")))
    assert (decided.result["outcome"], decided.result["appointment_id"]) == (outcome, "m-1")
    assert tables_of(decided) == set()
    assert reader.decide_together([request(booking("m-1"))]) == [None], "it is decided by itself"


@pytest.mark.parametrize(("message", "reason"), [(booking("m-1", 1), "conflict"), (booking("m-2"), "unknown_practice")])
def test_unknown_practice_is_refused_without_an_appointment(message: SqsMessage, reason: str) -> None:
    """Neither another content under the id of an appointment, nor a request that has none."""
    with pytest.raises(Unprocessable) as refusal:
        schedule({}, {"appointments": BOOKED["appointments"]}).decide(request(message))
    assert refusal.value.reason == reason


def test_slot_moved_before_the_commit_is_booked_at_its_new_time() -> None:
    """What was read is a condition of the commit, so a diary that is changed by hand makes no appointment of old times."""
    with bench(slots=1) as made:
        (slot,) = made.rows("slots")
        later = {"start": "2099-11-23T15:00:00Z", "end": "2099-11-23T15:10:00Z"}
        moved = {**slot, **later, "free_key": free_key({**slot, **later})}

        def meanwhile(_perform: Callable[[], Any]) -> None:
            made.dynamodb.put_item(TableName="slots", Item=to_attributes(moved))

        intercepted = Intercepted(made.dynamodb, before={"transact_write_items": meanwhile})
        assert made.deliver(record(kit_booking()), consumer=made.another_consumer(dynamodb=intercepted)) == []
        (appointment,) = made.rows("appointments")
        assert {name: appointment[name] for name in later} == later
        assert made.outcomes == ["booked"]
