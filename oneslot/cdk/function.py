"""The Lambda function that consumes the queue, the mapping that feeds it, and the deployment of its new versions."""

from __future__ import annotations

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

from oneslot.cdk.alarms import Alarms, canary_conditions
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


@dataclass(frozen=True)
class Network:
    """The network of the function: CDK's properties of these names. Without `vpc` it is Lambda's own."""

    vpc: ec2.IVpc | None = None
    vpc_subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup] | None = None


class ConsumerFunction(Construct):
    """The function, its `log_group` and its `role`. A queue invokes `target`: the function, or `alias` if there is one.

    The event source mapping bounds concurrency. None is reserved, because that would throttle the mapping's pollers and
    burn receives. X-Ray is off by default: its SDK costs 160 ms of cold start, and the delivery log says more.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        code: lambda_.Code,
        handler: str,
        description: str,
        environment: Mapping[str, str],
        rights: Callable[[logs.ILogGroup], dict[str, iam.PolicyDocument]],
        numbers: Numbers,
        timeout_seconds: int | None = None,
        published: bool,
        snap_start: bool,
        retain: bool,
        key: kms.IKey | None = None,
        layers: Sequence[lambda_.ILayerVersion] | None = None,
        tracing: lambda_.Tracing | None = None,
        network: Network,
    ) -> None:
        super().__init__(scope, construct_id)
        self.log_group = log_group(self, "LogGroup", days=numbers.log_retention_days, retain=retain, key=key)
        policies = {**rights(self.log_group), **({"Network": document(allow(NETWORK, "*"))} if network.vpc else {})}
        self.role = service_role(
            self,
            "Role",
            "lambda",
            policies,
            wildcards={"*": "Lambda's network interfaces and X-Ray's segments have no names"}
            if network or tracing
            else {},
            only_this_account=False,
        )
        self.function = lambda_.Function(
            self,
            "Function",
            description=description,
            code=code,
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
            layers=layers,
            tracing=tracing,
            vpc=network.vpc,
            vpc_subnets=network.vpc_subnets,
            security_groups=network.security_groups,
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
        if not network.vpc:
            accept(
                self.function,
                {
                    "HIPAA.Security-LambdaInsideVPC": (
                        "it speaks only to AWS's own endpoints, over TLS with signed requests; nothing can connect to it"
                    )
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
        numbers: Numbers,
        queue: sqs.IQueue,
        function: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct_id)
        window, pollers = numbers.batching_window_seconds, numbers.provisioned_pollers
        self.mapping = lambda_.EventSourceMapping(
            self,
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


class GradualDeployment(Construct):
    """A CodeDeploy group that moves `alias` to its new version: a tenth for five minutes, then the rest.

    One failure of the new version rolls it back. Both versions work on the queue meanwhile, which the ledger allows.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        alias: lambda_.Alias,
        function: lambda_.IFunction,
        metrics: ConsumerMetrics,
        log_group: logs.ILogGroup,
    ) -> None:
        """Define the group, and the alarms that it reads. They notify no one."""
        super().__init__(scope, construct_id)
        count_failures_by_version(self, log_group, metrics.namespace)
        alarms = Alarms(
            self,
            "Alarms",
            conditions=canary_conditions(metrics, alias.version.version),
            topic=None,
            silent="CodeDeploy reads it, and rolls the deployment back",
        ).alarms
        role = service_role(
            self,
            "Role",
            "codedeploy",
            {
                "Shift": document(
                    allow(
                        ["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"],
                        function.function_arn,
                        # As text: the alias itself waits for this role.
                        f"{function.function_arn}:{ALIAS}",
                    )
                ),
                "Watch": document(allow(["cloudwatch:DescribeAlarms"], "*")),
            },
            wildcards={"*": "CodeDeploy describes alarms by their names, which the call takes no resource for"},
            only_this_account=False,  # no document says that CodeDeploy names the account
        )
        group = codedeploy.LambdaDeploymentGroup(
            self,
            "Group",
            application=codedeploy.LambdaApplication(self, "Application"),
            alias=alias,
            alarms=alarms,
            role=role.without_policy_updates(),
            deployment_config=codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
        )
        group.node.add_dependency(role)
