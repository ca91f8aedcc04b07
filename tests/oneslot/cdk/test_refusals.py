"""Contradictory properties are refused before synthesis, with a sentence that names subject, cause and remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneslot.cdk import ContradictorySettings, Numbers, Thresholds, new_table
from tests.oneslot.cdk.kit import define, new_stack

from aws_cdk import Duration, Stack  # isort: skip
from aws_cdk.assertions import Annotations, Match  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip


NUMBER, TEXT = dynamodb.AttributeType.NUMBER, dynamodb.AttributeType.STRING


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


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (
            lambda shop: {"existing_queue": queue(shop, visibility_timeout=Duration.seconds(20))},
            "Shop/Theirs hides a message for 20 s.*lambda_timeout_seconds 30.*set the queue's visibility_timeout",
        ),
        (
            lambda shop: {"existing_queue": queue(shop), "numbers": Numbers(lambda_timeout_seconds=31)},
            "hides a message for 30 s.*lambda_timeout_seconds 31",  # 30 is SQS's own where a template is silent
        ),
        (
            lambda shop: {"existing_queue": queue(shop, receives=3)},
            "Shop/Theirs.*after 3 receives.*max_receive_count to 5 or more",
        ),
        (
            lambda shop: {"existing_queue": sqs.Queue(shop, "Bare")},
            "Shop/Bare has no dead-letter queue.*would be lost.*existing_dead_letter_queue",
        ),
        (
            lambda shop: {"existing_queue": imported(shop, "theirs")},
            "has no dead-letter queue.*pass it as existing_dead_letter_queue",
        ),
        (
            lambda shop: {
                "existing_queue": imported(shop, "theirs.fifo"),
                "existing_dead_letter_queue": imported(shop, "dead"),
            },
            "Shop/theirs.fifo is FIFO.*Shop/dead is standard.*make both FIFO",
        ),
        (
            lambda shop: {"existing_queue": queue(shop), "existing_dead_letter_queue": imported(shop, "dead")},
            "Shop/dead is not the one that existing_queue Shop/Theirs names.*omit existing_dead_letter_queue",
        ),
        (
            lambda shop: {"existing_dead_letter_queue": imported(shop, "dead")},
            "Shop/dead is given without existing_queue.*omit it, or pass existing_queue",
        ),
        (
            lambda shop: {"existing_queue": queue(shop), "fifo": True},
            "Shop/Theirs has a name and a kind already.*omit queue_name and fifo",
        ),
        (
            lambda shop: {"existing_queue": queue(shop, retention_period=Duration.days(14))},
            "dead_letter_retention_seconds 1209600 is not above queue_retention_seconds 1209600.*lower the second",
        ),
        (
            lambda shop: {"existing_queue": queue(shop, retention_period=Duration.minutes(5))},
            "max_receive_count 10.*queue_retention_seconds 300.*silently deletes",
        ),
        (
            lambda shop: {
                "existing_queue": queue(shop, fifo=True, visibility_timeout=Duration.seconds(30)),
                "numbers": Numbers(longest_retry_delay_seconds=30),
            },
            "longest_retry_delay_seconds is 30.*within seconds.*set it to 0",
        ),
        (
            lambda shop: {"existing_ledger": new_table(shop, "Orders2", "order_id")},
            "Shop/Orders2 has the key order_id.*message_id alone.*pass another table",
        ),
        (
            lambda shop: {"existing_ledger": new_table(shop, "Eternal", "message_id")},
            "Shop/Eternal has no time to live on expires_at.*never be deleted.*ledger_retention_seconds to None",
        ),
        (
            lambda shop: {
                "existing_ledger": dynamodb.Table(
                    shop, "T", partition_key=attribute("id", TEXT), sort_key=attribute("at", TEXT)
                )
            },
            r"Shop/T has the key id \+ at",
        ),
        (
            lambda shop: {
                "existing_ledger": dynamodb.Table(
                    shop, "T", partition_key=attribute("message_id", NUMBER), time_to_live_attribute="expires_at"
                )
            },
            "existing_ledger Shop/T.*the key message_id of type number",
        ),
        (
            lambda shop: {"existing_queue": queue(shop, room=262_144, max_message_size_bytes=253_953)},
            "takes messages of 253953 bytes.*8192 bytes for the reason",
        ),
        (
            lambda shop: {"tables": {"ledger": new_table(shop, "T", "id")}},
            "called 'ledger'.*choose another name.*existing_ledger",
        ),
        (
            lambda shop: {"tables": {"Gift-Cards": new_table(shop, "T", "id")}},
            "'Gift-Cards' cannot name an environment variable.*small letters",
        ),
        (
            lambda shop: {"sends": {"Gift-Mails": imported(shop, "mails")}},
            "the target 'Gift-Mails' cannot name an environment variable.*small letters",
        ),
        (
            lambda shop: {
                "sends": {"mails": imported(shop, "mails")},
                "existing_ledger": dynamodb.Table.from_table_name(shop, "Old", "old"),
            },
            "existing_ledger Shop/Old shows no stream.*import it with its table_stream_arn",
        ),
        (lambda _: {"handler": "missing.handler"}, "missing.py.*does not exist.*correct handler or entry"),
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
