"""One contract for expressions: the stand-in, moto and the embedded AWS, with each known difference named."""

from __future__ import annotations

import re
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from oneslot.explorer.services.expressions.reserved_words import RESERVED
from tests.oneslot.explorer.port_clients import EMBEDDED, MOTO, everywhere, get, put, refusal, update

ITEM: dict[str, Any] = {
    "count_": {"N": "5"},
    "words": {"S": "hello"},
    "tags": {"SS": ["a", "b"]},
    "bytes_": {"B": b"\x01\x02"},
    "flag": {"BOOL": True},
    "numbers": {"L": [{"N": "1"}, {"N": "2"}, {"N": "3"}]},
    "doc": {"M": {"inside": {"S": "x"}, "many": {"L": [{"S": "p"}]}}},
}
VALUES: dict[str, Any] = {
    ":1": {"N": "1"},
    ":5": {"N": "5"},
    ":9": {"N": "9"},
    ":10": {"N": "10"},
    ":he": {"S": "he"},
    ":a": {"S": "a"},
    ":S": {"S": "S"},
    ":x": {"S": "x"},
    ":t": {"BOOL": True},
    ":set": {"SS": ["b", "a"]},
    ":b": {"SS": ["b"]},
    ":c": {"SS": ["c", "a"]},
    ":list": {"L": [{"N": "4"}]},
    ":none": {"L": []},
    ":bytes": {"B": b"\x01"},
}


def values_in(*texts: str) -> dict[str, Any]:
    used = {name for text in texts for name in re.findall(r":\w+", text)}
    return {"ExpressionAttributeValues": {name: VALUES[name] for name in used}} if used else {}


def outcome(client: Any, expression: str, **more: Any) -> Any:
    """Return the attributes after an update of the item, without its key, or the code of the refusal."""
    put(client, "m", **ITEM)
    try:
        update(client, "m", expression, **values_in(expression, *more.values()), **more)
    except ClientError as error:
        return error.response["Error"]["Code"]
    found = dict(get(client, "m") or {})
    del found["message_id"]
    return {name: {"SS": sorted(value["SS"])} if "SS" in value else value for name, value in found.items()}


CONDITIONS = [
    ("attribute_exists(count_)", True),
    ("attribute_not_exists(count_)", False),
    ("attribute_not_exists(absent_one) AND count_ > :9", False),
    ("count_ <> :5", False),
    ("count_ < :10", True),
    ("count_ >= :9 OR (words = :he AND count_ <= :5)", False),
    ("count_ BETWEEN :5 AND :9", True),
    ("count_ = :he", False),
    ("absent_one < :9", False),
    ("absent_one <> :9", True),
    ("NOT absent_one = :9", True),
    ("begins_with(words, :he)", True),
    ("contains(words, :he)", True),
    ("contains(tags, :a)", True),
    ("contains(tags, :x)", False),
    ("contains(numbers, :1)", True),
    ("contains(numbers, :9)", False),
    ("size(tags) < :5", True),
    ("size(words) = :5", True),
    ("size(count_) = :5", False),
    ("attribute_type(words, :S)", True),
    ("attribute_type(count_, :S)", False),
    ("count_ IN (:1, :5)", True),
    ("NOT count_ IN (:1, :9)", True),
    ("doc.inside = :x", True),
    ("numbers[0] = :1 AND numbers[2] > :1", True),
    ("attribute_exists(doc.many[0])", True),
    ("attribute_not_exists(doc.many[1])", True),
    ("attribute_not_exists(absent_one.deep)", True),
    ("tags = :set", True),
    ("flag = :t", True),
    ("begins_with(bytes_, :bytes)", True),
    ("count_ = :9 OR count_ = :5 AND words = :he", False),
    ("(count_ = :9 OR count_ = :5) AND NOT words = :he", True),
]


DIVERGENCES = {
    (MOTO, "size(count_) = :5"): "takes the length of a number's text",
    (MOTO, "begins_with(bytes_, :bytes)"): "fails on binaries",
    (EMBEDDED, "REMOVE numbers[0], numbers[2]"): "counts the second index after the first removal",
    (EMBEDDED, "SET flag = flag + :1"): "adds a number to a boolean",
    (EMBEDDED, "SET a = :1, a = :5"): "accepts overlapping paths",
    (EMBEDDED, "SET doc.inside = :1, doc = :5"): "accepts overlapping paths",
    (EMBEDDED, "SET a = :1 SET b = :5"): "accepts a section twice",
}
"""How a client differs where AWS's documentation decides, by client and expression. Each entry must fail its test."""


