"""Which request a delivery belongs to."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.record import identify, is_message_id, parse_body, payload_hash


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
        ("1.1", 1.1),
        ("1e30", 1e30),
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


def test_decimal_numbers_are_kept() -> None:
    assert parse_body('{"a": 1.5, "b": -1e308, "c": 1E2}') == {"a": 1.5, "b": -1e308, "c": 100.0}
