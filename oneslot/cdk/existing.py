"""Resources that exist already, checked against the consumer's numbers as far as the stack can see them.

An imported resource shows its ARN and its kind only. Of one that is defined in the same app, the properties are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from aws_cdk import Annotations, IInspectable, Stack, Token, TreeInspector
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from constructs import IConstruct

from oneslot.cdk.numbers import (
    FEWEST_RECEIVES,
    MAXIMUM_VISIBILITY_SECONDS,
    ContradictorySettings,
    Numbers,
    refuse,
)
from oneslot.cdk.tables import LEDGER_EXPIRY, LEDGER_KEY, LEDGER_UNSENT, UNSENT_INDEX

SQS_DEFAULTS = {"visibilityTimeout": 30, "messageRetentionPeriod": 345_600, "maximumMessageSize": 1_048_576}
"""A queue's values where its template is silent: SQS's API reference, CreateQueue."""

QUARANTINE_BYTES = 8_192
"""Quarantine adds three attributes to a message: under 1 KiB today."""

WITH_NEW_IMAGES = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
"""The view types of a stream that shows what to send, as `oneslot relay` takes them; a test compares them."""

KINDS = {"N": "number", "B": "binary"}
"""DynamoDB's types of a key beside text."""


@dataclass(frozen=True)
class ExistingQueue:
    """A queue that the stack or another one defines, and its dead-letter queue."""

    queue: sqs.IQueue
    dead_letter_queue: sqs.IQueue


def mixed_queues(
    queue: sqs.IQueue | None, dead_letter_queue: sqs.IQueue | None, queue_name: str | None, *, fifo: bool
) -> Iterator[str]:
    """Yield a sentence for each property of a new queue that is given with an existing one, or the reverse."""
    if queue and (queue_name or (fifo and not queue.fifo)):
        yield f"existing_queue {queue.node.path} has a name and a kind already; omit queue_name and fifo"
    if dead_letter_queue and not queue:
        yield (
            f"existing_dead_letter_queue {dead_letter_queue.node.path} is given without existing_queue, and a new queue gets "
            "a new dead-letter queue; omit it, or pass existing_queue"
        )


def find_queues(queue: sqs.IQueue, dead_letter_queue: sqs.IQueue | None) -> ExistingQueue:
    """Return the queue with its dead-letter queue: the one that it names, or the given one for an imported queue.

    Raises:
        ContradictorySettings: there is none, another one is given, or it is of another kind.
    """
    name = queue.node.path
    declared = queue.dead_letter_queue.queue if isinstance(queue, sqs.Queue) and queue.dead_letter_queue else None
    dead = declared or dead_letter_queue
    if dead is None or (isinstance(queue, sqs.Queue) and declared is None):
        raise ContradictorySettings(
            f"existing_queue {name} has no dead-letter queue, so a message whose receives run out would be lost; give the "
            "queue one, and pass it as existing_dead_letter_queue if the queue is imported"
        )
    if dead_letter_queue and dead_letter_queue.node.path != dead.node.path:
        raise ContradictorySettings(
            f"existing_dead_letter_queue {dead_letter_queue.node.path} is not the one that existing_queue {name} names, "
            f"{dead.node.path}; omit existing_dead_letter_queue"
        )
    if queue.fifo != dead.fifo:
        kinds = {True: "FIFO", False: "standard"}
        raise ContradictorySettings(
            f"existing_queue {name} is {kinds[queue.fifo]} and its dead-letter queue {dead.node.path} is "
            f"{kinds[dead.fifo]}, which SQS refuses; make both {kinds[queue.fifo]}"
        )
    return ExistingQueue(queue, dead)


