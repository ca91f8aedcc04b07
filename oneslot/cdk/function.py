"""The Lambda function that consumes the queue, the mapping that feeds it, and the deployment of its new versions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oneslot.cdk.alarms import canary_conditions, define_alarms
from oneslot.cdk.metrics import ALIAS, ConsumerMetrics, count_failures_by_version
from oneslot.cdk.numbers import Numbers
from oneslot.cdk.resources import log_group
from oneslot.cdk.rights import accept, allow, document, service_role

NETWORK = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]
"""What Lambda does in the role's name to put a function into a network: AWS's policy `AWSLambdaVPCAccessExecutionRole`."""


@dataclass(frozen=True, kw_only=True)
class FunctionProperties:
    """What the consumer's function and its relay have in common. Without `vpc` their network is Lambda's own."""

    code: lambda_.Code
    numbers: Numbers
    retain: bool
    key: kms.IKey | None
    layers: Sequence[lambda_.ILayerVersion] | None
    tracing: lambda_.Tracing | None
    vpc: ec2.IVpc | None
    vpc_subnets: ec2.SubnetSelection | None
    security_groups: Sequence[ec2.ISecurityGroup] | None


class ConsumerFunction(Construct):
    """The function, its `log_group` and its `role`. A queue invokes `target`: the function, or `alias` if there is one.

    The event source mapping bounds concurrency. None is reserved, because that would throttle the mapping's pollers and
    burn receives. X-Ray is off by default: its SDK costs 160 ms of cold start, and the delivery log says more.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        properties: FunctionProperties,
        *,
        handler: str,
        description: str,
        environment: Mapping[str, str],
        rights: Callable[[logs.ILogGroup], dict[str, iam.PolicyDocument]],
        timeout_seconds: int | None = None,
        published: bool = False,
        snap_start: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        numbers, key, vpc = properties.numbers, properties.key, properties.vpc
        days = numbers.log_retention_days
        self.log_group = log_group(self, "LogGroup", days=days, retain=properties.retain, key=key)
        policies = {**rights(self.log_group), **({"Network": document(allow(NETWORK, "*"))} if vpc else {})}
        self.role = service_role(
            self,
            "Role",
            "lambda",
            policies,
            wildcards={"*": "Lambda's network interfaces and X-Ray's segments have no names"}
            if vpc or properties.tracing
            else {},
            only_this_account=False,
        )
        self.function = lambda_.Function(
            self,
            "Function",
            description=description,
            code=properties.code,
            handler=handler,
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            timeout=Duration.seconds(timeout_seconds or numbers.lambda_timeout_seconds),
            memory_size=numbers.lambda_memory_mb,
            role=self.role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            system_log_level_v2=lambda_.SystemLogLevel.INFO,
            environment=dict(environment),
            environment_encryption=key,  # Lambda gives the role a grant on it, so the role needs no right of its own
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            layers=properties.layers,
            tracing=properties.tracing,
            vpc=vpc,
            vpc_subnets=properties.vpc_subnets,
            security_groups=properties.security_groups,
        )
        # Lambda takes snapshots of published versions only, and shifts traffic between them; a deployment moves the alias.
        self.alias = (
            lambda_.Alias(self, "Alias", alias_name=ALIAS, version=self.function.current_version)
            if published or snap_start
            else None
        )
        self.target: lambda_.IFunction = self.alias or self.function
        if not key:
            accept(
                self.log_group,
                {
                    "HIPAA.Security-CloudWatchLogGroupEncrypted": (
                        "CloudWatch encrypts every log group; a key of one's own is an option, and no line names a person"
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
            },
        )
        if not vpc:
            accept(
                self.function,
                {
                    "HIPAA.Security-LambdaInsideVPC": (
                        "it speaks only to AWS's own endpoints, over TLS with signed requests; nothing can connect to it"
                    )
                },
            )


def event_source(
    scope: Construct, numbers: Numbers, queue: sqs.IQueue, function: lambda_.IFunction
) -> lambda_.EventSourceMapping:
    """Return a mapping with partial batch responses: a failed record returns, the rest of its batch is deleted.

    CDK's `add_event_source` would grant its own, wider set of rights.
    """
    window, pollers = numbers.batching_window_seconds, numbers.provisioned_pollers
    return lambda_.EventSourceMapping(
        Construct(scope, "EventSource"),
        "Mapping",
        target=function,
        event_source_arn=queue.queue_arn,
        batch_size=numbers.batch_size,
        max_batching_window=Duration.seconds(window) if window else None,
        # Lambda takes one of the two: with pollers, the most of them limit the consumers at once.
        max_concurrency=None if pollers else numbers.max_concurrency,
        provisioned_poller_config=lambda_.ProvisionedPollerConfig(
            minimum_pollers=pollers, maximum_pollers=numbers.most_pollers
        )
        if pollers
        else None,
        report_batch_item_failures=True,
    )


def deploy_gradually(
    scope: Construct, consumer: ConsumerFunction, alias: lambda_.Alias, metrics: ConsumerMetrics
) -> None:
    """Let CodeDeploy move `alias` to its new version: a tenth for five minutes, then the rest.

    One failure of the new version rolls it back. Both versions work on the queue meanwhile, which the ledger allows. The alarms
    that the group reads notify no one.
    """
    scope, arn = Construct(scope, "Deployment"), consumer.function.function_arn
    count_failures_by_version(scope, consumer.log_group, metrics.namespace)
    watched = canary_conditions(metrics, alias.version.version)
    alarms = define_alarms(scope, watched, None, "CodeDeploy reads it, and rolls the deployment back")
    shift = ["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"]
    role = service_role(
        scope,
        "Role",
        "codedeploy",
        {
            # The alias as text: it waits for this role.
            "Shift": document(allow(shift, arn, f"{arn}:{ALIAS}")),
            "Watch": document(allow(["cloudwatch:DescribeAlarms"], "*")),
        },
        wildcards={"*": "CodeDeploy describes alarms by their names, which the call takes no resource for"},
        only_this_account=False,  # no document says that CodeDeploy names the account
    )
    group = codedeploy.LambdaDeploymentGroup(
        scope,
        "Group",
        application=codedeploy.LambdaApplication(scope, "Application"),
        alias=alias,
        alarms=alarms,
        role=role.without_policy_updates(),
        deployment_config=codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
    )
    group.node.add_dependency(role)
