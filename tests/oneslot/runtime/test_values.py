"""Values between Python, DynamoDB's attribute values and JSON: nothing is rounded, and what no table holds is named."""

import json
from collections.abc import Iterator
from decimal import Context, Decimal, Inexact, Rounded, localcontext
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from boto3.dynamodb.types import Binary
from hypothesis import given, settings
from hypothesis import strategies as st

from oneslot.runtime.values import (
    InvalidValue,
    canonical_json,
    from_attribute,
    from_attributes,
    from_json,
    number_text,
    shown_name,
    size,
    to_attribute,
    to_attributes,
    to_json,
)


@pytest.fixture(autouse=True)
def coarse_arithmetic() -> Iterator[None]:
    """An application may set any context for its own decimals. It must not touch what stores hold."""
    with localcontext(Context(prec=2, traps=[Rounded, Inexact])):
        yield


def plain_text(digits: int, exponent: int) -> str:
    """Write digits times ten to the exponent as DynamoDB does: no exponent, no zeros at the ends."""
    text = str(abs(digits))
    text = text + "0" * exponent if exponent >= 0 else text.rjust(1 - exponent, "0")
    text = f"{text[:exponent]}.{text[exponent:]}".rstrip("0").removesuffix(".") if exponent < 0 else text
    return f"-{text}" if digits < 0 else text


numbers = st.builds(
    plain_text,
    st.integers(-(10**38) + 1, 10**38 - 1).filter(bool),
    st.integers(-130, 87),  # 38 digits and 87 zeros are just below 1E+126
) | st.just("0")
texts = st.text()
leaves = (
    st.builds(lambda text: {"S": text}, texts)
    | st.builds(lambda text: {"N": text}, numbers)
    | st.builds(lambda binary: {"B": binary}, st.binary())
    | st.builds(lambda truth: {"BOOL": truth}, st.booleans())
    | st.just({"NULL": True})
    | st.builds(lambda each: {"SS": sorted(each)}, st.sets(st.text(min_size=1), min_size=1, max_size=3))
    | st.builds(lambda each: {"NS": sorted(each, key=Decimal)}, st.sets(numbers, min_size=1, max_size=3))
    | st.builds(lambda each: {"BS": sorted(each)}, st.sets(st.binary(min_size=1), min_size=1, max_size=3))
)
attributes = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda each: {"L": each}, st.lists(inner, max_size=3))
        | st.builds(lambda each: {"M": each}, st.dictionaries(st.text(min_size=1), inner, max_size=3))
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(min_size=1), attributes, max_size=4))
@settings(max_examples=25)
def test_values_are_what_they_were_when_read_and_written(held: dict[str, Any]) -> None:
    read = from_attributes(held)
    assert to_attributes(read) == held
    assert "float" not in kinds(read)


def kinds(value: Any) -> set[str]:
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list | set) else ()
    return {type(value).__name__}.union(*map(kinds, within))


@pytest.mark.parametrize(
    ("written", "read", "again"),
    [
        ("1" + "0" * 39, 10**39, "1" + "0" * 39),  # the client of another language; boto3's context refuses to read it
        ("1E+125", 10**125, "1" + "0" * 125),
        ("1E-130", Decimal("1E-130"), "0." + "0" * 129 + "1"),
        ("9" * 38 + "0" * 88, int("9" * 38 + "0" * 88), "9" * 38 + "0" * 88),
        ("12.50", Decimal("12.5"), "12.5"),
        ("5.0", 5, "5"),
        ("-0", 0, "0"),
        ("-0.0", 0, "0"),
        ("007", 7, "7"),
        ("-1.5E1", -15, "-15"),
    ],
)
def test_number_is_exact_when_written_by_any_client(written: str, read: Any, again: str) -> None:
    found = from_attribute({"N": written})
    assert (found, type(found)) == (read, type(read))
    assert to_attribute(found) == {"N": again}


@given(st.integers(0, 10**38 - 1), st.integers(-130, 87))
def test_equal_numbers_have_one_text_when_they_are_written_differently(digits: int, exponent: int) -> None:
    number = Decimal(digits).scaleb(exponent, Context(prec=60))
    longer = Decimal((0, (*number.as_tuple().digits, 0, 0), exponent - 2))
    assert number_text(longer) == number_text(number)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Size(int, Enum):
    LARGE = 9


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        (Colour.RED, {"S": "red"}),
        (Level.HIGH, {"N": "3"}),
        (Size.LARGE, {"N": "9"}),
        (True, {"BOOL": True}),
        ((1, "a"), {"L": [{"N": "1"}, {"S": "a"}]}),
        (MappingProxyType({"a": None}), {"M": {"a": {"NULL": True}}}),
        (frozenset({2, Decimal("1.0")}), {"NS": ["1", "2"]}),
        (bytearray(b"x"), {"B": b"x"}),
        (Binary(b"x"), {"B": b"x"}),  # what boto3's resource reads
        ("", {"S": ""}),
        (b"", {"B": b""}),
    ],
)
def test_python_value_has_its_attribute_when_it_is_a_subclass_or_a_kin(value: Any, attribute: dict[str, Any]) -> None:
    assert to_attribute(value) == attribute


