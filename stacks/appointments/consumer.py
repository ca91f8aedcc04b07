"""The Lambda function that consumes the queue, and the mapping that feeds it."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.appointments.consumer_rights import consumer_rights
from stacks.appointments.request_queue import RequestQueue
from stacks.appointments.tables import Tables
from stacks.settings import FOREVER, Settings
from stacks.shared.lambda_asset import lambda_code
from stacks.shared.measures import SERVICE, namespace
from stacks.shared.resources import log_group
from stacks.shared.roles import service_role
from stacks.shared.rules import accept

LOG_LEVEL = "INFO"


class Consumer(Construct):
    """The function, its `log_group` and its role. A queue invokes `target`: the function, or its alias.

    The event source mapping bounds concurrency. None is reserved, because that would throttle the mapping's pollers and
    burn receives. X-Ray is off: its SDK costs 160 ms of cold start, and the delivery log says more.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        tables: Tables,
        requests: RequestQueue,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.log_group = log_group(self, "LogGroup", settings=settings, key=key)
        role = service_role(
            self,
            "Role",
            "lambda",
            consumer_rights(tables, requests, self.log_group, key, group_commit=settings.group_commit),
            only_this_account=False,
        )
        self.function = lambda_.Function(
            self,
            "Function",
            description="Gives every appointment request exactly one slot",
            code=lambda_code(),
            handler="handler.lambda_handler",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            timeout=Duration.seconds(settings.lambda_timeout_seconds),
            memory_size=settings.lambda_memory_mb,
            role=role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            system_log_level_v2=lambda_.SystemLogLevel.INFO,
            environment=_environment(settings, tables, requests),
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if settings.snap_start else None,
        )
        self.target: lambda_.IFunction = self.function
        if settings.snap_start:  # Lambda takes snapshots of published versions only; a deployment moves the alias
            self.target = lambda_.Alias(self, "Alias", alias_name="live", version=self.function.current_version)
        if not key:
            accept(
                self.log_group,
                {
                    "HIPAA.Security-CloudWatchLogGroupEncrypted": (
                        "CloudWatch encrypts every log group; a key of one's own comes with customer_managed_keys, and no "
                        "line names a person"
                    )
                },
            )
        accept(
            self.function,
            {
                "HIPAA.Security-LambdaConcurrency": (
                    "the event source mapping's MaximumConcurrency limits it; reserved concurrency below that would make "
                    "Lambda throw deliveries away, each a lost receive"
                ),
                "HIPAA.Security-LambdaDLQ": (
                    "that is for asynchronous invocations; a queue's messages fail into the queue's dead-letter queue"
                ),
                "HIPAA.Security-LambdaInsideVPC": (
                    "it speaks only to AWS's own endpoints, over TLS with signed requests; nothing can connect to it"
                ),
            },
        )


class EventSource(Construct):
    """An event source mapping with partial batch responses: a failed record returns, the rest of its batch is deleted.

    CDK's `add_event_source` would grant its own, wider set of rights.
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


def _environment(settings: Settings, tables: Tables, requests: RequestQueue) -> dict[str, str]:
    return {
        "LEDGER_TABLE": tables.ledger.table_name,
        "SLOTS_TABLE": tables.slots.table_name,
        "APPOINTMENTS_TABLE": tables.appointments.table_name,
        "QUEUE_URL": requests.queue.queue_url,
        "DEAD_LETTER_QUEUE_URL": requests.dead_letter_queue.queue_url,
        "LEDGER_RETENTION_SECONDS": str(settings.ledger_retention_seconds or FOREVER),
        # For the audit and `oneslot check`, which look for missing rows; the function does not read it.
        **({"LEDGER_FORGOTTEN_BEFORE": before} if (before := settings.ledger_forgotten_before) else {}),
        "BATCH_CONCURRENCY": str(settings.batch_concurrency),
        "CANDIDATE_SLOTS": str(settings.candidate_slots),
        "CONTENT_BASED_DEDUPLICATION": str(settings.content_based_deduplication).lower(),
        "GROUP_COMMIT": str(settings.group_commit).lower(),
        "POWERTOOLS_SERVICE_NAME": SERVICE,
        "POWERTOOLS_METRICS_NAMESPACE": namespace(settings.stage),
        "POWERTOOLS_LOG_LEVEL": LOG_LEVEL,
    }
