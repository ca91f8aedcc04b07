"""The JSON Schemas that producers use, and the parser: each accepts what the other does, but for the rules named below."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from appointments import nhs_number
from appointments.messages import DELIVERY_CHANNELS, ODS_CODE, SERVICE_TYPE, TIME, parse_message
from oneslot.runtime.record import MESSAGE_ID, Record
from tests.kits.consumer import booking, cancellation, record

SCHEMAS = Path(__file__).parents[2] / "docs" / "look-up" / "schemas"
TYPES = ("book", "cancel")
MOMENT = "2099-11-23T08:00:00Z"


def ecma_pattern(_validator: Any, pattern: str, instance: object, _schema: object) -> Any:
    """Check `pattern` as JSON Schema means it: Python's `$` also matches before a line end, that of ECMA 262 does not."""
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield ValidationError(pattern)


def validator(kind: str) -> Any:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return extend(Draft202012Validator, {"pattern": ecma_pattern})(schema)


VALIDATORS = {kind: validator(kind) for kind in TYPES}


def schema_accepts(body: Any) -> bool:
    return any(each.is_valid(body) for each in VALIDATORS.values())


def parser_accepts(body: Any, **options: Any) -> bool:
    return (
        Record.parse(record(body if isinstance(body, str) else json.dumps(body), **options), parse_message).problem
        is None
    )


def moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def named_rules_hold(body: Mapping[str, Any]) -> bool:
    """Check what a JSON Schema cannot say, for a body that a schema accepts."""
    if nhs_number.contains_one(body["message_id"]):
        return False
    if body["type"] == "cancel":
        return not nhs_number.contains_one(body["appointment_id"])
    if nhs_number.contains_one(body["service_type"]):
        return False
    first, last = moment(body["not_before"]), moment(body["not_after"])
    return bool(first and last and first < last) and nhs_number.is_valid(body["nhs_number"])


def patterns() -> dict[str, str]:
    return {
        name: field["pattern"]
        for each in VALIDATORS.values()
        for name, field in each.schema["properties"].items()
        if "pattern" in field
    }


PATTERNS = patterns()
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=3)
TEXTS = f"""9990000018 case9990000018 9990000019 {MOMENT} 2099-02-30T08:00:00Z 2099-11-23T08:00Z 2099-11-23T08:00:00.000Z
0000-01-01T00:00:00Z 0001-01-01T00:00:00+14:00 2099-W47-1T08:00:00Z 2099-11-23T24:00:00Z 20991123T080000Z A81001 Video video"""
texts = st.sampled_from([*TEXTS.split(), f"{MOMENT}\n", "2099-11-23 08:00:00Z", "A81001\n", "x" * 129, ""])
matching = st.sampled_from(sorted(set(PATTERNS.values()))).flatmap(st.from_regex)
changes = st.dictionaries(
    st.sampled_from([*PATTERNS, "type", "delivery_channel", "note"]), values | texts | matching, max_size=3
)
removed = st.sets(st.sampled_from([*PATTERNS, "type", "delivery_channel"]), max_size=1)


def test_schema_has_the_parsers_patterns() -> None:
    """The limits of lengths, which random texts seldom reach."""
    ids = dict.fromkeys(("message_id", "appointment_id"), MESSAGE_ID)
    times = dict.fromkeys(("not_before", "not_after"), TIME)
    forms = {**ids, **times, "practice": ODS_CODE, "service_type": SERVICE_TYPE}
    assert {f"^{form.pattern}$" == PATTERNS[name] for name, form in forms.items()} == {True}
    assert forms.keys() | {"nhs_number"} == PATTERNS.keys()
    assert VALIDATORS["book"].schema["properties"]["delivery_channel"]["enum"] == list(DELIVERY_CHANNELS)


@given(st.sampled_from([booking(), cancellation("m-1")]), changes, removed)
@example(booking(), {}, set())
@example(cancellation("m-1"), {}, set())
@example(booking(), {"service_type": "9990000018"}, set())
@example(booking(), {"not_before": "2099-02-30T08:00:00Z"}, set())
@example(booking(), {"not_before": "0001-01-01T00:00:00+14:00"}, set())
@settings(max_examples=150)
def test_schema_and_parser_accept_the_same(valid: dict[str, Any], changed: dict[str, Any], without: set[str]) -> None:
    body = {name: value for name, value in {**valid, **changed}.items() if name not in without}
    assert parser_accepts(body) == (schema_accepts(body) and named_rules_hold(body))


@pytest.mark.parametrize("field", sorted(PATTERNS))
@given(st.data())
@settings(max_examples=50)
def test_schema_and_parser_agree_on_every_field(field: str, data: st.DataObject) -> None:
    """One field, of the schema's own form and of one that is not quite so."""
    valid = cancellation("m-1") if field == "appointment_id" else booking()
    pattern = PATTERNS[field]
    near = st.from_regex(pattern.strip("^$")) | st.from_regex(pattern, fullmatch=True, alphabet=st.characters())
    body = {**valid, field: data.draw(near)}
    assert parser_accepts(body) == (schema_accepts(body) and named_rules_hold(body))


def test_id_in_the_attribute_replaces_the_bodys() -> None:
    """The one rule by which the parser accepts more than a schema, named on the page."""
    body = booking(message_id=None)
    assert not schema_accepts(body)
    assert parser_accepts(body, attributes={"MessageDeduplicationId": "m-1"})
