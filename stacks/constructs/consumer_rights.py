"""What the consumer may do: the exact calls that its code makes, on the exact resources, and nothing else.

The `grant_*` methods of CDK are wider (`grant_write_data` allows deletes and batches), so the statements are written here.
"""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs

from stacks.constructs.request_queue import RequestQueue
from stacks.constructs.tables import FREE_SLOTS_INDEX, Tables


def consumer_rights(tables: Tables, requests: RequestQueue, log_group: logs.ILogGroup) -> dict[str, iam.PolicyDocument]:
    """Named inline policies. A transaction needs the rights of its single writes, and no right of its own."""
    return {
        "Ledger": _allow(["dynamodb:GetItem", "dynamodb:UpdateItem"], tables.ledger.table_arn),
        "Slots": _document(
            _statement(["dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"], tables.slots.table_arn),
            _statement(["dynamodb:Query"], f"{tables.slots.table_arn}/index/{FREE_SLOTS_INDEX}"),
        ),
        "Appointments": _allow(
            ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], tables.appointments.table_arn
        ),
        "Requests": _allow(
            [
                "sqs:ReceiveMessage",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ChangeMessageVisibility",
            ],
            requests.queue.queue_arn,
        ),
        "Quarantine": _allow(["sqs:SendMessage"], requests.dead_letter_queue.queue_arn),
        # A log group's ARN ends with ":*", its streams: Lambda names those itself.
        "Logs": _allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn),
    }


def _allow(actions: list[str], resource: str) -> iam.PolicyDocument:
    return _document(_statement(actions, resource))


def _document(*statements: iam.PolicyStatement) -> iam.PolicyDocument:
    return iam.PolicyDocument(statements=list(statements))


def _statement(actions: list[str], resource: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=[resource])
