"""The audit stack: the exports, the job and the nightly verdict. Composition only; opt-in, with `-c audit=true`."""

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Duration, Stack
from aws_cdk import aws_sns as sns
from constructs import Construct

from oneslot.cdk.alarms import define_alarms
from stacks.audit.conditions import audit_conditions
from stacks.audit.delivery_archive import DeliveryArchive
from stacks.audit.job import AuditJob
from stacks.audit.missing import MissingAudit
from stacks.audit.storage import AuditStorage
from stacks.audit.workflow import AuditWorkflow
from stacks.settings import Settings
from stacks.shared.deployed import Deployed
from stacks.shared.resources import named_topic


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
        storage = AuditStorage(self, "Storage", retain_data=settings.retain_data)
        topic = named_topic(self, "Topic", settings.alarm_topic_arn) or sns.Topic(
            self, "Topic", display_name=f"Oneslot {settings.stage}", master_key=storage.key, enforce_ssl=True
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
            customer_managed_keys=settings.customer_managed_keys,
        )
        workflow = AuditWorkflow(
            self,
            "Workflow",
            settings=settings,
            storage=storage,
            job=job,
            deployed=deployed,
            topic=topic,
        )
        succeeded = workflow.machine.metric_succeeded(period=Duration.hours(1), statistic="Sum")
        watched = audit_conditions(stream=archive.stream, bucket=storage.bucket.bucket_name, stage=settings.stage)
        define_alarms(self, watched, topic)
        MissingAudit(self, "Missing", succeeded=succeeded, topic=topic)
        outputs = {
            "AuditBucketName": storage.bucket.bucket_name,
            "AuditStateMachineArn": workflow.machine.state_machine_arn,
            "AuditJobName": job.job.job_name,
            "AuditTopicArn": topic.topic_arn,
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
