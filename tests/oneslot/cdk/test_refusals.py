"""Contradictory properties are refused before synthesis, with a sentence that names subject, cause and remedy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneslot.cdk import ContradictorySettings, Numbers, Thresholds, new_table
from tests.oneslot.cdk.kit import define, new_stack

from aws_cdk import Duration, Stack  # isort: skip
from aws_cdk.assertions import Annotations, Match  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_sns as sns  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip


NUMBER, TEXT = dynamodb.AttributeType.NUMBER, dynamodb.AttributeType.STRING
IMAGES = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
SUBSCRIPTION = "arn:aws:sns:eu-west-2:111122223333:news:11111111-2222-3333-4444-555555555555"


def attribute(name: str, kind: dynamodb.AttributeType) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=kind)


def queue(
    shop: Stack, *, receives: int = 10, fifo: bool | None = None, room: int | None = None, **properties: Any
) -> sqs.Queue:
    """Return a queue with a dead-letter queue, of defaults that fit the construct's; `room` is the largest dead letter."""
    dead = sqs.Queue(shop, "Dead", retention_period=Duration.days(14), fifo=fifo, max_message_size_bytes=room)
    theirs = sqs.DeadLetterQueue(queue=dead, max_receive_count=receives)
    return sqs.Queue(shop, "Theirs", dead_letter_queue=theirs, fifo=fifo, **properties)


def imported(shop: Stack, name: str) -> sqs.IQueue:
    return sqs.Queue.from_queue_arn(shop, name, f"arn:aws:sqs:eu-west-2:111122223333:{name}")


def table(shop: Stack, key: dynamodb.Attribute, sort: dynamodb.Attribute | None = None) -> dynamodb.Table:
    return dynamodb.Table(shop, "T", partition_key=key, sort_key=sort, time_to_live_attribute="expires_at")


def tables(shop: Stack, number: int) -> dict[str, dynamodb.ITable]:
    names = [f"table_{each}" for each in range(number)]
    return {name: dynamodb.Table.from_table_name(shop, f"{name}-imported", name) for name in names}


def sends_from(shop: Stack, **properties: Any) -> dict[str, Any]:
    """Return the properties of a consumer that sends, on a ledger of the app's own."""
    ledger = new_table(shop, "Theirs", "message_id", time_to_live_attribute="expires_at", **properties)
    return {"sends": {"mails": imported(shop, "mails")}, "existing_ledger": ledger}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (
            lambda shop: {"existing_queue": queue(shop, visibility_timeout=Duration.seconds(20))},
            "Theirs hides .* 20 s.* 30",
        ),
        # 30 s is SQS's own where a template is silent.
        (lambda shop: {"existing_queue": queue(shop), "numbers": Numbers(lambda_timeout_seconds=31)}, "for 30 s.* 31"),
        (lambda shop: {"existing_queue": queue(shop, receives=3)}, "Shop/Theirs.*after 3 receives.*to 5 or more"),
        (lambda shop: {"existing_queue": sqs.Queue(shop, "Bare")}, "Shop/Bare has no dead-letter queue"),
        (lambda shop: {"existing_queue": imported(shop, "theirs")}, "has no dead-letter queue"),
        (
            lambda shop: {
                "existing_queue": imported(shop, "theirs.fifo"),
                "existing_dead_letter_queue": imported(shop, "dead"),
            },
            "Shop/theirs.fifo is FIFO.*Shop/dead is standard",
        ),
        (
            lambda shop: {"existing_queue": queue(shop), "existing_dead_letter_queue": imported(shop, "dead")},
            "Shop/dead is not the one that existing_queue Shop/Theirs names",
        ),
        (lambda shop: {"existing_dead_letter_queue": imported(shop, "dead")}, "dead is given without existing_queue"),
        (lambda shop: {"existing_queue": queue(shop), "fifo": True}, "Shop/Theirs has a name and a kind already"),
        (lambda shop: {"existing_queue": queue(shop, retention_period=Duration.days(14))}, "1209600 is not above"),
        (lambda shop: {"existing_queue": queue(shop, retention_period=Duration.minutes(5))}, "10.*_seconds 300"),
        (
            lambda shop: {
                "existing_queue": queue(shop, fifo=True, visibility_timeout=Duration.seconds(30)),
                "numbers": Numbers(longest_retry_delay_seconds=30),
            },
            "longest_retry_delay_seconds is 30",
        ),
        (lambda shop: {"existing_ledger": new_table(shop, "Orders2", "order_id")}, "Shop/Orders2 has the key order_id"),
        (lambda shop: {"existing_ledger": new_table(shop, "Eternal", "message_id")}, "Eternal has no time to live"),
        (lambda shop: {"existing_ledger": table(shop, attribute("id", TEXT), attribute("at", TEXT))}, r"key id \+ at"),
        (lambda shop: {"existing_ledger": table(shop, attribute("message_id", NUMBER))}, "message_id of type number"),
        (lambda shop: {"existing_queue": queue(shop, room=262_144, max_message_size_bytes=253_953)}, "253953 bytes"),
        (lambda shop: {"tables": {"ledger": new_table(shop, "T", "id")}}, "called 'ledger'"),
        (lambda shop: {"tables": tables(shop, 41)}, "name 40 at"),
        (lambda shop: {"tables": {"Gift-Cards": new_table(shop, "T", "id")}}, "'Gift-Cards' cannot name"),
        (lambda shop: {"sends": {"Gift-Mails": imported(shop, "mails")}}, "target 'Gift-Mails' cannot name"),
        (
            lambda shop: {
                "sends": {"mails": imported(shop, "mails")},
                "existing_ledger": dynamodb.Table.from_table_name(shop, "Old", "old"),
            },
            "existing_ledger Shop/Old shows no stream",
        ),
        *[
            (lambda shop, view=view: sends_from(shop, dynamo_stream=view), f"Shop/Theirs has a stream of {said}")
            for view, said in (
                (dynamodb.StreamViewType.KEYS_ONLY, "KEYS_ONLY"),
                (dynamodb.StreamViewType.OLD_IMAGE, "OLD_"),
            )
        ],
        (lambda shop: sends_from(shop, dynamo_stream=IMAGES), "Shop/Theirs has no index 'unsent'"),
        (
            lambda shop: {"sends": {"news": sns.Topic.from_topic_arn(shop, "News", SUBSCRIPTION)}},
            f"the target 'news' is {SUBSCRIPTION}, which takes no message",
        ),
        (lambda _: {"handler": "missing.handler"}, "missing.py.*does not exist"),
        (lambda _: {"handler": "app.nothing"}, "'app.nothing' needs the name nothing in.*correct handler or file"),
        (lambda _: {"handler": "handler"}, "'handler' names no module.*`module.function`"),
        (lambda _: {"entry": "no/such/folder"}, "no/such/folder is not a folder.*name the folder"),
        (lambda _: {"entry": None}, "entry, a folder, or code, an asset.*pass one"),
        (lambda _: {"fifo": True, "numbers": Numbers(batching_window_seconds=1, visibility_multiplier=2)}, "FIFO"),
    ],
)
def test_property_is_refused_when_it_contradicts(
    properties: Callable[[Stack], dict[str, Any]], said: str, tmp_path: Path
) -> None:
    _, shop = stack = new_stack(tmp_path)
    given = properties(shop)
    with pytest.raises(ContradictorySettings, match=said) as refused:
        define(tmp_path, stack, **given)
    assert "\n" not in str(refused.value)


