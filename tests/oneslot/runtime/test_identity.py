"""A message's id and its content's digest, and hostile messages through parser and consumer, each beside a good one."""

import json
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from appointments import nhs_number
from appointments.messages import Request, parse_message
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.effects import Effects, Unprocessable
from oneslot.runtime.record import IDENTITY_ATTRIBUTE, Delivery, identify, is_message_id, parse_body, payload_hash
from oneslot.runtime.sqs.queue import DETAIL_ATTRIBUTE, REASON_ATTRIBUTE
from oneslot.runtime.stores.memory import MemoryLedger
from tests.kits.consumer import NHS_NUMBER, Clock, Context, booking, cancellation, record, surroundings
from tests.kits.sqs import ScriptedSqs


def attribute(value: str) -> dict[str, Any]:
    return {"MessageDeduplicationId": {"stringValue": value, "dataType": "String"}}


def test_id_is_attribute_then_body_then_content() -> None:
    body = {"message_id": "of-the-body"}
    assert identify(attribute("of-the-attribute"), body, "text", content_based=True) == "of-the-attribute"
    assert identify({}, body, "text", content_based=True) == "of-the-body"
    # The SHA-256 of "text", from sha256sum.
    content = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"  # pragma: allowlist secret
    assert identify({}, {}, "text", content_based=True) == content
    assert identify({"Other": {"stringValue": "x"}}, {}, "text", content_based=True) == content


@pytest.mark.parametrize("unfit", ["", "a b", "a#b", "x" * 129, "é", "-rf", ".a", 7, True, ["a"], {"a": 1}, "a\n"])
def test_an_unfit_id_is_refused_and_not_replaced_by_another(unfit: Any) -> None:
    assert not is_message_id(unfit)
    with pytest.raises(Unprocessable, match="invalid_message_id") as refused:
        identify({}, {"message_id": unfit}, "text", content_based=True)
    as_text = refused.value.detail.startswith("message_id must be text, in quotes: 1 to 128 letters")
    assert as_text is not isinstance(unfit, str)


@given(
    st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)),
    st.randoms(),
)
@settings(max_examples=50)
def test_the_digest_depends_on_content_and_not_on_spelling(body: dict[str, Any], random: Any) -> None:
    names = list(body)
    random.shuffle(names)
    respelled = json.loads(json.dumps({name: body[name] for name in names}, indent=random.choice([None, 1, 4])))
    assert payload_hash(respelled) == payload_hash(body)
    assert payload_hash({**body, "one more": 1}) != payload_hash(body) or body.get("one more") == 1


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": None}, {}),
        ({"a": "x"}, {"a": "X"}),
        ({"a": "x"}, {"a": "x "}),
        ({"a": "\u00e9"}, {"a": "e\u0301"}),
        ({"a": "1"}, {"a": 1}),
        ({"a": True}, {"a": 1}),
        ({"a": 10**30}, {"a": 10**30 + 1}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({"a": LONG + "1"}, {"a": LONG + "2"}),
    ],
    ids=lambda body: repr(body)[:30],
)
def test_any_difference_changes_the_digest(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Else a second request under an old id would be acknowledged with the first one's answer."""
    assert payload_hash(one) != payload_hash(other)


@pytest.mark.parametrize("text", ['{"a":' * 100 + "1" + "}" * 100, '{"a":' + "[" * 99 + "]" * 99 + "}"])
def test_body_is_refused_when_it_has_more_than_100_levels(text: str) -> None:
    assert len(payload_hash(parse_body(text))) == 64
    with pytest.raises(Unprocessable, match="not_json"):
        parse_body(f'{{"in":{text}}}')


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *(("1.1", 1.1), ("1e30", 1e30), ("1E2", 100.0), ("-1e308", -1e308)),
        ("1.234567890123456789", Decimal("1.234567890123456789")),
        ("12345678901234567890.5", Decimal("12345678901234567890.5")),
        ("1e-400", 0.0),  # no table holds so small a number
    ],
)
def test_fraction_is_a_decimal_when_a_float_would_lose_digits(text: str, found: object) -> None:
    (value,) = parse_body(f'{{"a":{text}}}').values()
    assert (value, type(value)) == (found, type(found))


def test_digest_is_another_when_digits_beyond_a_float_differ() -> None:
    one, other = (parse_body(f'{{"a":1.2345678901234567{end}}}') for end in ("89", "01"))
    assert payload_hash(one) != payload_hash(other)


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "[1]", "1", "null", '"text"', "true"),
        # A name twice, or a constant that is no JSON: two readers would see two different requests.
        *('{"a": 1, "a": 2}', '{"in": {"a": 1, "a": 1}}', '{"a": NaN}', '{"a": -Infinity}'),
        # Python reads all of these as infinity, so different contents would have one digest.
        *('{"a": 1e400}', '{"in": [-2.5E999]}'),
        '{"a": ' + "9" * 1_000_000 + "}",  # which takes Python minutes
    ],
    ids=lambda text: text[:20],
)
def test_text_is_refused_when_readers_could_disagree_on_it(text: str) -> None:
    with pytest.raises(Unprocessable) as refused:
        parse_body(text)
    assert refused.value.reason == "not_json"


def test_a_body_that_is_nested_too_deeply_has_no_digest() -> None:
    body: dict[str, Any] = {}
    for _ in range(100_000):
        body = {"in": body}
    with pytest.raises(Unprocessable, match="not_json"):
        payload_hash(body)


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
