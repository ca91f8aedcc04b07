"""The contract of `test_dynamodb_contract.py` for reads: queries, and reads of several items at once."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.kits.consumer import slot_item
from tests.oneslot.explorer.port_clients import MOTO, PORT, everywhere, put, refusal


def fill_slots(client: Any) -> None:
    for number in range(4):
        item = {name: {"S": value} for name, value in slot_item(number).items()}
        if number == 1:
            del item["free_key"]
        client.put_item(TableName="slots", Item=item)


def query(client: Any, condition: str, values: dict[str, str], **more: Any) -> Any:
    typed = {name: {"S": value} for name, value in values.items()}
    return client.query(TableName="slots", KeyConditionExpression=condition, ExpressionAttributeValues=typed, **more)


@everywhere
def test_index_holds_free_slots_in_order(client: Any) -> None:
    fill_slots(client)
    keys = [slot_item(number)["free_key"] for number in range(4)]
    found = query(
        client,
        "practice = :practice AND free_key BETWEEN :first AND :last",
        {":practice": "A81001", ":first": keys[0], ":last": keys[3]},
        IndexName="free_slots",
        ConsistentRead=True,
    )
    assert [item["free_key"]["S"] for item in found["Items"]] == [keys[0], keys[2], keys[3]]
    limited = query(
        client,
        "practice = :practice AND free_key BETWEEN :first AND :last",
        {":practice": "A81001", ":first": keys[1], ":last": keys[3]},
        IndexName="free_slots",
        Limit=1,
    )
    assert [item["free_key"]["S"] for item in limited["Items"]] == [keys[2]]
    assert "LastEvaluatedKey" in limited


@everywhere
def test_query_returns_the_projected_attributes(client: Any) -> None:
    fill_slots(client)
    found = query(
        client,
        "practice = :practice AND free_key BETWEEN :first AND :last",
        {":practice": "A81001", ":first": "A", ":last": "z"},
        IndexName="free_slots",
        ConsistentRead=True,
        ProjectionExpression="slot_id, #key, nothing",
        ExpressionAttributeNames={"#key": "free_key"},
        Limit=2,
    )
    wanted = [{name: {"S": slot_item(number)[name]} for name in ("slot_id", "free_key")} for number in (0, 2)]
    assert found["Items"] == wanted
    assert "LastEvaluatedKey" in found


@pytest.mark.parametrize("client", [PORT, MOTO], indirect=True)
@pytest.mark.parametrize("projection", ["start", "slot_id slot_id", "slot_id, slot_id", ""])
def test_query_is_refused_when_its_projection_is_invalid(client: Any, projection: str) -> None:
    """The embedded AWS accepts it."""
    told = refusal(
        lambda: query(client, "practice = :practice", {":practice": "A81001"}, ProjectionExpression=projection)
    )
    assert told["Error"]["Code"] == "ValidationException"


@everywhere
def test_query_counts_a_partition(client: Any) -> None:
    fill_slots(client)
    for practice, count in (("A81001", 1), ("A81002", 0)):
        found = query(client, "practice = :practice", {":practice": practice}, Limit=1, Select="COUNT")
        assert found["Count"] == count
        assert "Items" not in found


@everywhere
def test_batch_read_returns_existing_items(client: Any) -> None:
    put(client, "m", a={"S": "1"})
    put(client, "n")
    keys = [{"message_id": {"S": message_id}} for message_id in ("n", "absent", "m")]
    answer = client.batch_get_item(RequestItems={"ledger": {"Keys": keys}})
    assert answer["UnprocessedKeys"] == {}
    found = sorted(answer["Responses"]["ledger"], key=lambda item: str(item["message_id"]))
    assert found == [{"message_id": {"S": "m"}, "a": {"S": "1"}}, {"message_id": {"S": "n"}}]


@everywhere
def test_reads_return_only_the_attributes_they_name(client: Any) -> None:
    put(client, "m", status={"S": "COMPLETE"}, a={"S": "1"})
    projection = {
        "ProjectionExpression": "#status, #absent",
        "ExpressionAttributeNames": {"#status": "status", "#absent": "absent"},
    }
    key = {"message_id": {"S": "m"}}

    one = client.get_item(TableName="ledger", Key=key, **projection)
    batch = client.batch_get_item(RequestItems={"ledger": {"Keys": [key], **projection}})

    assert one["Item"] == {"status": {"S": "COMPLETE"}}
    assert batch["Responses"]["ledger"] == [{"status": {"S": "COMPLETE"}}]


@everywhere
def test_batch_read_is_refused_beyond_100_keys(client: Any) -> None:
    keys = [{"message_id": {"S": str(position)}} for position in range(101)]
    client.batch_get_item(RequestItems={"ledger": {"Keys": keys[:100]}})
    with pytest.raises(ClientError):
        client.batch_get_item(RequestItems={"ledger": {"Keys": keys}})


@everywhere
def test_batch_read_is_refused_when_a_key_repeats(client: Any) -> None:
    keys = [{"message_id": {"S": "m"}}, {"message_id": {"S": "m"}}]
    with pytest.raises(ClientError) as refusal:
        client.batch_get_item(RequestItems={"ledger": {"Keys": keys}})
    assert refusal.value.response["Error"]["Code"] == "ValidationException"