def test_numbers_are_refused_when_they_contradict() -> None:
    with pytest.raises(ContradictorySettings, match="raise visibility_multiplier or lower batching_window_seconds"):
        Numbers(batching_window_seconds=5)


def test_alarm_is_refused_when_it_starts_too_late(tmp_path: Path) -> None:
    consumer = define(tmp_path).consumer
    with pytest.raises(ContradictorySettings, match="would be deleted before the alarm goes off"):
        consumer.add_alarms(thresholds=Thresholds(alarm_oldest_message_seconds=400_000))


def test_existing_queue_that_fits_is_accepted(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    defined = define(tmp_path, stack, existing_queue=queue(shop, visibility_timeout=Duration.seconds(30)))
    assert defined.consumer.numbers.max_receive_count == 10


@pytest.mark.parametrize(
    ("room", "largest", "warned"), [(None, None, True), (None, 262_144, False), (262_144, 253_952, False)]
)
def test_existing_queue_is_accepted_with_room_for_the_reason(
    tmp_path: Path, room: int | None, largest: int | None, warned: bool
) -> None:
    """Queues of SQS's own sizes are usual, so the few messages that lack the room are a warning."""
    _, shop = stack = new_stack(tmp_path)
    define(tmp_path, stack, existing_queue=queue(shop, room=room, max_message_size_bytes=largest))
    found = Annotations.from_stack(shop).find_warning("*", Match.string_like_regexp("could not be quarantined"))
    assert len(found) == warned


def test_existing_ledger_that_fits_is_accepted(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    ledger = new_table(shop, "Theirs", "message_id", time_to_live_attribute="expires_at")
    assert define(tmp_path, stack, existing_ledger=ledger).consumer.ledger is ledger


def test_existing_ledger_of_a_consumer_that_sends_is_accepted_when_it_shows_what_waits(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    unsent = dynamodb.GlobalSecondaryIndexPropsV2(
        index_name="unsent", partition_key=attribute("message_id", TEXT), sort_key=attribute("unsent", NUMBER)
    )
    properties = sends_from(shop, dynamo_stream=IMAGES, global_secondary_indexes=[unsent])
    assert define(tmp_path, stack, **properties).consumer.relay