def test_bytes_are_bytes_when_an_export_or_a_stream_has_them_as_base64() -> None:
    assert from_attributes({"one": {"B": "eA=="}, "more": {"BS": ["eA==", "eQ=="]}}) == {
        "one": b"x",
        "more": {b"x", b"y"},
    }


def nested(levels: int) -> Any:
    """A value whose innermost text is at this level of its attribute."""
    value: Any = "leaf"
    for level in range(levels - 1):
        value = [value] if level % 2 else {"deeper": value}
    return value


CODE, CONTENT = False, True


@pytest.mark.parametrize(
    ("value", "text", "of_content"),
    [
        (1.5, r"is a float, which no table holds; write Decimal\(str\(value\)\)", CODE),
        (float("nan"), "is a float", CODE),
        (object(), "is a object, which no table holds; write text, numbers, bytes", CODE),
        ({1: "a"}, "has a key that is not text but int", CODE),
        ({1, "a"}, "only texts, only numbers or only bytes", CODE),
        ({True}, "only texts, only numbers or only bytes", CODE),
        ({(1, 2)}, "only texts, only numbers or only bytes", CODE),
        ({1.5}, "is a float", CODE),
        (set(), "is an empty set; leave the attribute out", CONTENT),
        ({""}, "a set with an empty element", CONTENT),
        (10**39 + 1, "has more than 38 digits", CONTENT),
        (Decimal("0." + "3" * 39), "has more than 38 digits", CONTENT),
        (10**126, "is out of range", CONTENT),
        (Decimal("1E-131"), "is out of range", CONTENT),
        (Decimal("NaN"), "is NaN or infinite", CONTENT),
        (Decimal("-Infinity"), "is NaN or infinite", CONTENT),
        ("\ud800", "half a surrogate pair", CONTENT),
        ({"\ud800": 1}, "half a surrogate pair", CONTENT),
        (nested(31), "more than 32 levels deep", CONTENT),
    ],
)
def test_value_is_refused_with_the_remedy_when_no_table_holds_it(value: Any, text: str, of_content: bool) -> None:
    with pytest.raises(InvalidValue, match=rf"^'parts\[1\]\.deep.*' .*{text}") as refused:
        to_attributes({"parts": ["fine", {"deep": value}]})
    assert refused.value.of_content is of_content


@pytest.mark.parametrize("exponent", ["999999999", "-999999999"])
def test_zero_is_one_digit_when_its_exponent_is_huge(exponent: str) -> None:
    zero = Decimal(f"0E{exponent}")  # with its zeros written out it would not fit into memory

    assert to_attribute(zero) == {"N": "0"}
    assert canonical_json({"n": zero}) == '{"n":0}'


def test_value_is_accepted_when_it_is_at_dynamodbs_last_level() -> None:
    assert from_attributes(to_attributes({"a": nested(32)})) == {"a": nested(32)}


@pytest.mark.parametrize("name", ["9990000018", "patient 9990000018", "p9990000018", "p999-000-0018", "x" * 65, 7])
def test_name_is_withheld_when_it_may_be_content(name: Any) -> None:
    assert shown_name(name) == "..."
    with pytest.raises(
        InvalidValue, match=r"^'\.\.\.' is a float" if isinstance(name, str) else "key that is not text"
    ):
        to_attributes({name: 0.5})


def test_size_follows_the_developer_guide() -> None:
    item = {"id": "abc", "n": 12345, "flag": True, "l": ["xy"]}
    assert sum(len(name) + size(to_attribute(value)) for name, value in item.items()) == 5 + 5 + 5 + 7


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text("\0a\n\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("\0a"), inner),
    max_leaves=10,
)


@given(json_values)
def test_result_is_what_it_was_when_it_went_through_json(value: Any) -> None:
    """A fraction is a float or a Decimal again; a whole Decimal is an int, as from DynamoDB."""
    text = canonical_json(value)
    json.loads(text)  # any reader reads it
    found = from_json(text)
    assert found == value
    assert kinds(found) - {"int"} == kinds(value) - {"int", "Decimal"} | (kinds(found) & {"Decimal"})


def test_decimal_has_all_its_digits_when_it_is_printed_as_json() -> None:
    amount = Decimal("0.12345678901234567890123456789")
    assert to_json({"amount": amount, "whole": Decimal(5)}, indent=1) == (
        '{\n "amount": 0.12345678901234567890123456789,\n "whole": 5\n}'
    )
    assert (
        to_json({"amount": amount, "at": {1}}, other=sorted) == '{"amount": 0.12345678901234567890123456789, "at": [1]}'
    )
