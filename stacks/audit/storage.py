"""The bucket of the audit's sources and results, and a bucket for its access log."""

from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from oneslot.cdk.resources import removal_policy
from oneslot.cdk.rights import accept
from stacks.shared.resources import customer_managed_key

ACCESS_LOG_DAYS = 90
UNFINISHED_UPLOAD_DAYS = 3
UNDELIVERED = "undelivered"
"""The folder for what Firehose cannot deliver as lines of the log. S3 counts its objects under the same name."""
HISTORY_DAYS = 35  # as far back as DynamoDB can restore; a full audit reads the delivery log of these days
RESULT_DAYS = 400  # a year and a month: this year's figures beside last year's
OLD_VERSION_DAYS = 7  # long enough to undo a deletion by mistake


class AuditStorage(Construct):
    """An encrypted, versioned, private bucket that speaks TLS only.

    Attributes:
        key: encrypts the bucket and everything else of the audit: exports hold patients' numbers.
        bucket: `history/<day>/` has the sources of one night, `audits/<day>/` the results.
    """

    def __init__(self, scope: Construct, construct_id: str, *, retain_data: bool) -> None:
        super().__init__(scope, construct_id)
        self.key: kms.Key = customer_managed_key(self, "Key", description="Oneslot: the audit", retain=retain_data)
        private: dict[str, Any] = {
            "enforce_ssl": True,
            "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
            "object_ownership": s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            "versioned": True,
            "removal_policy": removal_policy(retain=retain_data),
        }
        access_log = s3.Bucket(
            self,
            "AccessLog",
            # Access logs are delivered to buckets with S3's own key only: S3 user guide, "Enabling server access logging".
            encryption=s3.BucketEncryption.S3_MANAGED,
            lifecycle_rules=[_expiry("Entries", "", ACCESS_LOG_DAYS)],
            **private,
        )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            bucket_key_enabled=True,  # one call to KMS for many objects
            server_access_logs_bucket=access_log,
            server_access_logs_prefix="audit/",
            lifecycle_rules=[
                _expiry("Sources", "history/", HISTORY_DAYS),
                _expiry("Results", "audits/", RESULT_DAYS),
                _expiry("Undelivered", f"{UNDELIVERED}/", HISTORY_DAYS),
            ],
            metrics=[s3.BucketMetrics(id=UNDELIVERED, prefix=f"{UNDELIVERED}/")],
            **private,
        )
        alone = {
            "HIPAA.Security-S3BucketReplicationEnabled": (
                "the tables are the record, restorable for 35 days; a lost result is made again from new exports"
            )
        }
        accept(self.bucket, alone)
        accept(
            access_log,
            {
                **alone,
                "HIPAA.Security-S3DefaultEncryptionKMS": "S3 delivers access logs to buckets with its own key only",
            },
        )


def _expiry(rule: str, prefix: str, days: int) -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id=rule,
        prefix=prefix or None,
        expiration=Duration.days(days),
        noncurrent_version_expiration=Duration.days(OLD_VERSION_DAYS),
        abort_incomplete_multipart_upload_after=Duration.days(UNFINISHED_UPLOAD_DAYS),
    )
