"""The stand-in answers random operations as moto does, and leaves the same items behind."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.expressions.parser import RESERVED
from tests.kits.consumer import Clock, create_tables, moto_client, slot_item

ITEM: dict[str, Any] = {
    "count_": {"N": "5"},
    "words": {"S": "hello"},
    "tags": {"SS": ["a", "b"]},
    "flag": {"BOOL": True},
    "numbers": {"L": [{"N": "1"}, {"N": "2"}, {"N": "3"}]},
    "doc": {"M": {"inside": {"S": "x"}, "many": {"L": [{"S": "p"}]}}},
}
VALUES: dict[str, Any] = {
    ":1": {"N": "1"},
    ":5": {"N": "5"},
    ":9": {"N": "9"},
    ":he": {"S": "he"},
    ":a": {"S": "a"},
    ":x": {"S": "x"},
    ":S": {"S": "S"},
    ":t": {"BOOL": True},
    ":set": {"SS": ["b", "a"]},
    ":b": {"SS": ["b"]},
    ":list": {"L": [{"N": "4"}]},
    ":none": {"L": []},
}
IDS = ("m-1", "m-2")


def join(*parts: Any) -> st.SearchStrategy[str]:
    """Write parts, which are text or strategies of it, one after another."""
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


paths = st.sampled_from(["count_", "words", "tags", "flag", "numbers", "absent_one", "doc.inside", "doc.many[0]"])
measured = st.sampled_from(["words", "tags", "numbers", "doc"])
counted = st.sampled_from(["count_", "numbers[0]", "numbers[7]", "absent_one.deep"])
texts = st.sampled_from(["words", "doc.inside", "doc.many[0]", "doc.many[1]", "absent_one"])
numbers = st.sampled_from([":1", ":5", ":9"])
words = st.sampled_from([":he", ":a", ":x"])
equal, ordered = st.sampled_from([" = ", " <> "]), st.sampled_from([" < ", " <= ", " > ", " >= "])
# moto takes true for 1, cannot order values of two types, nor measure what is absent: these are not asked.
atoms = (
    join(counted, equal | ordered, numbers)
    | join(texts, equal | ordered, words)
    | join(counted, equal, words)
    | join("flag", equal, ":t")
    | join("tags", equal, ":set")
    | join(st.sampled_from(["attribute_exists(", "attribute_not_exists("]), paths | counted, ")")
    | join("begins_with(", texts, ", ", words, ")")
    | join("contains(", st.sampled_from(["words", "tags"]), ", ", words, ")")
    | join("contains(numbers, ", numbers, ")")
    | measured.flatmap(lambda path: join(f"(attribute_exists({path}) AND size({path})", equal | ordered, numbers, ")"))
    | join("attribute_type(", paths, ", :S)")
    | join("count_ BETWEEN ", st.sampled_from([":1 AND :5", ":5 AND :9", ":1 AND :1"]))
    | join(counted, " IN (", numbers, ", ", numbers, ")")
)
conditions = st.recursive(
    atoms,
    lambda inner: join("NOT (", inner, ")") | join("(", inner, st.sampled_from([" AND ", " OR "]), inner, ")"),
    max_leaves=4,
)
targets = st.sampled_from(["count_", "fresh", "doc.inside", "numbers[1]", "numbers[7]", "absent_one.deep", "words"])
assigned = (
    numbers
    | st.sampled_from([":he", "words", "count_ + :1", "count_ - :9", "absent_one", "list_append(numbers, :list)"])
    | join("if_not_exists(", st.sampled_from(["count_", "absent_one"]), ", ", numbers, ")")
    | st.just("list_append(if_not_exists(fresh, :none), :list)")
)
sections = [
    join("SET ", targets, " = ", assigned) | join("SET added = ", assigned, ", ", targets, " = ", assigned),
    st.sampled_from(["REMOVE flag", "REMOVE doc.many[0]", "REMOVE numbers[0], numbers[2]", "REMOVE gone"]),
    st.sampled_from(["ADD sum_ :5", "ADD more :set", "ADD tags :b", "ADD tags :1"])
    | st.sampled_from(["DELETE tags :b", "DELETE tags :set", "DELETE unknown_one :b"]),
]
updates = st.sets(st.sampled_from(range(3)), min_size=1).flatmap(
    lambda chosen: join(*(part for at in sorted(chosen) for part in (sections[at], " ")))
)
returned = st.sampled_from(["NONE", "ALL_OLD", "ALL_NEW"])


def used(*texts: str) -> dict[str, Any]:
    names = {name for text in texts for name in re.findall(r":\w+", text)}
    return {"ExpressionAttributeValues": {name: VALUES[name] for name in names}} if names else {}


def conditional(condition: str | None, *texts: str) -> dict[str, Any]:
    if condition is None:
        return used(*texts)
    on_failure = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    return {"ConditionExpression": condition, **on_failure, **used(condition, *texts)}


ledger = {"TableName": "ledger"}
keys = st.sampled_from(IDS).map(lambda each: {"message_id": {"S": each}})
maybe = st.none() | conditions
puts = st.builds(lambda key, condition: {**ledger, "Item": {**key, **ITEM}, **conditional(condition)}, keys, maybe)
deletes = st.builds(lambda key, condition: {**ledger, "Key": key, **conditional(condition)}, keys, maybe)
changes = st.builds(
    lambda key, update, condition: {**ledger, "Key": key, "UpdateExpression": update, **conditional(condition, update)},
    keys,
    updates,
    maybe,
)
operations = st.one_of(
    puts.map(lambda one: ("put_item", one)),
    deletes.map(lambda one: ("delete_item", one)),
    st.builds(lambda one, wanted: ("update_item", {**one, "ReturnValues": wanted}), changes, returned),
    st.lists(
        puts.map(lambda one: {"Put": one})
        | changes.map(lambda one: {"Update": one})
        | deletes.map(lambda one: {"Delete": one}),
        min_size=1,
        max_size=3,
    ).map(lambda actions: ("transact_write_items", {"TransactItems": actions})),
    st.lists(keys, min_size=1, max_size=2, unique_by=str).map(
        lambda some: (
            "batch_get_item",
            {"RequestItems": {"ledger": {"Keys": some, "ProjectionExpression": "count_, doc"}}},
        )
    ),
    conditions.map(lambda one: ("scan", {**ledger, "FilterExpression": one, **used(one)})),
    st.just(("scan", {**ledger, "Select": "COUNT"})),
)


def query(table: str, condition: str, values: dict[str, str], **more: Any) -> tuple[str, dict[str, Any]]:
    typed = {name: {"S": value} for name, value in values.items()}
    shared = {"TableName": table, "KeyConditionExpression": condition, "ExpressionAttributeValues": typed}
    return "query", {**shared, **more}


def changed(expression: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "update_item", {**ledger, "Key": {"message_id": {"S": "m-1"}}, "UpdateExpression": expression, **more}


def read(*message_ids: str, **more: Any) -> tuple[str, dict[str, Any]]:
    some = [{"message_id": {"S": each}} for each in message_ids]
    return "batch_get_item", {"RequestItems": {"ledger": {"Keys": some, **more}}}


FREE = "practice = :p AND free_key BETWEEN :first AND :last"
ALL: dict[str, str] = {":p": "A81001", ":first": "A", ":last": "z"}
SECOND_ON = {**ALL, ":first": str(slot_item(1)["free_key"])}
OF_PRACTICE: dict[str, str] = {":p": "A81001"}
NAMED = {
    "ProjectionExpression": "#status, #absent",
    "ExpressionAttributeNames": {"#status": "count_", "#absent": "absent"},
}
BUYERS = ("orders", "buyer = :b", {":b": "b"})
ONE = {":a": {"S": "a"}}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    query("slots", FREE, ALL, IndexName="free_slots", ConsistentRead=True),
    query("slots", FREE, SECOND_ON, IndexName="free_slots", Limit=1),
    query("slots", FREE, ALL, IndexName="free_slots", Limit=2, ProjectionExpression="slot_id, free_key, nothing"),
    query("slots", "practice = :p", OF_PRACTICE, Limit=1, Select="COUNT"),
    query("slots", "practice = :p", {":p": "A81002"}, Select="COUNT"),
    *(
        query("slots", "practice = :p", OF_PRACTICE, ProjectionExpression=invalid)
        for invalid in ("start", "slot_id slot_id", "slot_id, slot_id", "")
    ),
    query(*BUYERS, IndexName="by_buyer"),
    query(*BUYERS, IndexName="by_buyer", Limit=1),
    read("m-2", "absent", "m-1"),
    read("m-1", **NAMED),
    read(*(str(number) for number in range(100))),
    read(*(str(number) for number in range(101))),
    read("m-1", "m-1"),
    ("get_item", {**ledger, "Key": {"message_id": {"S": "m-1"}}, **NAMED}),
    ("get_item", {"TableName": "slots", "Key": {"practice": {"S": "A81001"}}}),
    ("get_item", {"TableName": "nowhere", "Key": {"message_id": {"S": "m-1"}}}),
    (
        "batch_write_item",
        {
            "RequestItems": {
                "ledger": [
                    {"PutRequest": {"Item": {"message_id": {"S": "m-2"}}}},
                    {"DeleteRequest": {"Key": {"message_id": {"S": "m-1"}}}},
                ]
            }
        },
    ),
    (
        "transact_get_items",
        {"TransactItems": [{"Get": {**ledger, "Key": {"message_id": {"S": each}}}} for each in ("m-1", "gone")]},
    ),
    changed("SET a = :undefined"),
    changed("SET a = :a", ExpressionAttributeValues={**ONE, ":unused": {"S": "b"}}),
    changed("SET status = :a", ExpressionAttributeValues=ONE),
    changed("SET a = ", ExpressionAttributeValues=ONE),
    changed("SET message_id = :a", ExpressionAttributeValues=ONE),
    changed("SET a = nonsense(words, :a)", ExpressionAttributeValues=ONE),
    changed("SET a = :a SET b = :a", ExpressionAttributeValues=ONE),
    changed("SET a = :a, a = :a", ExpressionAttributeValues=ONE),
    changed("SET doc.inside = :a, doc = :a", ExpressionAttributeValues=ONE),
    changed("SET flag = flag + :1", ExpressionAttributeValues={":1": {"N": "1"}}),
    changed("ADD tags :1", ExpressionAttributeValues={":1": {"N": "1"}}),
    *(
        changed("ADD sum_ :1", ExpressionAttributeValues={":1": {"N": "1"}}, ReturnValues=wanted)
        for wanted in ("UPDATED_OLD", "UPDATED_NEW")
    ),
]
"""Requests that no strategy makes: indexes, several items at once, and what DynamoDB refuses."""


def fill(client: Any) -> None:
    """Create the tables, and the items that are only read: a practice's slots, and a buyer's orders."""
    create_tables(client)
    types = {"id": "S", "buyer": "S", "placed": "N"}
    by_buyer = {
        "IndexName": "by_buyer",
        "KeySchema": [{"AttributeName": "buyer", "KeyType": "HASH"}, {"AttributeName": "placed", "KeyType": "RANGE"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    client.create_table(
        TableName="orders",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()],
        GlobalSecondaryIndexes=[by_buyer],
    )
    for number in range(4):
        slot = {name: {"S": value} for name, value in slot_item(number).items() if number != 1 or name != "free_key"}
        client.put_item(TableName="slots", Item=slot)
    for order, placed in (("o-1", {"placed": {"N": "10"}}), ("o-2", {"placed": {"N": "9"}}), ("o-3", {})):
        client.put_item(
            TableName="orders", Item={"id": {"S": order}, "buyer": {"S": "b"}, "more": {"S": "x"}, **placed}
        )


def plain(value: Any) -> Any:
    """Return an answer without what has no order, and without what only one of the two says."""
    match value:
        case {"SS": list() as texts}:
            return {"SS": sorted(texts)}
        case dict():
            return {
                name: plain(one) for name, one in sorted(value.items()) if name not in ("ResponseMetadata", "Message")
            }
        case list():
            return [plain(one) for one in value]
    return value


SAID_BY_ONE = {"ResponseMetadata", "ConsumedCapacity", "ItemCollectionMetrics"}


def outcome(client: Any, operation: str, request: dict[str, Any]) -> Any:
    try:
        answer = getattr(client, operation)(**request)
    except ClientError as error:
        said = error.response
        reasons = [(one["Code"], plain(one.get("Item"))) for one in said.get("CancellationReasons", ())]
        if "ValidationError" in dict(reasons):  # DynamoDB's documentation has it as a reason; moto refuses the request
            return "ValidationException", [], {}
        return said["Error"]["Code"], reasons, plain(said.get("Item") or {})
    found = {name: plain(one) for name, one in answer.items() if name not in SAID_BY_ONE}
    found["LastEvaluatedKey"] = "LastEvaluatedKey" in found
    if operation == "scan" and "Items" in found:
        found["Items"] = sorted(found["Items"], key=str)
    for table, some in found.get("Responses", {}).items() if operation == "batch_get_item" else ():
        found["Responses"][table] = sorted(some, key=str)
    return {name: one for name, one in found.items() if one}


def begin(client: Any) -> None:
    """Leave one item in the ledger."""
    for each in IDS:
        client.delete_item(TableName="ledger", Key={"message_id": {"S": each}})
    client.put_item(TableName="ledger", Item={"message_id": {"S": "m-1"}, **ITEM})


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[Any, Any]]:
    """The stand-in and moto."""
    port = InMemoryDynamoDB(Clock())
    fill(port)
    with mock_aws():
        moto = moto_client("dynamodb")
        fill(moto)
        yield port, moto


@given(st.lists(operations, min_size=1, max_size=6))
@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
def test_stand_in_answers_as_moto_does(clients: tuple[Any, Any], calls: list[tuple[str, dict[str, Any]]]) -> None:
    port, moto = clients
    for client in clients:
        begin(client)
    for operation, request in [*calls, ("scan", ledger)]:
        assert outcome(port, operation, request) == outcome(moto, operation, request), (operation, request)


@given(atoms)
@settings(max_examples=120, derandomize=True, suppress_health_check=list(HealthCheck))
def test_stand_in_finds_what_moto_finds(clients: tuple[Any, Any], condition: str) -> None:
    port, moto = clients
    for client in clients:
        begin(client)
    request = {**ledger, "FilterExpression": condition, **used(condition)}
    assert outcome(port, "scan", request) == outcome(moto, "scan", request), condition


@pytest.mark.parametrize(("operation", "request_"), REQUESTS)
def test_stand_in_answers_a_rare_request_as_moto_does(
    clients: tuple[Any, Any], operation: str, request_: dict[str, Any]
) -> None:
    port, moto = clients
    for client in clients:
        begin(client)
    assert outcome(port, operation, request_) == outcome(moto, operation, request_)


def test_reserved_words_are_those_of_moto() -> None:
    assert set(ReservedKeywords.get_reserved_keywords()) == RESERVED
