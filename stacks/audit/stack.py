"""The audit stack: the exports, the job and the nightly verdict. Composition only; opt-in, with `-c audit=true`."""

from __future__ import annotations

from aws_cdk import Aws, CfnOutput, DefaultStackSynthesizer, Duration, Stack
from constructs import Construct

from oneslot.cdk.monitoring.alarms import Alarms
from oneslot.cdk.numbers import HOUR
from stacks.audit.conditions import audit_conditions
from stacks.audit.delivery_archive import DeliveryArchive
from stacks.audit.job import AuditJob
from stacks.audit.missing import MissingAudit
from stacks.audit.plan import AuditPlan
from stacks.audit.storage import AuditStorage
from stacks.audit.workflow import AuditWorkflow
from stacks.settings import Settings
from stacks.shared.deployed import Deployed
from stacks.shared.topics import RUNBOOKS, named_topic, new_topic


class AuditStack(Stack):
    """Audits a stage every night. It reads the appointments stack and changes nothing in it.

    Listing the dead-letter queue hides its messages meanwhile, and adds 1 to each receive count.
    """

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings, appointments: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Oneslot: the nightly proof that every request took effect exactly once",
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
            termination_protection=settings.retain_data,
        )
        deployed = Deployed(self, appointments, settings.fifo)
        storage = AuditStorage(
            self,
            "Storage",
            history_days=settings.audit_history_days,
            result_days=settings.audit_result_days,
            retain_data=settings.retain_data,
        )
        topic = named_topic(self, "Topic", settings.alarm_topic_arn) or new_topic(
            self, "Topic", stage=settings.stage, key=storage.key
        )
        archive = DeliveryArchive(
            self,
            "Deliveries",
            storage=storage,
            deployed=deployed,
            log_retention_days=settings.log_retention_days,
            retain_data=settings.retain_data,
        )
        job = AuditJob(
            self,
            "Job",
            storage=storage,
            deployed=deployed,
            workers=settings.audit_workers,
            timeout_hours=settings.audit_timeout_hours,
            customer_managed_keys=settings.customer_managed_keys,
        )
        workflow = AuditWorkflow(
            self,
            "Workflow",
            plan=_plan(settings, deployed, storage, job.job.job_name, topic.topic_arn),
            storage=storage,
            job=job,
            deployed=deployed,
            log_retention_days=settings.log_retention_days,
            retain_data=settings.retain_data,
        )
        succeeded = workflow.machine.metric_succeeded(period=Duration.hours(1), statistic="Sum")
        watched = audit_conditions(stream=archive.stream, bucket=storage.bucket.bucket_name, stage=settings.stage)
        Alarms(self, "Alarms", conditions=watched, topic=topic, runbooks=RUNBOOKS)
        MissingAudit(self, "Missing", succeeded=succeeded, missing_hours=settings.audit_missing_hours, topic=topic)
        outputs = {
            "AuditBucketName": storage.bucket.bucket_name,
            "AuditStateMachineArn": workflow.machine.state_machine_arn,
            "AuditJobName": job.job.job_name,
            "AuditTopicArn": topic.topic_arn,
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)


def _plan(settings: Settings, deployed: Deployed, storage: AuditStorage, job_name: str, topic_arn: str) -> AuditPlan:
    """Return what the state machine works on and with."""
    return AuditPlan(
        partition=Aws.PARTITION,
        tables=deployed.table_arns(),
        bucket=storage.bucket.bucket_name,
        key_arn=storage.key.key_arn,
        job_name=job_name,
        dead_letter_queue_url=deployed.output("DeadLetterQueueUrl"),
        content_based=settings.content_based_deduplication,
        topic_arn=topic_arn,
        stage=settings.stage,
        full_every_days=settings.audit_full_every_days,
        delivery_days=settings.audit_delivery_days,
        ledger_retention_seconds=settings.ledger_retention_seconds,
        ledger_forgotten_before=settings.ledger_forgotten_before,
        # The queue deletes a message after its retention, so it cannot return later.
        patience_seconds=settings.queue_retention_seconds,
        export_seconds=settings.audit_export_hours * HOUR,
        job_seconds=settings.audit_timeout_hours * HOUR,
        timeout_seconds=settings.audit_night_hours * HOUR,
    )
