"""The generator: exact shares, valid test patients, repeatable, every kind of trouble, and nothing held for long."""

import json
from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appointments import nhs_number
from appointments.messages import BookRequest, CancelRequest, Request, parse_message
from demo.generator import HORIZON, MALFORMATIONS, Mix, RequestGenerator
from demo.plan import Plan, make_plan
from oneslot.errors import BadInput
from oneslot.operator.sending.messages import MALFORMED, RequestCopy
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.record import identify, parse_body, payload_hash

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PLAN = make_plan(12, 200, 1, date(2026, 11, 23))


def generate(mix: Mix, seed: int = 1, plan: Plan = PLAN, now: datetime = NOW) -> list[RequestCopy]:
    """All messages of a run."""
    return list(RequestGenerator(plan, mix, seed, now).messages())


def understood(message: RequestCopy) -> tuple[str, str, Request]:
    """Return id, digest and request as the consumer parses them. Raises `Unprocessable` as the consumer does."""
    body = parse_body(message.body)
    attributes = {name: {"stringValue": value} for name, value in message.attributes.items()}
    identity = identify(attributes, body, message.body)
    return identity, payload_hash(body), parse_message(identity, payload_hash(body), body)


def test_generator_keeps_the_shares_exactly() -> None:
    mix = Mix(2_000)
    messages = generate(mix)
    requests = {message.number: message.request for message in messages}
    assert len(requests) == 2_000
    assert len(messages) == mix.messages == 2_400
    assert Counter(request.kind for request in requests.values()) == {"request": 1_980, "malformed": 20}
    sound = {message.number: message for message in messages if message.request.kind != MALFORMED}
    assert sum(isinstance(understood(message)[2], CancelRequest) for message in sound.values()) == 100
    copies = Counter(message.number for message in messages)
    assert Counter(copies.values()) == {1: 1_600, 2: 400}


mixes = st.builds(
    Mix,
    count=st.integers(1, 400),
    duplicates=st.floats(0, 1),
    malformed=st.floats(0, 0.3),
    cancellations=st.floats(0, 0.3),
)


@settings(max_examples=40)
@given(mixes, st.integers(0, 1_000_000))
def test_request_is_parsed_as_it_was_archived(mix: Mix, seed: int) -> None:
    messages = generate(mix, seed)
    assert len(messages) == mix.messages
    seen: dict[str, str] = {}
    for message in messages:
        if message.request.kind == MALFORMED:
            continue
        identity, digest, request = understood(message)
        assert (identity, digest) == (message.request.message_id, message.request.payload_hash)
        assert seen.setdefault(identity, digest) == digest, "copies say the same, however they are spelt"
        if isinstance(request, BookRequest):
            assert request.nhs_number.startswith("999")
            assert nhs_number.is_valid(request.nhs_number)
            assert request.practice == message.group


@settings(max_examples=20)
@given(st.integers(0, 1_000_000))
def test_malformed_message_is_rejected_for_its_reason(seed: int) -> None:
    messages = generate(Mix(300, malformed=0.3), seed)
    content = {
        message.request.message_id: message.request.payload_hash
        for message in messages
        if message.request.kind != MALFORMED
    }
    malformations = Counter[str]()
    for message in messages:
        if message.request.kind != MALFORMED:
            continue
        malformation = str(message.request.malformation)
        malformations[malformation] += 1
        try:
            identity, digest, request = understood(message)
        except Unprocessable as problem:
            assert problem.reason == malformation
            continue
        # These two only the consumer's tables can tell.
        if malformation == "unknown_practice":
            assert isinstance(request, BookRequest)
            assert request.practice == "ZZZ999"
        else:
            assert malformation == "conflict"
            assert content[identity] != digest
            assert message.request.payload_hash == digest
    assert set(malformations) == set(MALFORMATIONS), "ninety malformed messages show every kind"


def test_archived_request_has_no_personal_data() -> None:
    for message in generate(Mix(500, malformed=0.3)):
        assert not nhs_number.contains_one(json.dumps(message.request.message_id))
        assert 'nhs_number":' not in repr(message)
        assert not nhs_number.contains_one(repr(message))


def test_generator_repeats_itself_under_one_seed() -> None:
    mix = Mix(300)
    assert generate(mix, 7) == generate(mix, 7)
    ids = [{message.request.message_id for message in generate(mix, seed)} - {None} for seed in (7, 8)]
    assert not ids[0] & ids[1], "another seed's requests are others"


def test_cancellation_comes_before_or_after_its_booking() -> None:
    messages = generate(Mix(1_000, duplicates=0, malformed=0, cancellations=0.3))
    place: dict[str, int] = {}
    cancels: dict[str, int] = {}
    for position, message in enumerate(messages):
        identity, _, request = understood(message)
        if isinstance(request, CancelRequest):
            cancels[request.appointment_id] = position
        else:
            place[identity] = position
    assert len(cancels) == 300
    assert set(cancels) <= set(place), "each cancels a booking of this run"
    before = sum(cancels[appointment] < place[appointment] for appointment in cancels)
    assert 0 < before < 150


def test_copy_comes_as_a_producer_sends_it() -> None:
    copies: dict[int, list[RequestCopy]] = defaultdict(list)
    for message in generate(Mix(1_000, duplicates=1, malformed=0)):
        copies[message.number].append(message)
    pairs = [pair for pair in copies.values() if len(pair) == 2]
    assert any(first == second for first, second in pairs), "sent again as it was"
    assert any(first.body != second.body for first, second in pairs), "spelt otherwise"
    assert any(not first.attributes and second.attributes for first, second in pairs), "named in the attribute as well"
    assert any("message_id" not in json.loads(first.body) for first, _ in pairs), "named in the attribute only"


def test_window_lies_within_the_seeded_days() -> None:
    for message in generate(Mix(2_000, duplicates=0, malformed=0, cancellations=0)):
        _, _, request = understood(message)
        assert isinstance(request, BookRequest)
        if request.not_before.year == 2020:
            continue
        assert PLAN.days[0] <= request.not_before.date() <= request.not_after.date() <= PLAN.days[-1]


def test_past_days_are_not_asked_for() -> None:
    now = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
    for message in generate(Mix(50, malformed=0, cancellations=0), now=now):
        body: dict[str, Any] = json.loads(message.body)
        assert body["not_before"][:10] in ("2026-11-27", "2020-01-06")
    with pytest.raises(BadInput, match="is in the past"):
        generate(Mix(50), now=datetime(2026, 11, 28, tzinfo=UTC))


def test_mix_is_rejected_when_too_few_bookings_are_left() -> None:
    with pytest.raises(BadInput, match="leave too few bookings"):
        Mix(100, cancellations=0.8)


def test_generator_streams_a_million_requests() -> None:
    generator = RequestGenerator(PLAN, Mix(1_000_000), 1, NOW)
    assert len(list(islice(generator.messages(), 5_000))) == 5_000
    assert len(generator._waiting) < 2 * HORIZON
