"""The delivery log's way into the audit's bucket: log group → subscription → Firehose → one folder for each day."""

from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_logs as logs
from constructs import Construct

from oneslot.cdk.resources import log_group, removal_policy
from oneslot.cdk.rights import allow, document, service_role, through
from stacks.audit.storage import UNDELIVERED, AuditStorage
from stacks.shared.deployed import Deployed
from stacks.shared.rules import objects_in_report

# The handler's own lines, by the name that it gives them: Lambda's START and REPORT lines are not the audit's.
DELIVERIES = '{ $.message = "delivery" }'
FOLDERS = ("history", UNDELIVERED)
BUFFER_SECONDS = 300
BUFFER_MB = 64  # fewer, larger files: each one costs a request now and a listing at night


class DeliveryArchive(Construct):
    """Every line of the delivery log, within minutes, in `history/<day of arrival, UTC>/deliveries/`, gzipped.

    The day is that of the oldest line in a file, so from around midnight lines of one day are in the folder of the other.

    Attributes:
        stream: the name of Firehose's stream.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        storage: AuditStorage,
        deployed: Deployed,
        log_retention_days: int,
        retain_data: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        # Firehose logs here why it cannot write; no line of the delivery log is in it.
        errors = log_group(self, "Errors", days=log_retention_days, retain=retain_data, key=storage.key)
        error_stream = errors.add_stream("ErrorStream")
        error_stream.apply_removal_policy(removal_policy(retain=retain_data))
        role = service_role(
            self,
            "Role",
            "firehose",
            {
                "Write": _may_write(storage),
                "Errors": document(allow(["logs:PutLogEvents"], errors.log_group_arn)),
            },
            wildcards={
                objects_in_report(storage.bucket, f"{folder}/*"): "Firehose names its objects itself, in this folder"
                for folder in FOLDERS
            },
        )
        stream = firehose.CfnDeliveryStream(
            self,
            "Stream",
            delivery_stream_type="DirectPut",
            delivery_stream_encryption_configuration_input={"keyType": "AWS_OWNED_CMK"},
            extended_s3_destination_configuration={
                "bucketArn": storage.bucket.bucket_arn,
                "roleArn": role.role_arn,
                "prefix": "history/!{timestamp:yyyy-MM-dd}/deliveries/",
                "errorOutputPrefix": f"{UNDELIVERED}/!{{timestamp:yyyy-MM-dd}}/!{{firehose:error-output-type}}/",
                "bufferingHints": {"intervalInSeconds": BUFFER_SECONDS, "sizeInMBs": BUFFER_MB},
                "compressionFormat": "GZIP",
                "fileExtension": ".json.gz",
                "encryptionConfiguration": {"kmsEncryptionConfig": {"awskmsKeyArn": storage.key.key_arn}},
                "processingConfiguration": {"enabled": True, "processors": _lines_of_log_events()},
                "cloudWatchLoggingOptions": {
                    "enabled": True,
                    "logGroupName": errors.log_group_name,
                    "logStreamName": error_stream.log_stream_name,
                },
            },
        )
        stream.node.add_dependency(role)
        self.stream = stream.ref
        put = allow(["firehose:PutRecord", "firehose:PutRecordBatch"], stream.attr_arn)
        sender = service_role(self, "SubscriptionRole", "logs", {"Send": document(put)})
        subscription = logs.CfnSubscriptionFilter(
            self,
            "Subscription",
            log_group_name=deployed.output("ConsumerLogGroupName"),
            filter_pattern=DELIVERIES,
            destination_arn=stream.attr_arn,
            role_arn=sender.role_arn,
        )
        subscription.node.add_dependency(sender)


def _may_write(storage: AuditStorage) -> iam.PolicyDocument:
    bucket = storage.bucket
    return document(
        allow(
            ["s3:AbortMultipartUpload", "s3:PutObject"],
            *(bucket.arn_for_objects(f"{folder}/*") for folder in FOLDERS),
        ),
        allow(["s3:GetBucketLocation"], bucket.bucket_arn),
        allow(["kms:Decrypt", "kms:GenerateDataKey"], storage.key.key_arn, only=through("s3", storage)),
    )


def _lines_of_log_events() -> list[dict[str, Any]]:
    """Unpack the gzipped envelopes of CloudWatch Logs into one event a line, as the handler wrote it.

    Without a delimiter Firehose puts nothing between records; its default one is a newline. The audit skips the empty line
    that follows an event which ended with one.
    """
    return [
        {"type": "Decompression", "parameters": [{"parameterName": "CompressionFormat", "parameterValue": "GZIP"}]},
        {
            "type": "CloudWatchLogProcessing",
            "parameters": [{"parameterName": "DataMessageExtraction", "parameterValue": "true"}],
        },
        {"type": "AppendDelimiterToRecord", "parameters": []},
    ]
