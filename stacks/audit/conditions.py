"""The conditions of the audit's alarms."""

from aws_cdk import aws_cloudwatch as cloudwatch

from oneslot.cdk.alarms import AlarmCondition, over_window
from oneslot.cdk.metrics import metric
from stacks.audit.delivery_archive import BUFFER_SECONDS
from stacks.audit.storage import UNDELIVERED
from stacks.shared.measures import audit_violations

ARCHIVE_DELAY_SECONDS = 3 * BUFFER_SECONDS
"""After this time a line of the delivery log should be in the audit's bucket, and Firehose have tried more than once."""


def audit_conditions(*, stream: str, bucket: str, stage: str) -> list[AlarmCondition]:
    """Return the conditions that wake someone, on a stage with the audit, beside `MissingAudit`.

    Args:
        stream: the name of Firehose's stream.
        bucket: the name of the audit's bucket.
    """
    objects_set_aside = {"BucketName": bucket, "FilterId": UNDELIVERED}
    return [
        AlarmCondition(
            name="invariant-violated",
            means="The nightly audit found requests that did not take effect exactly once, or are lost or stuck.",
            metric=audit_violations(stage),
            above=0,
            # There is one value a night. Without this the alarm would return to OK a minute after it.
            silence=cloudwatch.TreatMissingData.IGNORE,
        ),
        AlarmCondition(
            name="unarchived-deliveries",
            # Firehose drops a line after a day. A night without lines counts as sound, with a note at most.
            means="The delivery log does not arrive in the audit's bucket, so nights are judged without it.",
            metric=over_window(
                metric(
                    "AWS/Firehose", "DeliveryToS3.DataFreshness", {"DeliveryStreamName": stream}, "Maximum", "waiting"
                )
            ),
            above=ARCHIVE_DELAY_SECONDS,
            periods=3,
        ),
        AlarmCondition(
            name="undelivered-lines",
            # Firehose counts them as delivered, so the metric above stays low.
            means="Firehose set aside lines of the delivery log that it could not unpack. No audit reads them.",
            metric=over_window(metric("AWS/S3", "PutRequests", objects_set_aside, "Sum", "set aside")),
            above=0,
        ),
    ]
