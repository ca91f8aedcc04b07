"""The laws of the explorer: a world, a write or an end that breaks each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from appointments.allocation import choose
from appointments.messages import BookRequest, parse_message
from lab.explore.laws import OurLaws
from lab.explore.practice import APPOINTMENTS, DEAD_LETTERS, LEDGER, TABLES, free_slots
from lab.explore.scenarios import BOOKING, FORGOTTEN, SAME_WISH
from oneslot.dynamodb_in_memory.contents import Contents
from oneslot.explorer.execution.process import HandlerEnd
from oneslot.explorer.laws import collect
from oneslot.explorer.world import ApiCall, World
from oneslot.runtime.identity import payload_hash
from oneslot.runtime.values import to_attributes

LAWS = OurLaws()
A, B = "delivery-0-1", "delivery-1-1"
CONTENT = payload_hash(json.loads(BOOKING.body))
ROW: dict[str, Any] = {
    "message_id": "m-1",
    "status": "IN_PROGRESS",
    "consumption_count": 1,
    "updated": 1_000,
    "lease_until": 31_000,
    "claimed_by": A,
    "payload_hash": CONTENT,
}
RESULT = json.dumps({"outcome": "refused", "appointment_id": "m-1", "reason": "window_passed"})
COMPLETE = {
    **{name: value for name, value in ROW.items() if name != "lease_until"},
    "status": "COMPLETE",
    "result": RESULT,
}


def world(
    *rows: dict[str, Any],
    claims: int = 1,
    letters: tuple[dict[str, Any], ...] = (),
    appointment: Mapping[str, Any] | None = None,
) -> World:
    contents = Contents({name: {} for name in TABLES})
    if appointment is not None:
        contents.tables[APPOINTMENTS][""] = to_attributes(appointment)
    for row in rows:
        item = to_attributes(row)
        contents.tables[LEDGER][TABLES[LEDGER].key_text(item)] = item
    return World.of(contents, {DEAD_LETTERS: list(letters)}, {"m-1": claims} if rows else {})


def write(fence: str) -> ApiCall:
    return ApiCall.of("update_item", {"ExpressionAttributeValues": {":claimed_by": {"S": fence}}})


@pytest.mark.parametrize(
    ("before", "after", "law"),
    [
        (COMPLETE, None, "I6"),
        (COMPLETE, ROW, "I6"),
        (COMPLETE, {**COMPLETE, "updated": 2_000}, "I6"),
        (ROW, {**ROW, "claimed_by": B}, "E2"),
        (ROW, {**ROW, "lease_until": 0}, "E2"),
        ({**ROW, "lease_until": 0}, {**ROW, "payload_hash": "another"}, "I7"),
    ],
)
def test_write_by_another_breaks_a_law(before: dict[str, Any], after: dict[str, Any] | None, law: str) -> None:
    then = world(*([after] if after else []))
    broken = list(LAWS.at_write(world(before), then, write(B), 5_000, "delivery-1"))
    assert [sentence.split()[0] for sentence in broken] == [law]


@pytest.mark.parametrize(
    ("before", "after", "sender"),
    [
        (None, {**ROW, "claimed_by": "same-id-for-all"}, "delivery-0"),
        (None, {**ROW, "claimed_by": "same-id-for-all"}, None),
        (None, ROW, "delivery-1"),
        (None, {**COMPLETE, "claimed_by": B}, "delivery-0"),
        ({**ROW, "lease_until": 0}, {**ROW, "claimed_by": "same-id-for-all"}, "delivery-1"),
        (ROW, {**ROW, "lease_until": 0}, "delivery-1"),
        (ROW, COMPLETE, "delivery-1"),
    ],
)
def test_write_under_anothers_name_breaks_e2(
    before: dict[str, Any] | None, after: dict[str, Any], sender: str | None
) -> None:
    """A claim under a foreign name hides a second owner, as does a release or a commit."""
    broken = list(LAWS.at_write(world(*([before] if before else [])), world(after), write(A), 5_000, sender))
    assert [sentence.split()[0] for sentence in broken] == ["E2"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ROW, {**ROW, "lease_until": 0}),
        (ROW, COMPLETE),
        ({**ROW, "lease_until": 4_000}, {**ROW, "claimed_by": B}),
    ],
)
def test_write_by_the_owner_breaks_no_law(before: dict[str, Any], after: dict[str, Any]) -> None:
    fence = after["claimed_by"]
    for sender in (fence.rpartition("-")[0], None):
        assert list(LAWS.at_write(world(before), world(after), write(fence), 5_000, sender)) == []


def ended(outcome: str, answer: str | None = None, **others: str) -> HandlerEnd:
    line = {
        "sqs_message_id": BOOKING.sqs_id,
        "message_id": "m-1",
        "outcome": outcome,
        "answer": answer,
        "claimed_by": A,
        **others,
    }
    return HandlerEnd(lines=(json.dumps(line),))


@pytest.mark.parametrize(
    ("rows", "outcome", "law"),
    [
        ([ROW], ended("failed"), "I8"),
        ([ROW], HandlerEnd(), "I8"),
        ([ROW], ended("booked"), "I2"),
        ([], ended("quarantined"), "I2"),
        ([{**COMPLETE, "payload_hash": "another"}], ended("duplicate"), "I2"),
        ([COMPLETE], ended("duplicate", "another answer"), "I7"),
        ([ROW], HandlerEnd(error="endless"), "I9:"),
        ([ROW], HandlerEnd((BOOKING.sqs_id,), None, ('{"sqs_message_id": "9990000018"}',)), "L1:"),
        ([ROW], HandlerEnd((BOOKING.sqs_id,), logged=("failed on 9990000018",)), "L1:"),
        ([ROW], HandlerEnd(error="ValueError: 9990000018 is no number"), "L1:"),
    ],
)
def test_end_of_an_invocation_breaks_a_law(rows: list[dict[str, Any]], outcome: HandlerEnd, law: str) -> None:
    broken = list(LAWS.at_end(world(*rows), [BOOKING], outcome))
    assert [sentence.split()[0] for sentence in broken] == [law]


MADE = FORGOTTEN.before["appointments"][0]
RIGHT = "ab9f2c451f189afc"  # pragma: allowlist secret
"""The digest of `RESULT`."""


@pytest.mark.parametrize(
    ("appointment", "outcome", "sentences"),
    [
        (MADE, ended("refused", RIGHT), []),
        (MADE, ended("duplicate", RIGHT), []),
        ({"appointment_id": "m-1", "status": "cancelled"}, ended("duplicate", RIGHT), []),
        ({**MADE, "nhs_number": "9990000026"}, ended("refused", RIGHT), ["I2 differs from the request: nhs_number"]),
        ({**MADE, "practice": "B81002"}, ended("refused", RIGHT), ["I2 differs from the request: practice"]),
        (
            {**MADE, "delivery_channel": "Video", "service_type": "Other"},
            ended("refused", RIGHT),
            ["I2 differs from the request: delivery_channel, service_type"],
        ),
        ({**MADE, "start": "2026-11-23T07:59:59Z"}, ended("refused", RIGHT), ["I2 differs from the request: start"]),
        ({**MADE, "start": "2026-11-24T08:00:00Z"}, ended("refused", RIGHT), ["I2 differs from the request: start"]),
        ({**MADE, "start": "2026-11-24T07:59:59Z"}, ended("refused", RIGHT), []),
        (None, ended("refused", RIGHT, message_id="m-2"), ["I7 its delivery is logged as one of m-2"]),
        (None, ended("booked", RIGHT), ["I7 its delivery came to booked, which is not what the row keeps"]),
        (None, ended("refused", RIGHT, claimed_by=B), ["I7 its delivery names another winner than the row"]),
    ],
)
def test_acknowledgement_must_match_request_and_log(
    appointment: Mapping[str, Any] | None, outcome: HandlerEnd, sentences: list[str]
) -> None:
    broken = list(LAWS.at_end(world(COMPLETE, appointment=appointment), [BOOKING], outcome))
    said = [one.replace("m-1: ", "").replace("acknowledged, and its appointment ", "") for one in broken]
    assert said == sentences


def test_unreadable_row_is_a_breach() -> None:
    bare = {name: ROW[name] for name in ("message_id", "status")}
    broken = list(collect(LAWS.in_state(world(bare), ["m-1"], ["m-1"], 5_000)))
    assert broken == ["unreadable: KeyError in resting: 'lease_until'"]
    written = list(LAWS.at_write(world(ROW), world(bare), write(A), 5_000, "delivery-0"))
    assert {one.split()[0] for one in written} == {"E2", "I7"}
    ends = list(LAWS.at_end(world({**bare, "status": "COMPLETE"}), [BOOKING], ended("booked")))
    assert ends == ["I2 m-1: acknowledged with the answer to other content"]


def test_state_breaks_i10_or_l1() -> None:
    for claims in (0, 2):
        broken = list(LAWS.in_state(world(ROW, claims=claims), ["m-1"], ["m-1"], 0))
        assert [sentence.split()[0] for sentence in broken] == ["I10"]
    letter = {
        "MessageBody": BOOKING.body,
        "MessageAttributes": {"QuarantineDetail": {"StringValue": "9990000018 is no number"}},
    }
    assert any(one.startswith("L1") for one in LAWS.in_state(world(letters=(letter,)), ["m-1"], ["m-1"], 0))
    named = {**ROW, "claimed_by": "9990000018"}
    assert any(one.startswith("L1") for one in LAWS.in_state(world(named), ["m-1"], ["m-1"], 0))


def test_duplicate_breaks_e3_or_i7() -> None:
    call = ApiCall.of("update_item", {})
    assert [one.split()[0] for one in LAWS.of_duplicate(world(COMPLETE), BOOKING, [call] * 2, ended("duplicate"))] == [
        "E3"
    ]
    assert [one.split()[0] for one in LAWS.of_duplicate(world(COMPLETE), BOOKING, [call], ended("booked"))] == ["I7"]
    assert list(LAWS.of_duplicate(world(COMPLETE), BOOKING, [call], ended("duplicate"))) == []
    assert list(LAWS.of_duplicate(world(ROW), BOOKING, [call] * 2, ended("booked"))) == []


def test_final_state_must_be_the_scenarios() -> None:
    assert list(LAWS.at_last(world(), ())) == []
    assert len(list(LAWS.at_last(world(), ("booked",)))) == 1


def test_requests_with_the_same_wish_choose_one_slot() -> None:
    keys = [slot["free_key"] for slot in free_slots(2)]
    requests = [parse_message(message_id, CONTENT, json.loads(BOOKING.body)) for message_id in SAME_WISH]
    assert len({choose(request, keys) for request in requests if isinstance(request, BookRequest)}) == 1
