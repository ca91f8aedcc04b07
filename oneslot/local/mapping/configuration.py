"""The poller's configuration, read from the deployed mapping, function and queue. No number is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oneslot.errors import UnsupportedMapping
from oneslot.runtime.sqs.answer import REPORT_FAILURES

if TYPE_CHECKING:
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_sqs.client import SQSClient


@dataclass(frozen=True)
class FunctionConfiguration:
    """A deployed function, as its invoker needs it."""

    name: str
    arn: str
    version: str
    handler: str  # "module.function"
    timeout_seconds: int
    memory_mb: int
    environment: dict[str, str]
    log_group: str
    reserved_concurrency: int | None  # None: not reserved; 0: every invocation is throttled
    code_url: str  # the URL of the deployed zip


@dataclass(frozen=True)
class QueueConfiguration:
    """The source queue."""

    url: str
    arn: str
    region: str
    visibility_timeout_seconds: int


@dataclass(frozen=True)
class MappingConfiguration:
    """A deployed event source mapping from an SQS queue to a function."""

    uuid: str
    batch_size: int
    batching_window_seconds: int
    maximum_concurrency: int | None
    reports_failures: bool
    queue: QueueConfiguration
    function: FunctionConfiguration


def read_mapping(uuid: str, *, functions: LambdaClient, sqs: SQSClient) -> MappingConfiguration:
    """Read it from the API. Raises `UnsupportedMapping` for a source or feature that the poller does not have."""
    mapping = functions.get_event_source_mapping(UUID=uuid)
    queue_arn = mapping["EventSourceArn"]
    _, _, service, region, account, name = queue_arn.split(":", 5)
    if service != "sqs":
        raise UnsupportedMapping(f"The local poller reads SQS queues only, and mapping {uuid} reads {queue_arn}.")
    if mapping.get("FilterCriteria", {}).get("Filters"):
        raise UnsupportedMapping(f"The local poller does not apply FilterCriteria; remove those of mapping {uuid}.")
    queue_url = sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    return MappingConfiguration(
        uuid=uuid,
        batch_size=mapping["BatchSize"],
        batching_window_seconds=mapping.get("MaximumBatchingWindowInSeconds", 0),
        maximum_concurrency=mapping.get("ScalingConfig", {}).get("MaximumConcurrency"),
        reports_failures=REPORT_FAILURES in mapping.get("FunctionResponseTypes", []),
        queue=QueueConfiguration(
            url=queue_url, arn=queue_arn, region=region, visibility_timeout_seconds=int(attributes["VisibilityTimeout"])
        ),
        function=read_function(mapping["FunctionArn"], functions=functions),
    )


def read_function(name: str, *, functions: LambdaClient) -> FunctionConfiguration:
    """Read a function from the API. name: its name or ARN, with or without a version or alias."""
    function = functions.get_function(FunctionName=name)
    configuration = function["Configuration"]
    return FunctionConfiguration(
        name=configuration["FunctionName"],
        arn=configuration["FunctionArn"],
        version=configuration["Version"],
        handler=configuration["Handler"],
        timeout_seconds=configuration["Timeout"],
        memory_mb=configuration["MemorySize"],
        environment=dict(configuration.get("Environment", {}).get("Variables", {})),
        log_group=configuration.get("LoggingConfig", {}).get("LogGroup")
        or f"/aws/lambda/{configuration['FunctionName']}",
        reserved_concurrency=function.get("Concurrency", {}).get("ReservedConcurrentExecutions"),
        code_url=function["Code"]["Location"],
    )
