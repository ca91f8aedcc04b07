"""The emulator answers random writes as moto does, keeps a transaction's token, and counts attributes.

Run on every bump of ministack's version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from oneslot.local.aws.connection import Connection
from oneslot.runtime.sqs.batches import text_attributes
from tests.kits.consumer import create_table, moto_client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

pytestmark = pytest.mark.embedded_aws
TABLE = "race"


@pytest.fixture
def database(account: Connection) -> Iterator[DynamoDBClient]:
    client = account.dynamodb()
    create_table(client, TABLE, "pk")
    yield client
    client.close()


CONDITIONS = (
    "attribute_not_exists(pk)",
    "attribute_exists(n)",
    "n = :few",
    "n < :some AND w = :word",
    "n BETWEEN :few AND :some OR attribute_not_exists(w)",
)
CHANGES = ("SET n = :few", "SET n = :some, w = :word", "ADD n :few", "SET w = :word REMOVE n", "REMOVE w")
VALUES = {":few": {"N": "1"}, ":some": {"N": "3"}, ":word": {"S": "there"}}


def random_write(random: Random) -> dict[str, Any]:
    """Return a put, an update or a deletion of one of three items under a condition, as an element of a transaction."""
    key = {"pk": {"S": random.choice("abc")}}
    condition, change = random.choice(CONDITIONS), random.choice(CHANGES)
    kind = random.choice(("Put", "Put", "Update", "Update", "Delete"))
    texts = {"ConditionExpression": condition} | ({"UpdateExpression": change} if kind == "Update" else {})
    used = {name: value for name, value in VALUES.items() if any(name in text for text in texts.values())}
    about: dict[str, Any] = {"Item": {**key, "n": {"N": str(random.randrange(5))}}} if kind == "Put" else {"Key": key}
    about |= texts | ({"ExpressionAttributeValues": used} if used else {})
    return {kind: {"TableName": TABLE, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **about}}


def answer(client: Any, writes: list[dict[str, Any]]) -> object:
    """Perform one write, or several in a transaction. Return what was refused and why, and all items afterwards."""
    refused: Any = None
    try:
        if len(writes) == 1:
            ((kind, about),) = writes[0].items()
            getattr(client, f"{kind.lower()}_item")(**about)
        else:
            client.transact_write_items(TransactItems=writes)
    except ClientError as error:
        reasons = cast("dict[str, Any]", error.response).get("CancellationReasons", [error.response])
        refused = error.response["Error"]["Code"], [(each.get("Code"), each.get("Item")) for each in reasons]
    rows = client.scan(TableName=TABLE)["Items"]
    return refused, sorted(rows, key=lambda row: row["pk"]["S"])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_emulator_answers_random_writes_as_moto_does(database: DynamoDBClient, seed: int) -> None:
    random = Random(seed)
    with mock_aws():
        other = moto_client("dynamodb")
        create_table(other, TABLE, "pk")
        for _ in range(100):
            some = [random_write(random) for _ in range(random.choice((1, 1, 2, 3)))]
            keys = [(each.get("Key") or each["Item"])["pk"]["S"] for write in some for each in write.values()]
            if len({*keys}) == len(some):  # a transaction takes one write for each item
                assert answer(database, some) == answer(other, some), some


def item(database: DynamoDBClient, key: str) -> dict[str, Any] | None:
    found = database.get_item(TableName=TABLE, Key={"pk": {"S": key}}, ConsistentRead=True).get("Item")
    return None if found is None else {name: next(iter(value.values())) for name, value in found.items()}


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
