"""The emulator's conditional writes and transactions are atomic under a race, on which every local test relies.

Run on every bump of ministack's version. (moto fails it: its transactions are not isolated, and it ignores their token.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from oneslot.local.aws.connection import Connection
from oneslot.runtime.sqs.sending import text_attributes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

pytestmark = pytest.mark.embedded_aws

WRITERS = 16
ROUNDS = 100  # each is one race of all writers; 3 x 100 x 16 requests take 6-8 s on two cores
TABLE = "race"


@pytest.fixture
def database(account: Connection) -> Iterator[DynamoDBClient]:
    client = account.dynamodb()
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    yield client
    client.close()


def race(attempt: Callable[[int], bool]) -> list[int]:
    """Let all writers attempt at the same instant; return the winners."""
    start = threading.Barrier(WRITERS)

    def run(writer: int) -> bool:
        start.wait(timeout=30)
        return attempt(writer)

    with ThreadPoolExecutor(WRITERS) as threads:
        return [writer for writer, won in enumerate(threads.map(run, range(WRITERS))) if won]


def item(database: DynamoDBClient, key: str) -> dict[str, Any] | None:
    found = database.get_item(TableName=TABLE, Key={"pk": {"S": key}}, ConsistentRead=True).get("Item")
    return None if found is None else {name: next(iter(value.values())) for name, value in found.items()}


@pytest.mark.slow
def test_one_of_sixteen_racing_puts_wins(database: DynamoDBClient) -> None:
    for number in range(ROUNDS):
        shown: list[str] = []

        def put(writer: int, number: int = number, shown: list[str] = shown) -> bool:
            try:
                database.put_item(
                    TableName=TABLE,
                    Item={"pk": {"S": f"put-{number}"}, "owner": {"N": str(writer)}},
                    ConditionExpression="attribute_not_exists(pk)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            except database.exceptions.ConditionalCheckFailedException as refused:
                shown.append(refused.response["Item"]["owner"]["N"])  # type: ignore[typeddict-item]
                return False
            return True

        winners = race(put)
        assert len(winners) == 1
        assert shown == [str(winners[0])] * (WRITERS - 1)
        assert item(database, f"put-{number}") == {"pk": f"put-{number}", "owner": str(winners[0])}


@pytest.mark.slow
def test_one_of_sixteen_racing_updates_wins(database: DynamoDBClient) -> None:
    database.put_item(TableName=TABLE, Item={"pk": {"S": "row"}, "version": {"N": "0"}, "claims": {"N": "0"}})
    for number in range(ROUNDS):

        def update(_: int, number: int = number) -> bool:
            try:
                database.update_item(
                    TableName=TABLE,
                    Key={"pk": {"S": "row"}},
                    UpdateExpression="SET version = :next ADD claims :one",
                    ConditionExpression="version = :seen",
                    ExpressionAttributeValues={
                        ":seen": {"N": str(number)},
                        ":next": {"N": str(number + 1)},
                        ":one": {"N": "1"},
                    },
                )
            except database.exceptions.ConditionalCheckFailedException:
                return False
            return True

        assert len(race(update)) == 1
    assert item(database, "row") == {"pk": "row", "version": str(ROUNDS), "claims": str(ROUNDS)}


@pytest.mark.slow
def test_one_of_sixteen_racing_transactions_wins(database: DynamoDBClient) -> None:
    for number in range(ROUNDS):
        slot = f"slot-{number}"
        database.put_item(TableName=TABLE, Item={"pk": {"S": slot}, "status": {"S": "free"}})

        def book(writer: int, number: int = number, slot: str = slot) -> bool:
            mine = f"{number}-{writer}"
            try:
                database.transact_write_items(
                    TransactItems=[
                        {"Put": {"TableName": TABLE, "Item": {"pk": {"S": f"ledger-{mine}"}}}},
                        {
                            "Update": {
                                "TableName": TABLE,
                                "Key": {"pk": {"S": slot}},
                                "UpdateExpression": "SET #s = :busy, held_by = :me",
                                "ConditionExpression": "#s = :free",
                                "ExpressionAttributeNames": {"#s": "status"},
                                "ExpressionAttributeValues": {
                                    ":busy": {"S": "busy"},
                                    ":free": {"S": "free"},
                                    ":me": {"S": mine},
                                },
                            }
                        },
                        {
                            "Put": {
                                "TableName": TABLE,
                                "Item": {"pk": {"S": f"appointment-{mine}"}},
                                "ConditionExpression": "attribute_not_exists(pk)",
                            }
                        },
                    ]
                )
            except database.exceptions.TransactionCanceledException as cancelled:
                codes = [reason.get("Code") for reason in cancelled.response["CancellationReasons"]]
                assert codes[0] == codes[2] == "None"
                assert codes[1] in ("ConditionalCheckFailed", "TransactionConflict")
                return False
            return True

        winners = race(book)
        assert len(winners) == 1
        held = item(database, slot)
        assert held is not None
        assert held["held_by"] == f"{number}-{winners[0]}"
    kept = [
        row["pk"]["S"] for page in database.get_paginator("scan").paginate(TableName=TABLE) for row in page["Items"]
    ]
    for part in ("ledger", "appointment", "slot"):
        assert len([key for key in kept if key.startswith(part)]) == ROUNDS, f"a loser left its {part} behind"


def test_cancelled_transaction_returns_the_existing_item(database: DynamoDBClient) -> None:
    database.put_item(TableName=TABLE, Item={"pk": {"S": "there"}, "why": {"S": "first"}})
    with pytest.raises(database.exceptions.TransactionCanceledException) as cancelled:
        database.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": TABLE, "Item": {"pk": {"S": "new"}}}},
                {
                    "Put": {
                        "TableName": TABLE,
                        "Item": {"pk": {"S": "there"}},
                        "ConditionExpression": "attribute_not_exists(pk)",
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    }
                },
            ]
        )
    first, second = cancelled.value.response["CancellationReasons"]
    assert first["Code"] == "None"
    assert second["Code"] == "ConditionalCheckFailed"
    assert dict(second["Item"]) == {"pk": {"S": "there"}, "why": {"S": "first"}}
    assert item(database, "new") is None


def test_transaction_token_makes_a_replay_harmless(database: DynamoDBClient) -> None:
    def add(amount: int) -> None:
        database.transact_write_items(
            ClientRequestToken="the-same-token",
            TransactItems=[
                {
                    "Update": {
                        "TableName": TABLE,
                        "Key": {"pk": {"S": "sum"}},
                        "UpdateExpression": "ADD claims :amount",
                        "ExpressionAttributeValues": {":amount": {"N": str(amount)}},
                    }
                }
            ],
        )

    add(1)
    add(1)
    assert item(database, "sum") == {"pk": "sum", "claims": "1"}
    with pytest.raises(database.exceptions.IdempotentParameterMismatchException):
        add(2)
    assert item(database, "sum") == {"pk": "sum", "claims": "1"}


def test_transaction_takes_a_hundred_items_at_most(database: DynamoDBClient) -> None:
    def put(count: int, prefix: str) -> None:
        database.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": TABLE, "Item": {"pk": {"S": f"{prefix}{number}"}}}} for number in range(count)
            ]
        )

    put(100, "hundred-")
    assert item(database, "hundred-99") is not None
    with pytest.raises(database.exceptions.ClientError, match="100"):
        put(101, "more-")
    assert item(database, "more-0") is None


def test_sparse_index_shows_the_free_slots(account: Connection) -> None:
    database = account.dynamodb()
    database.create_table(
        TableName="slots",
        KeySchema=[
            {"AttributeName": "practice", "KeyType": "HASH"},
            {"AttributeName": "slot_id", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("practice", "slot_id", "free_key")
        ],
        LocalSecondaryIndexes=[
            {
                "IndexName": "free_slots",
                "KeySchema": [
                    {"AttributeName": "practice", "KeyType": "HASH"},
                    {"AttributeName": "free_key", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )

    def free() -> list[str]:
        found = database.query(
            TableName="slots",
            IndexName="free_slots",
            KeyConditionExpression="practice = :p AND free_key BETWEEN :from AND :to",
            ExpressionAttributeValues={":p": {"S": "A81001"}, ":from": {"S": "V#2"}, ":to": {"S": "V#4"}},
            ConsistentRead=True,
        )
        return [row["slot_id"]["S"] for row in found["Items"]]

    for number in (3, 1, 2, 4):
        database.put_item(
            TableName="slots",
            Item={
                "practice": {"S": "A81001"},
                "slot_id": {"S": str(number)},
                "free_key": {"S": f"V#{number}"},
            },
        )
    database.put_item(TableName="slots", Item={"practice": {"S": "A81001"}, "slot_id": {"S": "busy"}})
    assert free() == ["2", "3", "4"]
    for taken in ("3", "2", "4"):
        database.update_item(
            TableName="slots",
            Key={"practice": {"S": "A81001"}, "slot_id": {"S": taken}},
            UpdateExpression="REMOVE free_key",
        )
        assert taken not in free()
    assert free() == []
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize("batch", [False, True])
def test_message_counts_with_its_attributes(account: Connection, batch: bool) -> None:
    """A body that fits alone does not fit with a quarantine's reason."""
    with closing(account.sqs()) as queues:
        url = queues.create_queue(QueueName="small", Attributes={"MaximumMessageSize": "2048"})["QueueUrl"]
        body, attributes = "x" * 2_000, text_attributes({"QuarantineReason": "not_json", "Detail": "d" * 40})
        if batch:
            answer = queues.send_message_batch(
                QueueUrl=url,
                Entries=[{"Id": "0", "MessageBody": body}, {"Id": "1", "MessageBody": body, **attributes}],  # type: ignore[typeddict-item]
            )
            assert [each["Id"] for each in answer["Successful"]] == ["0"]
            assert [(each["Id"], each["Code"]) for each in answer["Failed"]] == [("1", "InvalidParameterValue")]
        else:
            queues.send_message(QueueUrl=url, MessageBody=body)
            with pytest.raises(ClientError, match="must be shorter than 2048 bytes"):
                queues.send_message(QueueUrl=url, MessageBody=body, **attributes)
