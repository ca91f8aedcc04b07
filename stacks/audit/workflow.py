"""The nightly state machine around the audit's job, its schedule and its rights."""

from datetime import datetime
from pathlib import Path

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from oneslot.cdk.alarms import RUNBOOKS
from oneslot.cdk.resources import log_group, name_in_this_stack, removal_policy
from oneslot.cdk.rights import allow, document, service_role
from stacks.audit.job import AuditJob
from stacks.audit.storage import AuditStorage
from stacks.settings import Settings
from stacks.shared.deployed import TABLE_OUTPUTS, Deployed
from stacks.shared.measures import VIOLATIONS_METRIC, namespace
from stacks.shared.rules import objects_in_report

DEFINITION = Path(__file__).with_name("nightly.asl.json")
"""The state machine. Its numbers, such as 12 hours for the job, are those of this stack; tests compare them."""

VERDICT_FILE = "audit.json"

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
        settings: Settings,
        storage: AuditStorage,
        job: AuditJob,
        deployed: Deployed,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        group = log_group(
            self,
            "LogGroup",
            days=settings.log_retention_days,
            retain=settings.retain_data,
            key=storage.key,
            # One policy of the account covers all groups with this prefix; one policy for each would soon be too long.
            # The rest is unique, so a group that a deleted stack left behind does not block the next one.
            name=f"/aws/vendedlogs/states/{name_in_this_stack('machine')}",
        )
        role = service_role(
            self,
            "Role",
            "states",
            _rights(storage, job, deployed, topic, namespace(settings.stage)),
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
            definition_body=sfn.DefinitionBody.from_file(str(DEFINITION)),
            definition_substitutions={
                **{f"{table}_arn": arn for table, arn in deployed.table_arns().items()},
                "partition": Aws.PARTITION,
                "bucket": storage.bucket.bucket_name,
                "key_arn": storage.key.key_arn,
                "job_name": job.job.job_name,
                "dead_letter_queue_url": deployed.output("DeadLetterQueueUrl"),
                "topic_arn": topic.topic_arn,
                **constants(settings),
            },
            role=role.without_policy_updates(),
            # The states' input and output name no patient; the log does without them all the same.
            logs=sfn.LogOptions(destination=group, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=True,
            removal_policy=removal_policy(retain=settings.retain_data),
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


def constants(settings: Settings) -> dict[str, str]:
    """Return what a stage's settings substitute in the definition, as JSONata or text."""
    kept, before = settings.ledger_retention_seconds, settings.ledger_forgotten_before
    return {
        "stage": settings.stage,
        "namespace": namespace(settings.stage),
        "metric": VIOLATIONS_METRIC,
        "runbooks": RUNBOOKS,
        "content_based": str(settings.content_based_deduplication).lower(),
        # The queue deletes a message after its retention, so it cannot return later.
        "patience_seconds": str(settings.queue_retention_seconds),
        "ledger_retention": "{'ledger_retention': 'forever'}"
        if kept is None
        else f"{{'ledger_retention_seconds': {kept}}}",
        "retention_ms": "null" if kept is None else str(kept * 1000),
        "forgotten_before_ms": str(round(datetime.fromisoformat(before).timestamp() * 1000)) if before else "0",
    }


def _rights(
    storage: AuditStorage, job: AuditJob, deployed: Deployed, topic: sns.ITopic, metrics: str
) -> dict[str, iam.PolicyDocument]:
    """Return the named inline policies: the calls of the states, on their resources."""
    bucket, tables = storage.bucket, deployed.table_arns().values()
    return {
        "Export": document(
            allow(["dynamodb:ExportTableToPointInTime"], *tables),
            allow(["dynamodb:DescribeExport"], *(f"{arn}/export/*" for arn in tables)),
            # DynamoDB writes the export in the caller's name.
            allow(["s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"], bucket.arn_for_objects("history/*")),
        ),
        "Verdict": document(allow(["s3:GetObject"], bucket.arn_for_objects(f"audits/*/{VERDICT_FILE}"))),
        "Key": document(allow(["kms:Decrypt", "kms:GenerateDataKey"], storage.key.key_arn)),
        "Job": document(
            allow(["glue:BatchStopJobRun", "glue:GetJobRun", "glue:GetJobRuns", "glue:StartJobRun"], job.job.job_arn)
        ),
        "Tell": document(
            allow(["sns:Publish"], topic.topic_arn),
            allow(["cloudwatch:PutMetricData"], "*", only={"StringEquals": {"cloudwatch:namespace": metrics}}),
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
