"""A batch without its last entry: what is performed, and how the answer names the refused one."""

from typing import Any

import pytest

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.aws import AccountServices, handler_faults
from oneslot.explorer.handlers.effects import effects_of
from oneslot.explorer.services.batches import EVERY, FIRST, LAST
from oneslot.explorer.world import ApiCall, World, from_text

SERVICES = AccountServices({"orders": TableSchema("id")})
QUEUE = "https://sqs.eu-west-2.amazonaws.com/000000000000/next"
EVENT = {"Source": "shop", "DetailType": "paid", "Detail": "{}"}


def keys(*names: str) -> list[dict[str, Any]]:
    return [{"id": {"S": name}} for name in names]


def puts(*names: str) -> list[dict[str, Any]]:
    return [{"PutRequest": {"Item": key}} for key in keys(*names)]


def test_items_stay_unprocessed() -> None:
    written = ApiCall.of("batch_write_item", {"RequestItems": {"orders": puts("a", "b")}})
    read = ApiCall.of("batch_get_item", {"RequestItems": {"orders": {"Keys": keys("a", "b")}}})

    world, wrote = SERVICES(World(""), written, 0, 0)
    full, _ = SERVICES(World(""), written, 0)
    _, found = SERVICES(full, read, 0, 0)

    assert from_text(wrote)["answer"]["UnprocessedItems"] == {"orders": puts("b")}
    assert list(world.rows["orders"].values()) == [{"id": "a"}]
    answer = from_text(found)["answer"]
    assert (answer["Responses"], answer["UnprocessedKeys"]) == ({"orders": keys("a")}, {"orders": {"Keys": keys("b")}})


@pytest.mark.parametrize(
    ("refused", "written", "unprocessed"),
    [(LAST, ["a", "b"], ["c"]), (FIRST, ["b", "c"], ["a"]), (EVERY, [], ["a", "b", "c"])],
)
def test_any_items_stay_unprocessed(refused: int, written: list[str], unprocessed: list[str]) -> None:
    call = ApiCall.of("batch_write_item", {"RequestItems": {"orders": puts("a", "b", "c")}})

    world, wrote = SERVICES(World(""), call, 0, refused)

    assert [row["id"] for row in world.rows["orders"].values()] == written
    assert from_text(wrote)["answer"]["UnprocessedItems"] == {"orders": puts(*unprocessed)}


@pytest.mark.parametrize(("items", "count"), [(puts("a"), 1), (puts("a", "b"), 3)])
def test_each_end_and_all_of_a_batch_may_be_refused(items: Any, count: int) -> None:
    faults = handler_faults(ApiCall.of("batch_write_item", {"RequestItems": {"orders": items}}))

    assert sum("refused" in fault.name for fault in faults) == count


@pytest.mark.parametrize(
    ("call", "parameters", "failed"),
    [
        ("send_message_batch", {"QueueUrl": QUEUE, "Entries": [{"Id": "1", "MessageBody": "m"}]}, ["Failed", 0, "Id"]),
        (
            "sns.publish_batch",
            {"TopicArn": "t", "PublishBatchRequestEntries": [{"Id": "1", "Message": "m"}]},
            ["Failed", 0, "Id"],
        ),
        ("events.put_events", {"Entries": [EVENT]}, ["Entries", 0, "ErrorCode"]),
        (
            "firehose.put_record_batch",
            {"DeliveryStreamName": "s", "Records": [{"Data": b"r"}]},
            ["RequestResponses", 0, "ErrorCode"],
        ),
    ],
)
def test_refused_entry_has_no_effect(call: str, parameters: dict[str, Any], failed: list[Any]) -> None:
    entries = next(name for name, value in parameters.items() if isinstance(value, list))
    other = {**parameters[entries][0], **({"Id": "2"} if "Id" in parameters[entries][0] else {})}
    both = {**parameters, entries: [*parameters[entries], other]}

    alone, answer = SERVICES(World(""), ApiCall.of(call, parameters), 0, 0)
    one, _ = SERVICES(World(""), ApiCall.of(call, both), 0, 0)

    found = from_text(answer)["answer"]
    for step in failed:
        found = found[step]
    assert found in ("1", "InternalError")
    assert (len(effects_of(alone)), len(effects_of(one))) == (0, 1)
