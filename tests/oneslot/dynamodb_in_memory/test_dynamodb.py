"""The stand-in where moto differs from DynamoDB, whose documentation decides; `test_dynamodb_as_moto.py` has the rest."""

from typing import Any

import pytest

from oneslot.dynamodb_in_memory import TOKEN_WINDOW_MS, InMemoryDynamoDB
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from tests.kits.consumer import Clock, create_tables, refusal

KEY = {"message_id": {"S": "m-1"}}


class Port(InMemoryDynamoDB):
    """The stand-in with the three tables, and its clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(self.clock)
        create_tables(self)

    def count(self, *, token: str, by: str = "1") -> None:
        """Add to the item's count in a transaction."""
        update = {
            "TableName": "ledger",
            "Key": KEY,
            "UpdateExpression": "ADD consumption_count :by",
            "ExpressionAttributeValues": {":by": {"N": by}},
        }
        self.transact_write_items(TransactItems=[{"Update": update}], ClientRequestToken=token)

    @property
    def counted(self) -> str:
        """The item's count."""
        return str(self.get_item(TableName="ledger", Key=KEY)["Item"]["consumption_count"]["N"])


def test_token_is_performed_once_in_ten_minutes() -> None:
    port = Port()
    for _ in range(2):
        port.count(token="token-1")
    assert port.counted == "1"
    told = refusal(lambda: port.count(token="token-1", by="2"))
    assert told["Error"]["Code"] == "IdempotentParameterMismatchException"
    port.clock.now += TOKEN_WINDOW_MS
    port.count(token="token-1")
    assert port.counted == "2"


def test_cancelled_transaction_leaves_its_token_unused() -> None:
    port = Port()
    put = {"TableName": "ledger", "Item": KEY, "ConditionExpression": "attribute_not_exists(message_id)"}
    again: dict[str, Any] = {"TransactItems": [{"Put": put}], "ClientRequestToken": "token-1"}
    port.put_item(TableName="ledger", Item=KEY)
    refusal(lambda: port.transact_write_items(**again))
    port.delete_item(TableName="ledger", Key=KEY)
    port.transact_write_items(**again)
    assert port.get_item(TableName="ledger", Key=KEY)["Item"] == KEY


@pytest.mark.parametrize(
    ("expression", "kind", "sentence"),
    [
        ("SET #undefined = :a", "S", "#undefined"),
        ("SET free_key = :a", "N", "Index Key free_key Expected: S Actual: N IndexName: free_slots"),
    ],
)
def test_update_is_refused_by_undefined_names_and_types_of_keys(expression: str, kind: str, sentence: str) -> None:
    request = {"UpdateExpression": expression, "ExpressionAttributeValues": {":a": {kind: "1"}}}
    request |= {"TableName": "slots", "Key": {"practice": {"S": "A81001"}, "slot_id": {"S": "s-1"}}}
    error = refusal(lambda: Port().update_item(**request))["Error"]
    assert (error["Code"], sentence in error["Message"]) == ("ValidationException", True)


@pytest.mark.parametrize(("condition", "found"), [("size(n) = :1", 0), ("begins_with(b, :b)", 1)])
def test_filter_reads_numbers_and_bytes(condition: str, found: int) -> None:
    """A number has no size, and bytes have a beginning."""
    port = Port()
    port.put_item(TableName="ledger", Item={**KEY, "n": {"N": "5"}, "b": {"B": b"\x01\x02"}})
    values = {":1": {"N": "1"}} if ":1" in condition else {":b": {"B": b"\x01"}}
    answer = port.scan(TableName="ledger", FilterExpression=condition, ExpressionAttributeValues=values)
    assert answer["Count"] == found
    assert port.get_item(TableName="ledger", Key=KEY, AttributesToGet=["n", "a"])["Item"] == {"n": {"N": "5"}}


@pytest.mark.parametrize(("limit", "size", "pages"), [({"Limit": 2}, 1, 3), ({}, 390_000, 3), ({}, 1, 1)])
def test_pages_by_limit_and_size_hold_every_item_once(limit: dict[str, int], size: int, pages: int) -> None:
    port = Port()
    for number in range(5):
        port.put_item(TableName="ledger", Item={"message_id": {"S": f"m-{number}"}, "text": {"S": "x" * size}})
    seen: list[str] = []
    start: dict[str, Any] = {}
    while True:
        page = port.scan(TableName="ledger", **limit, **start)
        pages -= 1
        seen += [item["message_id"]["S"] for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert (sorted(seen), pages) == ([f"m-{number}" for number in range(5)], 0)


@pytest.mark.parametrize("more", [{"ConditionalOperator": "AND"}, {"Expected": {}}])
def test_stand_in_refuses_an_unknown_parameter(more: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedRequest):
        Port().update_item(TableName="ledger", Key=KEY, UpdateExpression="REMOVE a", **more)
