"""From a cloud assembly to a running stack in the embedded AWS: assets, template, and what the emulator leaves out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from oneslot.local.aws.cloud_assembly import FileAsset, SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.template import TABLE_TYPES, DroppedResources, drop_rejected, table_settings
from oneslot.local.errors import DeploymentFailed

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_s3.client import S3Client

STACK_SECONDS = 60.0  # measured: 0.05-0.3 s
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Deployment:
    """A deployed stack."""

    connection: Connection
    stack_name: str
    outputs: dict[str, str]  # by output id
    resources: dict[str, str]  # logical id -> physical id
    template: dict[str, Any]  # as deployed: without what was dropped
    dropped: DroppedResources  # what the embedded AWS cannot hold


def deploy(
    stack: SynthesisedStack, connection: Connection, *, progress: Callable[[str], None] = lambda _: None
) -> Deployment:
    """Upload the assets, create the stack, wait for it, and set by API what the emulator drops from templates.

    Its event source mappings are switched off: nothing is consumed until an `EventSourceMapping` of ours is started.
    The account must not have the stack yet. Raises `DeploymentFailed` with the reasons that CloudFormation gave.
    """
    template, dropped = drop_rejected(stack.template)
    for kind, logical_ids in dropped.items():
        progress(f"Left out, because the embedded AWS has no {kind}: {', '.join(logical_ids)}.")
    with ExitStack() as clients:
        s3 = clients.enter_context(closing(connection.s3()))
        cloudformation = clients.enter_context(closing(connection.cloudformation()))
        dynamodb = clients.enter_context(closing(connection.dynamodb()))
        functions = clients.enter_context(closing(connection.functions()))
        for asset in stack.assets:
            _upload(asset, connection, s3)
        template_url = _upload_template(stack, template, connection, s3)
        _create(cloudformation, stack.name, template_url)
        outputs = _wait(cloudformation, stack.name)
        resources = {
            resource["LogicalResourceId"]: resource["PhysicalResourceId"]
            for resource in cloudformation.describe_stack_resources(StackName=stack.name)["StackResources"]
        }
        _set_table_settings(template, resources, dynamodb)
        _set_reserved_concurrency(template, resources, functions)
        _switch_mappings_off(template, resources, functions)
    return Deployment(connection, stack.name, outputs, resources, template, dropped)


def _fill(text: str, connection: Connection) -> str:
    return (
        text.replace("${AWS::AccountId}", connection.account)
        .replace("${AWS::Region}", connection.region)
        .replace("${AWS::Partition}", "aws")
    )


def _upload(asset: FileAsset, connection: Connection, s3: S3Client) -> None:
    if not asset.source.exists():
        raise DeploymentFailed(
            f"The cloud assembly names an asset that is not there: {asset.source}. Synthesise again."
        )
    bucket = _fill(asset.bucket, connection)
    _make_bucket(bucket, connection, s3)
    s3.put_object(Bucket=bucket, Key=_fill(asset.key, connection), Body=asset.content())


def _upload_template(stack: SynthesisedStack, template: dict[str, Any], connection: Connection, s3: S3Client) -> str:
    # By URL, as CDK does: in the request itself a template may have 51,200 bytes only.
    bucket = f"oneslot-templates-{connection.account}"
    _make_bucket(bucket, connection, s3)
    s3.put_object(Bucket=bucket, Key=f"{stack.name}.json", Body=json.dumps(template).encode())
    return f"{connection.endpoint_url}/{bucket}/{stack.name}.json"


def _make_bucket(name: str, connection: Connection, s3: S3Client) -> None:
    try:
        here: Any = connection.region  # boto3's types know the regions by name
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": here})
    except s3.exceptions.BucketAlreadyOwnedByYou:
        return


def _create(cloudformation: CloudFormationClient, name: str, template_url: str) -> None:
    try:
        cloudformation.create_stack(
            StackName=name, TemplateURL=template_url, Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"]
        )
    except ClientError as error:
        raise DeploymentFailed(
            f"The embedded AWS refused the template of {name}: {error.response['Error'].get('Message')} "
            "If it has no such resource type, keep it in another stack, or name it in REJECTED (oneslot/local/aws/template.py)."
        ) from error


def _wait(cloudformation: CloudFormationClient, name: str) -> dict[str, str]:
    deadline = time.monotonic() + STACK_SECONDS
    while True:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        if stack["StackStatus"] == "CREATE_COMPLETE":
            return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
        if not stack["StackStatus"].endswith("CREATE_IN_PROGRESS"):
            raise DeploymentFailed(
                f"The stack {name} ended in {stack['StackStatus']}.\n{_reasons(cloudformation, name)}"
            )
        if time.monotonic() > deadline:
            raise DeploymentFailed(f"The stack {name} was not ready within {STACK_SECONDS:.0f} s.")
        time.sleep(_POLL_SECONDS)


def _reasons(cloudformation: CloudFormationClient, name: str) -> str:
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return "\n".join(
        f"{event.get('LogicalResourceId')} ({event.get('ResourceType')}): {event['ResourceStatusReason']}"
        for event in reversed(events)
        if event.get("ResourceStatus", "").endswith("FAILED") and event.get("ResourceStatusReason")
    )


def _set_table_settings(template: dict[str, Any], resources: dict[str, str], dynamodb: DynamoDBClient) -> None:
    """Set TTL and point-in-time recovery as the template has them: the emulator accepts and forgets both."""
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] not in TABLE_TYPES:
            continue
        settings = table_settings(resource)
        if settings.ttl_attribute is not None:
            dynamodb.update_time_to_live(
                TableName=resources[logical_id],
                TimeToLiveSpecification={"Enabled": True, "AttributeName": settings.ttl_attribute},
            )
        if settings.point_in_time_recovery:
            dynamodb.update_continuous_backups(
                TableName=resources[logical_id],
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
            )


def _set_reserved_concurrency(template: dict[str, Any], resources: dict[str, str], functions: LambdaClient) -> None:
    """Reserve what the template reserves for its functions: the emulator accepts and forgets this too."""
    for logical_id, resource in template["Resources"].items():
        reserved = resource.get("Properties", {}).get("ReservedConcurrentExecutions")
        if resource["Type"] == "AWS::Lambda::Function" and reserved is not None:
            functions.put_function_concurrency(
                FunctionName=resources[logical_id], ReservedConcurrentExecutions=reserved
            )


def _switch_mappings_off(template: dict[str, Any], resources: dict[str, str], functions: LambdaClient) -> None:
    """Keep the emulator's own polling away from the first message on: it deletes what AWS would deliver again."""
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            functions.update_event_source_mapping(UUID=resources[logical_id], Enabled=False)