@pytest.fixture(autouse=True)
def known_divergences(request: pytest.FixtureRequest) -> None:
    """Expect the failure of a client that is known to differ."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    text = parameters.get("condition") or parameters.get("expression")
    reason = DIVERGENCES.get((parameters.get("client", ""), text or ""))
    if reason is not None:
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.mark.parametrize(("condition", "holds"), CONDITIONS, ids=[condition for condition, _ in CONDITIONS])
@everywhere
def test_condition_holds(client: Any, condition: str, holds: bool) -> None:
    after = outcome(client, "SET seen = :1", ConditionExpression=condition)

    assert ("seen" in after) == holds
    assert holds or after == "ConditionalCheckFailedException"


UPDATES: list[tuple[str, Any]] = [
    ("SET count_ = count_ - :1", {"count_": {"N": "4"}}),
    ("SET numbers = list_append(numbers, :list)", {"numbers": {"L": [{"N": n} for n in "1234"]}}),
    ("SET fresh = list_append(if_not_exists(fresh, :none), :list)", {"fresh": {"L": [{"N": "4"}]}}),
    ("SET doc.inside = :a", {"doc": {"M": {**ITEM["doc"]["M"], "inside": {"S": "a"}}}}),
    ("SET numbers[1] = :9", {"numbers": {"L": [{"N": n} for n in "193"]}}),
    ("SET numbers[7] = :9", {"numbers": {"L": [{"N": n} for n in "1239"]}}),
    ("REMOVE numbers[0], numbers[2]", {"numbers": {"L": [{"N": "2"}]}}),
    ("REMOVE doc.inside", {"doc": {"M": {"many": {"L": [{"S": "p"}]}}}}),
    ("ADD tags :c", {"tags": {"SS": ["a", "b", "c"]}}),
    ("ADD fresh :c", {"fresh": {"SS": ["a", "c"]}}),
    ("DELETE tags :b", {"tags": {"SS": ["a"]}}),
    ("SET a = :1 REMOVE flag ADD count_ :5", {"a": {"N": "1"}, "flag": None, "count_": {"N": "10"}}),
    ("DELETE tags :set", {"tags": None}),
    ("SET a = absent_one", "ValidationException"),
    ("SET absent_one.deep = :1", "ValidationException"),
    ("ADD tags :1", "ValidationException"),
    ("SET flag = flag + :1", "ValidationException"),
    ("SET a = :1, a = :5", "ValidationException"),
    ("SET doc.inside = :1, doc = :5", "ValidationException"),
    ("SET a = :1 SET b = :5", "ValidationException"),
    ("SET a = nonsense(b, :5)", "ValidationException"),
]


@pytest.mark.parametrize(("expression", "expected"), UPDATES, ids=[expression for expression, _ in UPDATES])
@everywhere
def test_update_changes_the_item(client: Any, expression: str, expected: Any) -> None:
    after = outcome(client, expression)

    if isinstance(expected, dict):
        wanted = {name: value for name, value in {**ITEM, **expected}.items() if value is not None}
        assert after == wanted
    else:
        assert after == expected


@everywhere
def test_condition_decides_before_the_update(client: Any) -> None:
    values = {":1": {"N": "1"}}

    told = refusal(
        lambda: update(
            client,
            "absent",
            "SET a = a + :1",
            ConditionExpression="attribute_exists(a)",
            ExpressionAttributeValues=values,
        )
    )

    assert told["Error"]["Code"] == "ConditionalCheckFailedException"


@pytest.mark.parametrize("wanted", ["ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"])
@everywhere
def test_update_returns_the_values_it_is_asked_for(client: Any, wanted: str) -> None:
    put(client, "m", a={"N": "1"}, b={"S": "b"})

    answer = update(client, "m", "ADD a :1", ExpressionAttributeValues={":1": {"N": "1"}}, ReturnValues=wanted)

    number = {"a": {"N": "1" if wanted.endswith("OLD") else "2"}}
    whole = {"message_id": {"S": "m"}, "b": {"S": "b"}} if wanted.startswith("ALL") else {}
    assert answer["Attributes"] == {**number, **whole}


@everywhere
def test_batch_writes_and_transaction_reads(client: Any) -> None:
    put(client, "gone")
    writes = [
        {"PutRequest": {"Item": {"message_id": {"S": "m"}}}},
        {"DeleteRequest": {"Key": {"message_id": {"S": "gone"}}}},
    ]

    written = client.batch_write_item(RequestItems={"ledger": writes})
    read = client.transact_get_items(
        TransactItems=[{"Get": {"TableName": "ledger", "Key": {"message_id": {"S": each}}}} for each in ("m", "gone")]
    )

    assert written["UnprocessedItems"] == {}
    assert [one.get("Item") for one in read["Responses"]] == [{"message_id": {"S": "m"}}, None]


@everywhere
def test_scan_filters_and_counts(client: Any) -> None:
    for number in range(4):
        put(client, f"m-{number}", n={"N": str(number)})

    found = client.scan(TableName="ledger", FilterExpression="n >= :2", ExpressionAttributeValues={":2": {"N": "2"}})

    assert sorted(item["n"]["N"] for item in found["Items"]) == ["2", "3"]
    assert (found["Count"], found["ScannedCount"]) == (2, 4)


@everywhere
def test_pages_by_limit_hold_every_item_once(client: Any) -> None:
    for number in range(5):
        put(client, f"m-{number}")
    seen: list[str] = []
    start: dict[str, Any] = {}
    while True:
        page = client.scan(TableName="ledger", Limit=2, **start)
        seen += [item["message_id"]["S"] for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert sorted(seen) == [f"m-{number}" for number in range(5)]


@everywhere
def test_global_index_finds_its_projected_items(client: Any) -> None:
    client.create_table(
        TableName="orders",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "buyer", "AttributeType": "S"},
            {"AttributeName": "placed", "AttributeType": "N"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_buyer",
                "KeySchema": [
                    {"AttributeName": "buyer", "KeyType": "HASH"},
                    {"AttributeName": "placed", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )
    for order, placed in (("o-1", "10"), ("o-2", "9")):
        item = {"id": {"S": order}, "buyer": {"S": "b"}, "placed": {"N": placed}, "more": {"S": "x"}}
        client.put_item(TableName="orders", Item=item)
    client.put_item(TableName="orders", Item={"id": {"S": "o-3"}, "buyer": {"S": "b"}})

    found = client.query(
        TableName="orders",
        IndexName="by_buyer",
        KeyConditionExpression="buyer = :b",
        ExpressionAttributeValues={":b": {"S": "b"}},
    )

    keys = [{"id": {"S": o}, "buyer": {"S": "b"}, "placed": {"N": n}} for o, n in (("o-2", "9"), ("o-1", "10"))]
    assert found["Items"] == keys


def test_reserved_words_are_those_of_moto() -> None:
    assert set(ReservedKeywords.get_reserved_keywords()) == RESERVED
