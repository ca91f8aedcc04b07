"""A Fargate service that runs `oneslot worker` for a deployed Oneslot stack, and scales on the backlog per task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import (
    Aws,
    CfnCondition,
    CfnParameter,
    CfnResource,
    DefaultStackSynthesizer,
    Duration,
    Fn,
    IgnoreMode,
    RemovalPolicy,
    Stack,
)
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = Path(__file__).with_name("Dockerfile").relative_to(ROOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The number of tasks and their threads.

    One task may have the backlog that its threads consume in the time that a message may wait.
    """

    threads: int = 16
    seconds_per_message: float = 0.1
    acceptable_wait_seconds: float = 30
    fewest_tasks: int = 1
    most_tasks: int = 20
    grace_seconds: int = 25

    @property
    def backlog_per_task(self) -> float:
        """The target: messages that wait in the queue for each running task."""
        return self.threads * self.acceptable_wait_seconds / self.seconds_per_message


class WorkerStack(Stack):
    """One service. Its parameters name the Oneslot stack, its queue, and its key if it has one.

    Lambda may consume the same queue, because the ledger accepts any consumer. Disable its event source mapping to use
    the tasks alone.
    """

    def __init__(self, scope: Construct, construct_id: str, *, scale: Scale) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Oneslot's worker on Fargate",
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        self._scale = scale
        self._stack_name = self._parameter("OneslotStack", "Name of the Oneslot stack, e.g. Oneslot-dev")
        self._queue_name = self._parameter("QueueName", "Name of its queue: the last part of its output QueueUrl")
        # Public subnets without ingress need no NAT gateway, and the tasks reach AWS's endpoints by TLS.
        self.network = ec2.Vpc(
            self,
            "Network",
            max_azs=2,
            nat_gateways=0,
            subnet_configuration=[ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC)],
            flow_logs={"Rejected": ec2.FlowLogOptions(traffic_type=ec2.FlowLogTrafficType.REJECT)},
        )
        self.cluster = ecs.Cluster(
            self, "Cluster", vpc=self.network, container_insights_v2=ecs.ContainerInsights.ENABLED
        )
        self.task_role = iam.Role(
            self,
            "TaskRole",
            assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"),
            inline_policies={"Worker": iam.PolicyDocument(statements=self._rights())},
        )
        self._allow_key()
        task = self._task()
        self.execution_role = task.obtain_execution_role()
        self.service = ecs.FargateService(
            self,
            "Service",
            cluster=self.cluster,
            task_definition=task,
            desired_count=scale.fewest_tasks,
            assign_public_ip=True,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            min_healthy_percent=100,
            security_groups=[ec2.SecurityGroup(self, "NothingIn", vpc=self.network)],
        )
        self._scale_on_backlog()

    def _parameter(self, name: str, description: str) -> str:
        return CfnParameter(self, name, description=description, allowed_pattern="[A-Za-z0-9._-]+").value_as_string

    def _task(self) -> ecs.FargateTaskDefinition:
        scale = self._scale
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            cpu=512,
            memory_limit_mib=1024,
            task_role=self.task_role,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
        )
        task.add_container(
            "Worker",
            image=ecs.ContainerImage.from_asset(
                str(ROOT),
                file=str(DOCKERFILE),
                platform=ecr_assets.Platform.LINUX_ARM64,  # the task's, whatever machine builds the image
                ignore_mode=IgnoreMode.DOCKER,
                exclude=[
                    *("*", "!pyproject.toml", "!lambda_src", "!oneslot", f"!{DOCKERFILE}"),
                    "**/__pycache__",
                ],
            ),
            command=[
                *("--stack", self._stack_name),
                *("--threads", str(scale.threads)),
                *("--grace", str(scale.grace_seconds)),
            ],
            # Longer than the worker's own grace time, so ECS kills no attempt.
            stop_timeout=Duration.seconds(scale.grace_seconds + 15),
            readonly_root_filesystem=True,
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix="worker",
                log_group=logs.LogGroup(
                    self, "Log", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
                ),
            ),
        )
        return task

    def _rights(self) -> list[iam.PolicyStatement]:
        """Return the rights for the calls of `oneslot worker --stack`, on the named stack's resources."""
        table = self.format_arn(service="dynamodb", resource="table", resource_name=f"{self._stack_name}-*")
        queues = f"arn:{Aws.PARTITION}:sqs:{Aws.REGION}:{Aws.ACCOUNT_ID}:{self._stack_name}-*"
        function = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{self._stack_name}-*"
        stack = self.format_arn(service="cloudformation", resource="stack", resource_name=f"{self._stack_name}/*")
        return [
            _allow([f"dynamodb:{call}" for call in ("GetItem", "PutItem", "UpdateItem", "Query")], table),
            _allow([f"sqs:{call}" for call in _CALLS], queues),
            _allow(["lambda:GetFunctionConfiguration"], function),
            _allow(["cloudformation:DescribeStacks"], stack),
        ]

    def _allow_key(self) -> None:
        """Allow DynamoDB and SQS to use the stack's key in the worker's name, if the stack has one."""
        key = CfnParameter(
            self,
            "KeyArn",
            description="The Oneslot stack's output KeyArn; empty if it has none, without customer_managed_keys",
            default="",
            allowed_pattern=r"|arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+",
        ).value_as_string
        given = CfnCondition(self, "KeyGiven", expression=Fn.condition_not(Fn.condition_equals(key, "")))
        services = [f"{service}.{Aws.REGION}.amazonaws.com" for service in ("dynamodb", "sqs")]
        use = iam.PolicyStatement(
            actions=[f"kms:{call}" for call in ("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey")],
            resources=[key],
            conditions={"StringEquals": {"kms:ViaService": services}},
        )
        role = self.task_role.node.default_child
        if not isinstance(role, CfnResource):
            raise TypeError("a role's default child is its CloudFormation resource")
        policy = {"PolicyName": "Key", "PolicyDocument": self.resolve(iam.PolicyDocument(statements=[use]).to_json())}
        # In the role itself: a resource that depends on the role may not depend on one that has a condition.
        role.add_property_override("Policies.1", {"Fn::If": [given.logical_id, policy, {"Ref": "AWS::NoValue"}]})

    def _scale_on_backlog(self) -> None:
        """Target tracking on `messages waiting / running tasks`. CDK's own helper takes no expression, hence the resource."""
        target = scaling.ScalableTarget(
            self,
            "Tasks",
            service_namespace=scaling.ServiceNamespace.ECS,
            resource_id=f"service/{self.cluster.cluster_name}/{self.service.service_name}",
            scalable_dimension="ecs:service:DesiredCount",
            min_capacity=self._scale.fewest_tasks,
            max_capacity=self._scale.most_tasks,
        )
        waiting = _metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", {"QueueName": self._queue_name})
        tasks = _metric(
            "ECS/ContainerInsights",
            "RunningTaskCount",
            {"ClusterName": self.cluster.cluster_name, "ServiceName": self.service.service_name},
        )
        scaling.CfnScalingPolicy(
            self,
            "BacklogPerTask",
            policy_name="backlog-per-task",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.scalable_target_id,
            target_tracking_scaling_policy_configuration={
                "targetValue": self._scale.backlog_per_task,
                "scaleOutCooldown": 60,
                "scaleInCooldown": 300,
                "customizedMetricSpecification": {
                    "metrics": [
                        {"id": "waiting", "metricStat": waiting, "returnData": False},
                        {"id": "tasks", "metricStat": tasks, "returnData": False},
                        {
                            "id": "backlog",
                            "expression": "waiting / tasks",
                            "label": "backlog per task",
                            "returnData": True,
                        },
                    ]
                },
            },
        )


_CALLS = (
    "ReceiveMessage",
    "DeleteMessage",
    "ChangeMessageVisibility",
    "GetQueueAttributes",
    "SendMessage",  # to the dead-letter queue, with the reason
)


def _metric(namespace: str, name: str, dimensions: dict[str, str]) -> dict[str, Any]:
    named = [{"name": key, "value": value} for key, value in dimensions.items()]
    return {"stat": "Average", "metric": {"namespace": namespace, "metricName": name, "dimensions": named}}


def _allow(actions: list[str], resource: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=[resource])
