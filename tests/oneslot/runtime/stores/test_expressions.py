"""Plain values and expressions, as DynamoDB spells them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import Binary, TypeSerializer

from oneslot.runtime.effects import Once, Put, Raw, Update
from oneslot.runtime.stores.elements import transact_items
from oneslot.runtime.values import to_attributes


@pytest.mark.parametrize(
    "value",
    [
        *("text", None, True, 1, -(10**37), Decimal("1.5"), b"bytes", bytearray(b"b"), Binary(b"b")),
        *({"a": [1, {"b": None}]}, (1, "a"), {1, Decimal("1.5")}, frozenset({"a"}), {b"a"}),
    ],
    ids=repr,
)
def test_value_is_written_as_boto3_writes_it(value: Any) -> None:
    assert to_attributes({"value": value})["value"] == TypeSerializer().serialize(value)


def test_update_without_change_names_the_remedy() -> None:
    """DynamoDB has no update without a clause, and other stores must not take what it refuses."""
    with pytest.raises(
        ValueError, match="'things' changes nothing; give an attribute a value, or use Check to rely on it"
    ):
        Update("things", {"id": "a"}, expect={"status": "active"})


def test_put_without_its_key_is_refused() -> None:
    """`attribute_not_exists` holds for whatever item is there, if it speaks of an attribute that no item has."""
    with pytest.raises(ValueError, match="'seats' has no attribute 'seatId' in its item"):
        Put("seats", "seatId", {"seat_id": "A1"})


def test_once_is_a_put() -> None:
    update: Any = Update("seats", {"seat": "A1"}, {"state": "free"}, {"state": "taken"})
    with pytest.raises(TypeError, match="`once` must hold a Put"):
        Once(update, dict)


def test_raw_write_has_its_tables_real_name() -> None:
    request = {"TableName": "things", "Key": {"id": {"S": "a"}}, "ConditionExpression": "attribute_exists(id)"}
    (made,) = transact_items([Raw({"Delete": request})], {"things": "RealThings"}, {})
    assert made["Delete"] == {**request, "TableName": "RealThings", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
