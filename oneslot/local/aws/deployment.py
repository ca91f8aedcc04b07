"""Deployment of a cloud assembly into the embedded AWS: assets, template, and what the emulator ignores in it."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from oneslot.errors import DeploymentFailed
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_s3.client import S3Client

STACK_SECONDS = 60.0  # measured: 0.05-0.3 s
BOOTSTRAP_VERSION = "30"
_POLL_SECONDS = 0.05
_CAPABILITIES: Any = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"]


@dataclass(frozen=True)
class Deployment:
    """A deployed stack."""

    connection: Connection
    stack_name: str
    outputs: dict[str, str]  # by output id
    resources: dict[str, str]  # logical id -> physical id
    template: dict[str, Any]
    changed: tuple[str, ...] = ()  # the logical ids that it created or updated


def deploy(stack: SynthesisedStack, connection: Connection, *, update: bool = False) -> Deployment:
    """Upload the assets, create or update the stack, wait for it, and set by API what the emulator ignores in templates.

    Alarms on metric math are left out: the emulator refuses them, and none of its alarms would ever start.
    The event source mappings are disabled: nothing is consumed until an `EventSourceMapping` of ours starts.
    An update keeps what did not change, and refuses to lose a queue or a table. Without `update` the account must not have
    the stack yet. Raises `DeploymentFailed` with the reasons that CloudFormation gave.
    """
    template = without_metric_math(stack.template)
    with ExitStack() as clients:
        s3 = clients.enter_context(closing(connection.s3()))
        cloudformation = clients.enter_context(closing(connection.client("cloudformation")))
        dynamodb = clients.enter_context(closing(connection.dynamodb()))
        functions = clients.enter_context(closing(connection.functions()))
        for asset in stack.assets:
            if not asset.source.exists():
                raise DeploymentFailed(f"The cloud assembly names a missing asset: {asset.source}. Synthesise again.")
            _put(_fill(asset.bucket, connection), _fill(asset.key, connection), asset.content(), connection, s3)
        previous: Any = {"Resources": {}}
        if update:
            previous = cloudformation.get_template(StackName=stack.name)["TemplateBody"]
            _refuse_loss(previous["Resources"], template["Resources"])
        changed = {
            name: each for name, each in template["Resources"].items() if each != previous["Resources"].get(name)
        }
        parameters = clients.enter_context(closing(connection.client("ssm")))
        for parameter in template.get("Parameters", {}).values():  # as `cdk bootstrap` leaves it in an account
            if (name := str(parameter.get("Default", ""))).startswith("/cdk-bootstrap/"):
                parameters.put_parameter(Name=name, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True)
        # By URL, as CDK does: a template within the request may have 51,200 bytes only.
        bucket, key = f"oneslot-templates-{connection.account}", f"{stack.name}.json"
        _put(bucket, key, json.dumps(template).encode(), connection, s3)
        if template != previous:
            token = secrets.token_hex()
            _submit(cloudformation, stack.name, f"{connection.endpoint_url}/{bucket}/{key}", token, update=update)
            _wait(cloudformation, stack.name, template, token)
        (deployed,) = cloudformation.describe_stacks(StackName=stack.name)["Stacks"]
        outputs = {output["OutputKey"]: output["OutputValue"] for output in deployed.get("Outputs", [])}
        resources = {
            resource["LogicalResourceId"]: resource["PhysicalResourceId"]
            for resource in cloudformation.describe_stack_resources(StackName=stack.name)["StackResources"]
        }
        _set_ignored(changed, resources, dynamodb, functions)
    return Deployment(connection, stack.name, outputs, resources, template, tuple(changed))


def _refuse_loss(previous: dict[str, Any], resources: dict[str, Any]) -> None:
    """Raise `DeploymentFailed` for a change of a table, which the emulator would make again, or the loss of a queue."""
    lost = [
        name
        for name, each in previous.items()
        if (each["Type"].startswith("AWS::DynamoDB::") and each != resources.get(name))
        or (each["Type"] == "AWS::SQS::Queue" and _identity(each) != _identity(resources.get(name)))
    ]
    if lost:
        raise DeploymentFailed(
            f"Nothing was updated, because the local stack would lose what {', '.join(lost)} holds. Leave it as it is in the "
            "CDK app, or start afresh: oneslot down, then oneslot up."
        )


def _identity(queue: dict[str, Any] | None) -> list[Any] | None:
    return None if queue is None else [queue.get("Properties", {}).get(name) for name in ("QueueName", "FifoQueue")]


def without_metric_math(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template without its alarms on metric math."""
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


def _put(bucket: str, key: str, body: bytes, connection: Connection, s3: S3Client) -> None:
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        here: Any = connection.region  # boto3's types know the regions by name
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": here})
    s3.put_object(Bucket=bucket, Key=key, Body=body)


def _submit(cloudformation: CloudFormationClient, name: str, template_url: str, token: str, *, update: bool) -> None:
    submit: Any = cloudformation.update_stack if update else cloudformation.create_stack
    try:
        submit(StackName=name, TemplateURL=template_url, Capabilities=_CAPABILITIES, ClientRequestToken=token)
    except ClientError as error:
        raise DeploymentFailed(
            f"The embedded AWS refused the template of {name}: {error.response['Error'].get('Message')} "
            "Move a resource type that it does not have to another stack."
        ) from error


def _wait(cloudformation: CloudFormationClient, name: str, template: dict[str, Any], token: str) -> None:
    deadline = time.monotonic() + STACK_SECONDS
    while True:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        if stack["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
            reasons = "\n".join(
                f"{event.get('LogicalResourceId')} ({event.get('ResourceType')}): {event.get('ResourceStatusReason')}"
                for event in reversed(events)
                if event.get("ClientRequestToken") == token and event["ResourceStatus"].endswith("FAILED")
            )
            raise DeploymentFailed(f"The stack {name} ended in {stack['StackStatus']}.\n{reasons}")
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


def _set_ignored(
    changed: dict[str, Any], resources: dict[str, str], dynamodb: DynamoDBClient, functions: LambdaClient
) -> None:
    """Set by API what the emulator accepts in these resources and ignores, and disable its own polling.

    These are a table's TTL, a function's reserved concurrency and a filter's removal. Polling would delete what AWS retries.
    """
    for logical_id, resource in changed.items():
        properties, name = resource.get("Properties", {}), resources.get(logical_id, "")
        match resource["Type"]:
            case "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable":
                ttl = properties.get("TimeToLiveSpecification", {})
                if ttl.get("Enabled"):
                    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=ttl)
            case "AWS::Lambda::Function" if "ReservedConcurrentExecutions" in properties:
                functions.put_function_concurrency(
                    FunctionName=name, ReservedConcurrentExecutions=properties["ReservedConcurrentExecutions"]
                )
            case "AWS::Lambda::EventSourceMapping":
                unfiltered: Any = {} if "FilterCriteria" in properties else {"FilterCriteria": {}}
                functions.update_event_source_mapping(UUID=name, Enabled=False, **unfiltered)
