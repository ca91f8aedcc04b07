"""The queue of a consumer and its dead-letter queue."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aws_cdk import Annotations, ArnFormat, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oneslot.cdk.numbers import FEWEST_RECEIVES, MAXIMUM_VISIBILITY_SECONDS, ContradictorySettings, Numbers, refuse
from oneslot.cdk.resources import declared_properties, removal_policy

ORDER = {
    "fifo": True,
    "content_based_deduplication": True,
    "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
    "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
}
"""A FIFO queue's properties, for high throughput."""


@dataclass(frozen=True)
class QueuePair:
    """A queue, new or existing, and its dead-letter queue."""

    queue: sqs.IQueue
    dead_letter_queue: sqs.IQueue


def new_queues(
    scope: Construct, name: str, numbers: Numbers, *, fifo: bool, retain: bool, key: kms.IKey | None
) -> QueuePair:
    """Return an encrypted queue, TLS only, and the dead-letter queue that gets a message whose receives run out.

    The queue is standard, or FIFO with high throughput: order and SQS's own deduplication within each message group.
    Without a deduplication id SQS takes the SHA-256 of the body, so equal bodies are one request.

    The dead-letter queue keeps messages longer (SQS counts a message's age from its first send), takes larger ones
    (quarantine adds a reason), and belongs to this queue alone.
    """
    scope = Construct(scope, "Requests")
    # The two refer to each other, which CloudFormation cannot resolve, so one has a name of its own.
    queue_name = f"{name}.fifo" if fifo else name
    queue_arn = Stack.of(scope).format_arn(service="sqs", resource=queue_name, arn_format=ArnFormat.NO_RESOURCE_NAME)
    common: dict[str, Any] = {
        "encryption": sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        "encryption_master_key": key,
        "enforce_ssl": True,
        "removal_policy": removal_policy(retain=retain),
        **(ORDER if fifo else {}),
    }
    dead = sqs.Queue(
        scope,
        "DeadLetterQueue",
        retention_period=Duration.seconds(numbers.dead_letter_retention_seconds),
        max_message_size_bytes=1_048_576,
        redrive_allow_policy=sqs.RedriveAllowPolicy(
            redrive_permission=sqs.RedrivePermission.BY_QUEUE,
            source_queues=[sqs.Queue.from_queue_arn(scope, "Source", queue_arn)],
        ),
        **common,
    )
    queue = sqs.Queue(
        scope,
        "Queue",
        queue_name=queue_name,
        retention_period=Duration.seconds(numbers.queue_retention_seconds),
        visibility_timeout=Duration.seconds(numbers.visibility_timeout_seconds),
        max_message_size_bytes=262_144,  # so the dead-letter queue has room for the reason of a quarantine
        dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=numbers.max_receive_count),
        **common,
    )
    return QueuePair(queue, dead)


SQS_DEFAULTS = {"visibilityTimeout": 30, "messageRetentionPeriod": 345_600, "maximumMessageSize": 1_048_576}
"""A queue's values where its template is silent: SQS's API reference, CreateQueue."""

QUARANTINE_BYTES = 8_192
"""Quarantine adds three attributes to a message: under 1 KiB today."""


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


def find_queues(queue: sqs.IQueue, dead_letter_queue: sqs.IQueue | None) -> QueuePair:
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
    return QueuePair(queue, dead)


def numbers_of(existing: QueuePair, numbers: Numbers) -> Numbers:
    """Return the numbers with what the existing queues have in place of what a new queue would get.

    Raises:
        ContradictorySettings: a message would return while a consumer has it, or would be lost.
    """
    queue, dead = (declared_properties(each, SQS_DEFAULTS) for each in (existing.queue, existing.dead_letter_queue))
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


def _no_room_for_the_reason(existing: QueuePair, queue: Mapping[str, Any], dead: Mapping[str, Any]) -> Iterator[str]:
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
