"""What feeds the consumer from the queue."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.settings import Settings


class EventSource(Construct):
    """An event source mapping with partial batch responses: a failed record returns, the rest of its batch is deleted.

    Made without `add_event_source`, which would grant its own, wider set of rights.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        queue: sqs.IQueue,
        function: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct_id)
        window = settings.batching_window_seconds
        self.mapping = lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=function,
            event_source_arn=queue.queue_arn,
            batch_size=settings.batch_size,
            max_batching_window=Duration.seconds(window) if window else None,
            max_concurrency=settings.max_concurrency,
            report_batch_item_failures=True,
        )