def numbers_of(existing: ExistingQueue, numbers: Numbers) -> Numbers:
    """Return the numbers with what the existing queues have in place of what a new queue would get.

    Raises:
        ContradictorySettings: a message would return while a consumer has it, or would be lost.
    """
    queue, dead = (_declared(each, SQS_DEFAULTS) for each in (existing.queue, existing.dead_letter_queue))
    refuse(_queue_problems(existing.queue, queue, numbers), _no_room_for_the_reason(existing, queue, dead))
    found = {}
    if queue:
        found["queue_retention_seconds"] = queue["messageRetentionPeriod"]
        found["max_receive_count"] = queue["redrivePolicy"]["maxReceiveCount"]
        timeout, hidden = numbers.lambda_timeout_seconds, queue["visibilityTimeout"]
        found["visibility_multiplier"] = min(-(-hidden // timeout), MAXIMUM_VISIBILITY_SECONDS // timeout)
    if dead:
        found["dead_letter_retention_seconds"] = dead["messageRetentionPeriod"]
    return replace(numbers, **found)


def _queue_problems(queue: sqs.IQueue, declared: Mapping[str, Any], numbers: Numbers) -> Iterator[str]:
    if not declared:
        return
    name, hidden = queue.node.path, declared["visibilityTimeout"]
    timeout, window = numbers.lambda_timeout_seconds, numbers.batching_window_seconds
    if hidden < timeout + window:
        yield (
            f"existing_queue {name} hides a message for {hidden} s, shorter than lambda_timeout_seconds {timeout} + "
            f"batching_window_seconds {window}, so it would return while a consumer has it; set the queue's "
            f"visibility_timeout to {timeout + window} s or more"
        )
    receives = declared["redrivePolicy"]["maxReceiveCount"]
    if receives < FEWEST_RECEIVES:
        yield (
            f"existing_queue {name} moves a message to its dead-letter queue after {receives} receives, and deferrals "
            f"alone may use them up; set its max_receive_count to {FEWEST_RECEIVES} or more"
        )


def _no_room_for_the_reason(
    existing: ExistingQueue, queue: Mapping[str, Any], dead: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a sentence if a quarantined message, which is larger by its reason, would not fit the dead-letter queue.

    Queues whose sizes are SQS's own only get a warning: few messages are as large, and SQS moves one without a reason.
    """
    if not queue or not dead:
        return
    largest, room = queue["maximumMessageSize"], dead["maximumMessageSize"]
    if largest + QUARANTINE_BYTES <= room:
        return
    sentence = (
        f"existing_queue {existing.queue.node.path} takes messages of {largest} bytes and its dead-letter queue "
        f"{existing.dead_letter_queue.node.path} of {room}, so the largest could not be quarantined with {QUARANTINE_BYTES} "
        f"bytes for the reason; set the queue's max_message_size_bytes to {room - QUARANTINE_BYTES} or less"
    )
    if largest == room == SQS_DEFAULTS["maximumMessageSize"]:
        Annotations.of(existing.queue).add_warning_v2("oneslot:ReasonsRoom", sentence)
    else:
        yield sentence


def key_declaration(table: dynamodb.ITable | dynamodb.ITableV2) -> str:
    """Return a table's key with its types, and the attributes in keys of its indexes; empty for an imported table.

    Such as `customer:S,line:N;email:S`, the partition key first.
    """
    declared = _declared(table, {})
    types = {each["attributeName"]: each["attributeType"] for each in declared.get("attributeDefinitions", ())}
    schema = sorted(declared.get("keySchema", ()), key=lambda each: str(each["keyType"]))  # HASH, RANGE
    names = [each["attributeName"] for each in schema]
    of_table, of_indexes = (
        ",".join(f"{name}:{types[name]}" for name in part) for part in (names, sorted(types.keys() - {*names}))
    )
    return f"{of_table};{of_indexes}" if of_indexes else of_table


def check_ledger(table: dynamodb.ITable | dynamodb.ITableV2, *, expires: bool, sends: bool) -> None:
    """Refuse a table that cannot be a ledger.

    Raises:
        ContradictorySettings: its key is another one, no time to live deletes the rows that should expire, or the relay of a
            consumer that sends could not see what to send.
    """
    if sends and not table.table_stream_arn:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} shows no stream, by which the relay learns what to send; give it a "
            "stream of new images, and import it with its table_stream_arn"
        )
    declared = _declared(table, {})
    if not declared:
        return
    keys = [key["attributeName"] for key in declared["keySchema"]]
    if keys != [LEDGER_KEY]:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has the key {' + '.join(keys)}, and a ledger's key is {LEDGER_KEY} alone; "
            "pass another table, or omit existing_ledger for a new one"
        )
    kinds = {each["attributeName"]: each["attributeType"] for each in declared.get("attributeDefinitions", ())}
    if (kind := kinds.get(LEDGER_KEY, "S")) != "S":
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has the key {LEDGER_KEY} of type {KINDS[kind]}, and a message's id is text; "
            "pass another table, or omit existing_ledger for a new one"
        )
    lives = declared.get("timeToLiveSpecification") or {}
    if expires and lives.get("attributeName") != LEDGER_EXPIRY:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has no time to live on {LEDGER_EXPIRY}, so its rows would never be "
            f"deleted; set its time_to_live_attribute to {LEDGER_EXPIRY!r}, or ledger_retention_seconds to None"
        )
    if not sends:
        return
    view = declared.get("streamSpecification", {}).get("streamViewType")
    if view not in WITH_NEW_IMAGES:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has a stream of {view}, in which the relay would see nothing to send; "
            f"set it to {' or '.join(WITH_NEW_IMAGES)}"
        )
    if UNSENT_INDEX not in {each["indexName"] for each in declared.get("globalSecondaryIndexes", ())}:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has no index {UNSENT_INDEX!r}, by which the relay repeats what failed; add "
            f"a global index of that name on {LEDGER_KEY} and {LEDGER_UNSENT}, a number, with updated and sender"
        )


def _declared(resource: IConstruct, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a resource that this app defines, as its template spells them; none of an imported one."""
    child = resource.node.default_child
    if child is None:
        return {}
    inspector = TreeInspector()
    cast("IInspectable", child).inspect(inspector)
    resolved = Stack.of(resource).resolve(inspector.attributes["aws:cdk:cloudformation:props"])
    return {**defaults, **{name: value for name, value in resolved.items() if not Token.is_unresolved(value)}}
