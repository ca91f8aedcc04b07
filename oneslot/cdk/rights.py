"""The consumer's rights: the exact calls that its code makes, on the exact resources.

The `grant_*` methods of CDK are wider (`grant_write_data` allows deletes and batches), so the statements are written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs

from oneslot.cdk.resources import title
from oneslot.cdk.roles import allow, document

WRITES = ("Put", "Update")

ACTIONS = {
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "Check": "dynamodb:ConditionCheckItem",
}
"""The call behind each word of `Effects`. A transaction needs the rights of its writes, and none of its own."""


@dataclass(frozen=True, kw_only=True)
class TableRights:
    """A table of effects, and the exact actions on it and on its indexes: IAM's, or words of a decision, such as `Check`."""

    table: dynamodb.ITable | dynamodb.ITableV2
    actions: Sequence[str] = WRITES
    indexes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def statements(self) -> list[iam.PolicyStatement]:
        """Return the statements that allow them."""
        arn = self.table.table_arn
        return [
            allow([ACTIONS.get(action, action) for action in self.actions], arn),
            *(allow(list(actions), f"{arn}/index/{index}") for index, actions in self.indexes.items()),
        ]


def consumer_rights(
    *,
    ledger: dynamodb.ITable | dynamodb.ITableV2,
    tables: Mapping[str, TableRights],
    queue: sqs.IQueue,
    dead_letter_queue: sqs.IQueue,
    log_group: logs.ILogGroup,
    keys: Iterable[kms.IKey],
    group_commit: bool,
) -> dict[str, iam.PolicyDocument]:
    """Return the named inline policies, one for each resource."""
    of_ledger = ["dynamodb:UpdateItem"]
    if group_commit:  # it looks up a batch's rows, and puts new ones without a claim
        of_ledger += ["dynamodb:BatchGetItem", "dynamodb:PutItem"]
    own = {
        "Requests": document(
            allow(
                [
                    "sqs:ReceiveMessage",
                    "sqs:DeleteMessage",
                    "sqs:GetQueueAttributes",
                    "sqs:ChangeMessageVisibility",
                ],
                queue.queue_arn,
            )
        ),
        "Quarantine": document(allow(["sqs:SendMessage"], dead_letter_queue.queue_arn)),
        # A log group's ARN ends with ":*", its streams: Lambda names those itself.
        "Logs": document(allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)),
    }
    if used := [use_key(key) for key in keys]:
        own["Key"] = document(*used)
    of_tables = {
        f"{title(name)}Table" if title(name) in own else title(name): document(*rights.statements())
        for name, rights in tables.items()
    }
    return {"Ledger": document(allow(of_ledger, ledger.table_arn)), **of_tables, **own}


def use_key(key: kms.IKey, *services: str) -> iam.PolicyStatement:
    """Allow services to use the key in the function's name, and the function itself nothing: DynamoDB and SQS by default."""
    region = key.env.region
    return iam.PolicyStatement(
        actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
        resources=[key.key_arn],
        conditions={
            "StringEquals": {
                "kms:ViaService": [f"{name}.{region}.amazonaws.com" for name in services or ("dynamodb", "sqs")]
            }
        },
    )
