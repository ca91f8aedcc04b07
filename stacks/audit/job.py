"""The audit as an AWS Glue job: Spark as pinned, two workers, its own narrow role, everything encrypted."""

import hashlib
import json
from typing import Any

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from oneslot.cdk.rights import allow, document, service_role, through
from stacks.audit.asset import audit_modules, audit_packages, audit_script
from stacks.audit.storage import AuditStorage
from stacks.shared.deployed import Deployed
from stacks.shared.rules import objects_in_report

GLUE_VERSION, SPARK_VERSION = glue.GlueVersion.V6_0, "4.1.1"
"""Glue's release and the Spark in it (AWS Glue versions, in its developer guide). pyproject.toml pins the same Spark."""

MEMORY = "spark.executor.memory=8g --conf spark.executor.memoryOverhead=3g"
"""Of a G.1X worker's 16 GB. Its four Python workers hold a chunk of the audit each, about 0.5 GB, outside Java's memory."""

DEAD_LETTERS = "dead-letters/dead-letters.jsonl"
"""The file of the script's list, in a night's history."""

KEYS = "arn:<AWS::Partition>:kms:<AWS::Region>:<AWS::AccountId>:key/*"
"""The account's keys, as the rules' report writes them."""


class AuditJob(Construct):
    """The job. The state machine passes its arguments; `oneslot/audit/settings.py` lists them."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        storage: AuditStorage,
        deployed: Deployed,
        workers: int,
        customer_managed_keys: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        script, packages = audit_script(self), audit_packages(self)
        role = service_role(
            self,
            "Role",
            "glue",
            {
                "Code": _code_rights(Stack.of(self), [script, packages]),
                "Audit": _rights(storage),
                "DeadLetters": _dead_letter_rights(storage, deployed, customer_managed_keys=customer_managed_keys),
                "Logs": _log_rights(Stack.of(self)),
            },
            wildcards={
                objects_in_report(
                    storage.bucket, "history/*"
                ): "every night's sources, which DynamoDB and Firehose name",
                objects_in_report(storage.bucket, "audits/*"): "every night's results, and those that they build on",
                objects_in_report(storage.bucket, f"history/*/{DEAD_LETTERS}"): "every night's list of dead letters",
                "arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group:/aws-glue/jobs/*": (
                    "Glue chooses the names of its log groups, below this one"
                ),
                KEYS: "the bootstrap may have a key of its own; a condition allows its use for the two files only",
            },
            # No document says that Glue names the account. `iam:PassRole` on the role guards who may use it.
            only_this_account=False,
        )
        security = _encrypted(self, storage)
        self.job = glue.PySparkEtlJob(
            self,
            "Job",
            description="Oneslot: every request gets its verdict",
            role=role.without_policy_updates(),  # CDK would let it read more of the assets' bucket than its two files
            script=glue.Code.from_bucket(script.bucket, script.s3_object_key),
            extra_python_files=[glue.Code.from_bucket(packages.bucket, packages.s3_object_key)],
            glue_version=GLUE_VERSION,
            worker_configuration=glue.WorkerConfiguration(worker_type=glue.WorkerType.G_1X, number_of_workers=workers),
            # A second run would only find the first one's folder in its way, and a retry the same input.
            max_concurrent_runs=1,
            max_retries=0,
            job_run_queuing_enabled=True,  # Glue waits for capacity instead of failing the run at once
            timeout=Duration.hours(12),
            default_arguments={"--conf": MEMORY, "--additional-python-modules": audit_modules()},
            security_configuration=glue.SecurityConfiguration.from_security_configuration_name(
                self, "SecurityName", security.name
            ),
            # They would need the right to put any metric; the state machine puts the one that matters.
            enable_metrics=False,
            enable_observability_metrics=False,
        )
        self.job.node.add_dependency(security)  # a name gives CloudFormation no order


def _encrypted(scope: Construct, storage: AuditStorage) -> glue.CfnSecurityConfiguration:
    """Return the configuration that encrypts logs, bookmarks and files with the audit's key.

    CloudFormation replaces it at every change, and makes the new one first. So its name changes with its content.
    """
    stack, key_arn = Stack.of(scope), storage.key.key_arn
    content: dict[str, Any] = {
        "cloudWatchEncryption": {"cloudWatchEncryptionMode": "SSE-KMS", "kmsKeyArn": key_arn},
        "jobBookmarksEncryption": {"jobBookmarksEncryptionMode": "CSE-KMS", "kmsKeyArn": key_arn},
        "s3Encryptions": [{"s3EncryptionMode": "SSE-KMS", "kmsKeyArn": key_arn}],
    }
    digest = hashlib.sha256(json.dumps(stack.resolve(content), sort_keys=True).encode()).hexdigest()[:8]
    return glue.CfnSecurityConfiguration(
        scope, "Security", name=f"{stack.stack_name}-security-{digest}", encryption_configuration=content
    )


def _code_rights(stack: Stack, assets: list[s3_assets.Asset]) -> iam.PolicyDocument:
    """Allow to read the script and the zip, also where the bootstrap encrypts its bucket with a key of the account's."""
    objects = [asset.bucket.arn_for_objects(asset.s3_object_key) for asset in assets]
    keys = stack.format_arn(service="kms", resource="key", resource_name="*")
    # S3 encrypts in the object's name, or with a bucket key in the bucket's.
    named = {"kms:EncryptionContext:aws:s3:arn": [*objects, assets[0].bucket.bucket_arn]}
    conditions = {"StringEquals": {**through("s3", stack)["StringEquals"], **named}}
    return document(allow(["s3:GetObject"], *objects), allow(["kms:Decrypt"], keys, only=conditions))


def _rights(storage: AuditStorage) -> iam.PolicyDocument:
    bucket, key = storage.bucket, storage.key
    return document(
        # What S3's reference names for a listing, a read, and an upload in parts.
        allow(["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"], bucket.bucket_arn),
        allow(["s3:GetObject"], bucket.arn_for_objects("history/*")),
        # A file is written where it stays. The mark of a running audit, and what a killed one left, are deleted.
        allow(
            [
                "s3:AbortMultipartUpload",
                "s3:DeleteObject",
                "s3:GetObject",
                "s3:ListMultipartUploadParts",
                "s3:PutObject",
            ],
            bucket.arn_for_objects("audits/*"),
        ),
        allow(["kms:Decrypt", "kms:GenerateDataKey"], key.key_arn, only=through("s3", storage)),
        allow(["kms:Encrypt"], key.key_arn),  # of bookmarks, which Glue encrypts in the job's name
    )


def _dead_letter_rights(
    storage: AuditStorage, deployed: Deployed, *, customer_managed_keys: bool
) -> iam.PolicyDocument:
    """Allow to list dead letters and return them, and to write or remove the list. Deleting a message is not allowed."""
    looks = ["sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
    rights = [
        allow(looks, deployed.output("DeadLetterQueueArn")),
        allow(["s3:DeleteObject", "s3:PutObject"], storage.bucket.arn_for_objects(f"history/*/{DEAD_LETTERS}")),
    ]
    if customer_managed_keys:
        rights.append(allow(["kms:Decrypt"], deployed.output("KeyArn"), only=through("sqs", storage)))
    return document(*rights)


def _log_rights(stack: Stack) -> iam.PolicyDocument:
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="/aws-glue/jobs/*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    actions = ["logs:AssociateKmsKey", "logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"]
    return document(allow(actions, groups))
