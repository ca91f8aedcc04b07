"""Hostile messages through parser and consumer, each beside a good one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from appointments import nhs_number
from appointments.messages import Request, parse_message
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.effects import Effects
from oneslot.runtime.record import IDENTITY_ATTRIBUTE, Delivery
from oneslot.runtime.sqs.dead_letters import DETAIL_ATTRIBUTE, REASON_ATTRIBUTE
from oneslot.runtime.stores.memory import MemoryLedger
from tests.kits.consumer import NHS_NUMBER, Clock, Context, booking, cancellation, record, surroundings
from tests.kits.sqs import ScriptedSqs

MEBIBYTE = 1_048_576  # the largest message of SQS
SPACED = f"{NHS_NUMBER[:3]} {NHS_NUMBER[3:6]} {NHS_NUMBER[6:]}"
UNFIT: list[Any] = [
    None, True, 7, -0.0, float("nan"), float("-inf"), 10**400, int(NHS_NUMBER), ["book"], {"S": "m"},
    "", "   ", "x" * 129, "é", "m\0", "\ud800", "a#b", 'A\n{"level":"INFO"}', "{0.__class__}", "A81001' OR '1'='1",
    "9990000019", "٩٩٩٠٠٠٠٠١٨", NHS_NUMBER, SPACED,
    "2026-01-05T08:00:00", "2026-W01-1T08:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999Z",
]  # fmt: skip
HUGE = [
    "x" * MEBIBYTE,
    '{"message_id": "m", "a": ' + "[" * 500_000,
    '{"message_id": "m", "a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"a":' * 100_000 + "1" + "}" * 100_000,
    '{"message_id": "m", "a": ' + "9" * (MEBIBYTE - 100) + "}",
    '{"message_id": "m", "a": 1e' + "9" * 100_000 + "}",
    "{" + '"m": 1, ' * 100_000 + '"m": 2}',
]
TEXTS = [
    "", " ", "no JSON", "-0", "1e999", "null", '"text"', "[]", "{/* */}", "{'message_id': 'm'}", "{} {}", f"patient {SPACED}",
    '\ufeff{"message_id": "m"}', '{"message_id": "m", "message_id": "n"}', '{"message_id": "m", "\\u006dessage_id": "n"}',
    '{"message_id": "m", "x": {"a": 1, "a": 2}}', '{"message_id": "m", "x": NaN}',
]  # fmt: skip

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(UNFIT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
requests = st.sampled_from([booking(), cancellation("m-1"), cancellation("good")])
names = st.sampled_from([*booking(), "appointment_id", "x"])
changed = st.builds(
    lambda body, changes: json.dumps({**body, **changes}), requests, st.dictionaries(names, json_values)
)
cut = st.builds(lambda text, at: text[:at], changed, st.integers(0, 400))
noise = st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))
bodies = changed | cut | noise | st.text() | st.sampled_from(TEXTS)
identities = st.none() | st.text(max_size=9) | st.sampled_from(["m-3", "good", "   ", NHS_NUMBER])


def decide(request: Request) -> Effects:
    """Complete each request that the parser lets through."""
    return Effects({"outcome": "done"})


@example(HUGE[0], None, False)
@example(HUGE[1], None, False)
@example(HUGE[2], None, False)
@example(HUGE[3], None, True)
@example(HUGE[4], None, False)
@example(HUGE[5], None, False)
@example(HUGE[6], None, True)
@example(json.dumps(booking("good", practice="Z00001")), None, False)
@given(bodies, identities, st.booleans())
@settings(max_examples=200)
def test_message_is_complete_or_quarantined_beside_its_neighbour_when_a_producer_is_hostile(
    body: str, identity: str | None, content_based: bool
) -> None:
    ledger, sqs, log = MemoryLedger(surroundings=surroundings(Clock())), ScriptedSqs(), list[Delivery]()
    queues = Queues(sqs, "queue", "dead-letters", lambda: 0.0)
    consumer = Consumer(ledger, queues, parse_message, decide, log=log.append, content_based=content_based)
    hostile = record(body, attributes=None if identity is None else {IDENTITY_ATTRIBUTE: identity})
    good = record(booking("good"))

    answer = consumer({"Records": [hostile, good]}, Context(Clock()))

    assert answer == {"batchItemFailures": []}
    ends = {line.sqs_message_id: line for line in log}
    end, neighbour = ends[hostile["messageId"]], ends[good["messageId"]]
    assert neighbour.message_id == end.message_id or neighbour.outcome == "done"
    assert {row["status"] for row in ledger.rows.values()} <= {"COMPLETE"}
    letters = [request for name, request in sqs.calls if name == "send_message"]
    reasons = [
        {name: letter["MessageAttributes"][name]["StringValue"] for name in (REASON_ATTRIBUTE, DETAIL_ATTRIBUTE)}
        for letter in letters
    ]
    assert all(all(reason.values()) for reason in reasons)
    assert not nhs_number.contains_one(json.dumps([[asdict(line) for line in log], reasons, list(ledger.rows)]))
    if end.outcome == "quarantined":
        assert body in [letter["MessageBody"] for letter in letters]
    else:
        assert end.outcome in ("done", "duplicate")
        assert end.message_id in ledger.rows
