"""One contract for writes to the stand-in, moto and the embedded AWS.

Where moto differs from DynamoDB the test says so, and covers only the other two. `test_dynamodb_reads.py` covers reads.
"""

from __future__ import annotations

from typing import Any

import pytest

from oneslot.explorer.services.answers import UnsupportedRequest
from oneslot.explorer.services.dynamodb import TOKEN_WINDOW_MS, InMemoryDynamoDB
from tests.kits.consumer import create_tables
from tests.oneslot.explorer.port_clients import Clock, everywhere, get, not_moto, put, refusal, update


@everywhere
def test_update_creates_the_item_and_returns_what_it_wrote(client: Any) -> None:
    answer = update(
        client,
        "m-1",
        "SET #status = :status, updated = :now ADD consumption_count :one",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":status": {"S": "A"}, ":now": {"N": "7"}, ":one": {"N": "1"}},
        ReturnValues="UPDATED_NEW",
    )
    written = {"status": {"S": "A"}, "updated": {"N": "7"}, "consumption_count": {"N": "1"}}
    # moto adds the key of an item that was not there before.
    assert {name: value for name, value in answer["Attributes"].items() if name != "message_id"} == written
    assert get(client, "m-1") == {"message_id": {"S": "m-1"}, **written}


@everywhere
def test_update_adds_removes_and_computes(client: Any) -> None:
    put(client, "m-1", count={"N": "2"}, gone={"S": "x"})
    values = {":one": {"N": "1"}, ":ten": {"N": "10"}}
    update(
        client,
        "m-1",
        "SET grand_total = #count + :ten, earliest = if_not_exists(earliest, :ten) REMOVE gone ADD #count :one",
        ExpressionAttributeNames={"#count": "count"},
        ExpressionAttributeValues=values,
    )
    assert get(client, "m-1") == {
        "message_id": {"S": "m-1"},
        "count": {"N": "3"},
        "grand_total": {"N": "12"},
        "earliest": {"N": "10"},
    }


