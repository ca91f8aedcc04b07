"""Deployment of a cloud assembly into the embedded AWS: assets, template, and what the emulator ignores in it."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from oneslot.errors import DeploymentFailed
from oneslot.local.aws.cloud_assembly import FileAsset, SynthesisedStack
from oneslot.local.aws.connection import Connection

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_s3.client import S3Client

STACK_SECONDS = 60.0  # measured: 0.05-0.3 s
BOOTSTRAP_VERSION = "30"
_POLL_SECONDS = 0.05
_TABLE_TYPES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")


@dataclass(frozen=True)
class Deployment:
    """A deployed stack."""

    connection: Connection
    stack_name: str
    outputs: dict[str, str]  # by output id
    resources: dict[str, str]  # logical id -> physical id
    template: dict[str, Any]


def deploy(stack: SynthesisedStack, connection: Connection) -> Deployment:
    """Upload the assets, create the stack, wait for it, and set by API what the emulator ignores in templates.

    Alarms on metric math are left out: the emulator refuses them, and none of its alarms would ever start.
    The event source mappings are disabled: nothing is consumed until an `EventSourceMapping` of ours starts.
    The account must not have the stack yet. Raises `DeploymentFailed` with the reasons that CloudFormation gave.
    """
    stack = replace(stack, template=_without_metric_math(stack.template))
    with ExitStack() as clients:
        s3 = clients.enter_context(closing(connection.s3()))
        cloudformation = clients.enter_context(closing(connection.cloudformation()))
        dynamodb = clients.enter_context(closing(connection.dynamodb()))
        functions = clients.enter_context(closing(connection.functions()))
        for asset in stack.assets:
            _upload(asset, connection, s3)
        _bootstrap(stack.template, connection)
        template_url = _upload_template(stack, connection, s3)
        _create(cloudformation, stack.name, template_url)
        outputs = _wait(cloudformation, stack.name, stack.template)
        resources = {
            resource["LogicalResourceId"]: resource["PhysicalResourceId"]
            for resource in cloudformation.describe_stack_resources(StackName=stack.name)["StackResources"]
        }
        _set_table_settings(stack.template, resources, dynamodb)
        _set_reserved_concurrency(stack.template, resources, functions)
        _disable_mappings(stack.template, resources, functions)
    return Deployment(connection, stack.name, outputs, resources, stack.template)


def _without_metric_math(template: dict[str, Any]) -> dict[str, Any]:
    kept = {
        name: resource
        for name, resource in template["Resources"].items()
        if not (resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"])
    }
    return {**template, "Resources": kept}


def _fill(text: str, connection: Connection) -> str:
    return (
        text.replace("${AWS::AccountId}", connection.account)
        .replace("${AWS::Region}", connection.region)
        .replace("${AWS::Partition}", "aws")
    )


def _upload(asset: FileAsset, connection: Connection, s3: S3Client) -> None:
    if not asset.source.exists():
        raise DeploymentFailed(f"The cloud assembly names a missing asset: {asset.source}. Synthesise again.")
    bucket = _fill(asset.bucket, connection)
    _make_bucket(bucket, connection, s3)
    s3.put_object(Bucket=bucket, Key=_fill(asset.key, connection), Body=asset.content())


def _bootstrap(template: dict[str, Any], connection: Connection) -> None:
    """Leave what `cdk bootstrap` leaves in an account, as far as a template asks for it: the version of its resources."""
    with closing(connection.client("ssm")) as parameters:
        for parameter in template.get("Parameters", {}).values():
            if (name := str(parameter.get("Default", ""))).startswith("/cdk-bootstrap/"):
                parameters.put_parameter(Name=name, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True)


def _upload_template(stack: SynthesisedStack, connection: Connection, s3: S3Client) -> str:
    # By URL, as CDK does: a template within the request may have 51,200 bytes only.
    bucket = f"oneslot-templates-{connection.account}"
    _make_bucket(bucket, connection, s3)
    s3.put_object(Bucket=bucket, Key=f"{stack.name}.json", Body=json.dumps(stack.template).encode())
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
            "Move a resource type that it does not have to another stack."
        ) from error


def _wait(cloudformation: CloudFormationClient, name: str, template: dict[str, Any]) -> dict[str, str]:
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
            listed = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
            ready = {each["LogicalResourceId"] for each in listed if each["ResourceStatus"] == "CREATE_COMPLETE"}
            waiting = "\n".join(
                f"{logical_id} ({resource['Type']})"
                for logical_id, resource in template["Resources"].items()
                if logical_id not in ready
            )
            raise DeploymentFailed(
                f"The stack {name} was not ready within {STACK_SECONDS:.0f} s. These resources were not:\n{waiting}"
            )
        time.sleep(_POLL_SECONDS)


def _reasons(cloudformation: CloudFormationClient, name: str) -> str:
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return "\n".join(
        f"{event.get('LogicalResourceId')} ({event.get('ResourceType')}): {event['ResourceStatusReason']}"
        for event in reversed(events)
        if event.get("ResourceStatus", "").endswith("FAILED") and event.get("ResourceStatusReason")
    )


def _set_table_settings(template: dict[str, Any], resources: dict[str, str], dynamodb: DynamoDBClient) -> None:
    """Set TTL and point-in-time recovery as in the template: the emulator accepts and ignores both."""
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] not in _TABLE_TYPES:
            continue
        properties = resource["Properties"]
        ttl = properties.get("TimeToLiveSpecification", {})
        if ttl.get("Enabled"):
            dynamodb.update_time_to_live(TableName=resources[logical_id], TimeToLiveSpecification=ttl)
        # A global table has the setting in each of its replicas.
        recovery = [
            each.get("PointInTimeRecoverySpecification", {}) for each in (properties, *properties.get("Replicas", []))
        ]
        if any(each.get("PointInTimeRecoveryEnabled") for each in recovery):
            dynamodb.update_continuous_backups(
                TableName=resources[logical_id],
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
            )


def _set_reserved_concurrency(template: dict[str, Any], resources: dict[str, str], functions: LambdaClient) -> None:
    """Reserve concurrency as in the template: the emulator accepts and ignores this too."""
    for logical_id, resource in template["Resources"].items():
        reserved = resource.get("Properties", {}).get("ReservedConcurrentExecutions")
        if resource["Type"] == "AWS::Lambda::Function" and reserved is not None:
            functions.put_function_concurrency(
                FunctionName=resources[logical_id], ReservedConcurrentExecutions=reserved
            )


def _disable_mappings(template: dict[str, Any], resources: dict[str, str], functions: LambdaClient) -> None:
    """Disable the emulator's own polling before the first message: it deletes what AWS would deliver again."""
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            functions.update_event_source_mapping(UUID=resources[logical_id], Enabled=False)
