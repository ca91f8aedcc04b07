"""The consumer's rights: the exact calls that its code makes, on the exact resources.

The `grant_*` methods of CDK are wider (`grant_write_data` allows deletes and batches), so the statements are written here.
"""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs

from stacks.appointments.request_queue import RequestQueue
from stacks.appointments.tables import FREE_SLOTS_INDEX, Tables
from stacks.shared.roles import allow, document


def consumer_rights(
    tables: Tables,
    requests: RequestQueue,
    log_group: logs.ILogGroup,
    key: kms.IKey | None = None,
    *,
    group_commit: bool = False,
) -> dict[str, iam.PolicyDocument]:
    """Return the named inline policies. A transaction needs the rights of its writes, and none of its own."""
    of_ledger = ["dynamodb:UpdateItem"]
    if group_commit:  # it looks up a batch's rows, and puts new ones without a claim
        of_ledger += ["dynamodb:BatchGetItem", "dynamodb:PutItem"]
    policies = {
        "Ledger": document(allow(of_ledger, tables.ledger.table_arn)),
        "Slots": document(
            allow(["dynamodb:Query", "dynamodb:UpdateItem"], tables.slots.table_arn),
            allow(["dynamodb:Query"], f"{tables.slots.table_arn}/index/{FREE_SLOTS_INDEX}"),
        ),
        "Appointments": document(
            allow(["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], tables.appointments.table_arn)
        ),
        "Requests": document(
            allow(
                [
                    "sqs:ReceiveMessage",
                    "sqs:DeleteMessage",
                    "sqs:GetQueueAttributes",
                    "sqs:ChangeMessageVisibility",
                ],
                requests.queue.queue_arn,
            )
        ),
        "Quarantine": document(allow(["sqs:SendMessage"], requests.dead_letter_queue.queue_arn)),
        # A log group's ARN ends with ":*", its streams: Lambda names those itself.
        "Logs": document(allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)),
    }
    if key:
        policies["Key"] = document(_use(key))
    return policies


def _use(key: kms.IKey) -> iam.PolicyStatement:
    """Allow DynamoDB and SQS to use the key in the consumer's name, and the consumer itself nothing."""
    region = key.env.region
    return iam.PolicyStatement(
        actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
        resources=[key.key_arn],
        conditions={
            "StringEquals": {"kms:ViaService": [f"{name}.{region}.amazonaws.com" for name in ("dynamodb", "sqs")]}
        },
    )