@everywhere
def test_refusal_returns_the_row_when_requested(client: Any) -> None:
    put(client, "m-1", a={"N": "5"})
    arguments: dict[str, Any] = {
        "ConditionExpression": "attribute_not_exists(message_id)",
        "ExpressionAttributeValues": {":b": {"S": "b"}},
    }
    silent = refusal(lambda: update(client, "m-1", "SET b = :b", **arguments))
    assert "Item" not in silent
    told = refusal(
        lambda: update(client, "m-1", "SET b = :b", **arguments, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    )
    assert told["Item"] == {"message_id": {"S": "m-1"}, "a": {"N": "5"}}


@everywhere
def test_refusal_returns_no_row_when_there_is_none(client: Any) -> None:
    told = refusal(
        lambda: update(
            client,
            "m-1",
            "SET b = :b",
            ConditionExpression="attribute_exists(message_id)",
            ExpressionAttributeValues={":b": {"S": "b"}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    )
    assert not told.get("Item")
    assert get(client, "m-1") is None


@everywhere
def test_put_and_delete_obey_conditions(client: Any) -> None:
    item = {"message_id": {"S": "m-1"}}
    new = {"ConditionExpression": "attribute_not_exists(message_id)"}
    client.put_item(TableName="ledger", Item=item, **new)
    again = refusal(lambda: client.put_item(TableName="ledger", Item=item, **new))
    assert again["Error"]["Code"] == "ConditionalCheckFailedException"
    client.delete_item(TableName="ledger", Key=item, ConditionExpression="attribute_exists(message_id)")
    assert get(client, "m-1") is None
    client.delete_item(TableName="ledger", Key=item)


INVALID: list[dict[str, Any]] = [
    {"UpdateExpression": "SET a = :undefined"},
    {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"S": "a"}, ":unused": {"S": "b"}}},
    {"UpdateExpression": "SET status = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}},
    {"UpdateExpression": "SET a = ", "ExpressionAttributeValues": {":a": {"S": "a"}}},
    {"UpdateExpression": "SET message_id = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}},
]


@pytest.mark.parametrize("expressions", INVALID, ids=lambda one: one["UpdateExpression"])
@everywhere
def test_invalid_request_is_refused(client: Any, expressions: dict[str, Any]) -> None:
    told = refusal(lambda: client.update_item(TableName="ledger", Key={"message_id": {"S": "m-1"}}, **expressions))
    assert told["Error"]["Code"] == "ValidationException"


@not_moto  # moto raises a KeyError of its own
def test_request_is_refused_when_a_name_is_undefined(client: Any) -> None:
    told = refusal(lambda: update(client, "m-1", "SET #undefined = :a", ExpressionAttributeValues={":a": {"S": "a"}}))
    assert told["Error"]["Code"] == "ValidationException"


def transaction(*actions: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    return {"TransactItems": list(actions), **({"ClientRequestToken": token} if token else {})}


def new(message_id: str) -> dict[str, Any]:
    return {
        "Put": {
            "TableName": "ledger",
            "Item": {"message_id": {"S": message_id}},
            "ConditionExpression": "attribute_not_exists(message_id)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


def counted(message_id: str) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": "ledger",
            "Key": {"message_id": {"S": message_id}},
            "UpdateExpression": "ADD consumption_count :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }


@everywhere
def test_transaction_is_all_or_nothing_with_every_reason(client: Any) -> None:
    client.transact_write_items(**transaction(new("m-1"), counted("m-2")))
    assert get(client, "m-2") == {"message_id": {"S": "m-2"}, "consumption_count": {"N": "1"}}
    told = refusal(lambda: client.transact_write_items(**transaction(counted("m-2"), new("m-1"))))
    assert told["Error"]["Code"] == "TransactionCanceledException"
    first, second = told["CancellationReasons"]
    assert (first["Code"], second["Code"]) == ("None", "ConditionalCheckFailed")
    assert second["Item"] == {"message_id": {"S": "m-1"}}
    assert get(client, "m-2") == {"message_id": {"S": "m-2"}, "consumption_count": {"N": "1"}}


@everywhere
def test_transaction_is_refused_when_two_writes_share_an_item(client: Any) -> None:
    told = refusal(lambda: client.transact_write_items(**transaction(counted("m-1"), counted("m-1"))))
    assert told["Error"]["Code"] == "ValidationException"


@not_moto  # moto ignores tokens, and performs the transaction again
def test_token_is_performed_once(client: Any) -> None:
    for _ in range(2):
        client.transact_write_items(**transaction(counted("m-1"), token="token-1"))
    assert get(client, "m-1") == {"message_id": {"S": "m-1"}, "consumption_count": {"N": "1"}}


@not_moto  # moto ignores tokens, and performs the other transaction
def test_token_is_refused_for_another_request(client: Any) -> None:
    client.transact_write_items(**transaction(counted("m-1"), token="token-1"))
    told = refusal(lambda: client.transact_write_items(**transaction(counted("m-2"), token="token-1")))
    assert told["Error"]["Code"] == "IdempotentParameterMismatchException"


def test_token_is_forgotten_after_ten_minutes() -> None:
    """Only the stand-in has a clock that the test can move."""
    clock = Clock()
    port = InMemoryDynamoDB(clock)
    create_tables(port)
    port.transact_write_items(**transaction(counted("m-1"), token="token-1"))
    clock.now += TOKEN_WINDOW_MS
    port.transact_write_items(**transaction(counted("m-1"), token="token-1"))
    assert get(port, "m-1") == {"message_id": {"S": "m-1"}, "consumption_count": {"N": "2"}}


@everywhere
def test_cancelled_transaction_leaves_its_token_unused(client: Any) -> None:
    client.transact_write_items(**transaction(new("m-1")))
    again = transaction(new("m-1"), token="token-1")
    refusal(lambda: client.transact_write_items(**again))
    client.delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})
    client.transact_write_items(**again)
    assert get(client, "m-1") is not None


@everywhere
def test_request_is_refused_when_its_key_does_not_fit(client: Any) -> None:
    told = refusal(lambda: client.get_item(TableName="slots", Key={"practice": {"S": "A81001"}}))
    assert told["Error"]["Code"] == "ValidationException"
    told = refusal(lambda: client.get_item(TableName="nowhere", Key={"message_id": {"S": "m-1"}}))
    assert told["Error"]["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize("more", [{"ReturnConsumedCapacity": "TOTAL"}, {"Expected": {}}])
def test_stand_in_refuses_an_unknown_parameter(more: dict[str, Any]) -> None:
    port = InMemoryDynamoDB(Clock())
    create_tables(port)
    with pytest.raises(UnsupportedRequest):
        update(port, "m-1", "REMOVE a", **more)
