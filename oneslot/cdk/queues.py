"""The queue of a consumer and its dead-letter queue."""

from __future__ import annotations

from typing import Any

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oneslot.cdk.numbers import Numbers
from oneslot.cdk.resources import removal_policy

ORDER = {
    "fifo": True,
    "content_based_deduplication": True,
    "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
    "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
}
"""A FIFO queue's properties, for high throughput."""


class RequestQueue(Construct):
    """An encrypted queue, TLS only. A message whose receives run out moves to `dead_letter_queue`.

    The queue is standard, or FIFO with high throughput: order and SQS's own deduplication within each message group.
    Without a deduplication id SQS takes the SHA-256 of the body, so equal bodies are one request.

    The dead-letter queue keeps messages longer (SQS counts a message's age from its first send), takes larger ones
    (quarantine adds a reason), and belongs to this queue alone.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        numbers: Numbers,
        fifo: bool,
        retain: bool,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        # The two refer to each other, which CloudFormation cannot resolve, so one has a name of its own.
        queue_name = f"{name}.fifo" if fifo else name
        queue_arn = Stack.of(self).format_arn(service="sqs", resource=queue_name, arn_format=ArnFormat.NO_RESOURCE_NAME)
        common: dict[str, Any] = {
            "encryption": sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
            "encryption_master_key": key,
            "enforce_ssl": True,
            "removal_policy": removal_policy(retain=retain),
            **(ORDER if fifo else {}),
        }
        self.dead_letter_queue = sqs.Queue(
            self,
            "DeadLetterQueue",
            retention_period=Duration.seconds(numbers.dead_letter_retention_seconds),
            max_message_size_bytes=1_048_576,
            redrive_allow_policy=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.BY_QUEUE,
                source_queues=[sqs.Queue.from_queue_arn(self, "Source", queue_arn)],
            ),
            **common,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=queue_name,
            retention_period=Duration.seconds(numbers.queue_retention_seconds),
            visibility_timeout=Duration.seconds(numbers.visibility_timeout_seconds),
            max_message_size_bytes=262_144,  # so the dead-letter queue has room for the reason of a quarantine
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.dead_letter_queue, max_receive_count=numbers.max_receive_count
            ),
            **common,
        )
