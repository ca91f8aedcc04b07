"""The nightly state machine around the audit's job, its schedule and its rights."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from oneslot.cdk.resources import log_group, name_in_this_stack, removal_policy
from oneslot.cdk.roles import allow, document, service_role
from stacks.audit.job import AuditJob
from stacks.audit.plan import VERDICT_FILE, AuditPlan
from stacks.audit.states import definition
from stacks.audit.storage import AuditStorage
from stacks.shared.deployed import TABLE_OUTPUTS, Deployed
from stacks.shared.measures import namespace
from stacks.shared.rules import objects_in_report

MINUTES_AFTER_MIDNIGHT = 30
"""DynamoDB exports up to about five minutes ago at the latest, and Firehose delivers within five more."""


class AuditWorkflow(Construct):
    """Each night: export, audit, notify.

    Attributes:
        machine: the state machine. Start it by hand with the input {"scheduled": "2026-11-24T00:30:00Z"}.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: AuditPlan,
        storage: AuditStorage,
        job: AuditJob,
        deployed: Deployed,
        log_retention_days: int,
        retain_data: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        group = log_group(
            self,
            "LogGroup",
            days=log_retention_days,
            retain=retain_data,
            key=storage.key,
            # One policy of the account covers all groups with this prefix; one policy for each would soon be too long.
            # The rest is unique, so a group that a deleted stack left behind does not block the next one.
            name=f"/aws/vendedlogs/states/{name_in_this_stack('machine')}",
        )
        role = service_role(
            self,
            "Role",
            "states",
            _rights(storage, job, plan),
            wildcards={
                objects_in_report(storage.bucket, "history/*"): "DynamoDB names the files of an export, in this folder",
                objects_in_report(storage.bucket, f"audits/*/{VERDICT_FILE}"): "one verdict for each night",
                **{
                    deployed.table_arn_in_report(output) + "/export/*": "an export has no name before it is started"
                    for output in TABLE_OUTPUTS.values()
                },
                "*": "putting metrics (held to one namespace by a condition), log delivery and traces know no resource",
            },
        )
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            definition_body=sfn.DefinitionBody.from_string(stack.to_json_string(definition(plan))),
            role=role.without_policy_updates(),
            # The states' input and output name no patient; the log does without them all the same.
            logs=sfn.LogOptions(destination=group, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=True,
            removal_policy=removal_policy(retain=retain_data),
        )
        self.machine.node.add_dependency(role)
        self._schedule()

    def _schedule(self) -> None:
        start = document(allow(["states:StartExecution"], self.machine.state_machine_arn))
        role = service_role(self, "ScheduleRole", "scheduler", {"Start": start})
        scheduler.CfnSchedule(
            self,
            "Schedule",
            description="Oneslot: the nightly audit",
            schedule_expression=f"cron({MINUTES_AFTER_MIDNIGHT} 0 * * ? *)",
            schedule_expression_timezone="UTC",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=self.machine.state_machine_arn,
                role_arn=role.role_arn,
                # The time that was scheduled, however late the start.
                input='{"scheduled": "<aws.scheduler.scheduled-time>"}',
            ),
        )


def _rights(storage: AuditStorage, job: AuditJob, plan: AuditPlan) -> dict[str, iam.PolicyDocument]:
    """Return the named inline policies: the calls of the states, on their resources."""
    bucket = storage.bucket
    return {
        "Export": document(
            allow(["dynamodb:ExportTableToPointInTime"], *plan.tables.values()),
            allow(["dynamodb:DescribeExport"], *(f"{arn}/export/*" for arn in plan.tables.values())),
            # DynamoDB writes the export in the caller's name.
            allow(["s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"], bucket.arn_for_objects("history/*")),
        ),
        "Verdict": document(allow(["s3:GetObject"], bucket.arn_for_objects(f"audits/*/{VERDICT_FILE}"))),
        "Key": document(allow(["kms:Decrypt", "kms:GenerateDataKey"], storage.key.key_arn)),
        "Job": document(
            allow(["glue:BatchStopJobRun", "glue:GetJobRun", "glue:GetJobRuns", "glue:StartJobRun"], job.job.job_arn)
        ),
        "Tell": document(
            allow(["sns:Publish"], plan.topic_arn),
            allow(
                ["cloudwatch:PutMetricData"],
                "*",
                only={"StringEquals": {"cloudwatch:namespace": namespace(plan.stage)}},
            ),
        ),
        "Log": document(
            allow(
                [
                    "logs:CreateLogDelivery",
                    "logs:DeleteLogDelivery",
                    "logs:DescribeLogGroups",
                    "logs:DescribeResourcePolicies",
                    "logs:GetLogDelivery",
                    "logs:ListLogDeliveries",
                    "logs:PutResourcePolicy",
                    "logs:UpdateLogDelivery",
                ],
                "*",
            ),
            allow(
                [
                    "xray:GetSamplingRules",
                    "xray:GetSamplingTargets",
                    "xray:PutTelemetryRecords",
                    "xray:PutTraceSegments",
                ],
                "*",
            ),
        ),
    }
