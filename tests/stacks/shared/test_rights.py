"""Least privilege over all stacks: the actions of each role by resource, and the reason for each wildcard."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest

from oneslot.runtime.consumer.queues import SQS
from tests.kits.consumer import Intercepted, bench, booking, cancellation, record
from tests.kits.stacks import Stage, resolve

Rights = dict[str, dict[str, set[str]]]

# Role → resource → actions. A new right changes these tables, which a review shows.
CONSUMER_RIGHTS = {
    "lambda": {
        "<TablesLedgerF9806C8B.Arn>": {"dynamodb:UpdateItem"},
        "<TablesSlots5E065B42.Arn>": {"dynamodb:Query", "dynamodb:UpdateItem"},
        "<TablesSlots5E065B42.Arn>/index/free_slots": {"dynamodb:Query"},
        "<TablesAppointments81B9B062.Arn>": {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
        "<RequestsQueue8243F882.Arn>": {
            *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"),
        },
        "<RequestsDeadLetterQueueC49B2D5E.Arn>": {"sqs:SendMessage"},
        "<ConsumerLogGroup43100DBC.Arn>": {"logs:CreateLogStream", "logs:PutLogEvents"},
    }
}
AUDIT_RIGHTS = {
    "glue": {
        "<assets>": {"s3:GetObject"},
        "key/*": {"kms:Decrypt"},
        "<bucket>": {"s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"},
        "<bucket>/history/*": {"s3:GetObject"},
        "<bucket>/audits/*": {
            *("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject"),
            *("s3:ListMultipartUploadParts", "s3:PutObject"),
        },
        "<bucket>/history/*/dead-letters/dead-letters.jsonl": {"s3:DeleteObject", "s3:PutObject"},
        "<DeadLetterQueueArn>": {"sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"},
        "<key>": {"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"},
        "log-group:/aws-glue/jobs/*": {
            *("logs:AssociateKmsKey", "logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
        },
    },
    "states": {
        **{
            f"table/<{table}TableName>": {"dynamodb:ExportTableToPointInTime"}
            for table in ("Ledger", "Slots", "Appointments")
        },
        **{
            f"table/<{table}TableName>/export/*": {"dynamodb:DescribeExport"}
            for table in ("Ledger", "Slots", "Appointments")
        },
        "<bucket>/history/*": {"s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"},
        "<bucket>/audits/*/audit.json": {"s3:GetObject"},
        "<key>": {"kms:Decrypt", "kms:GenerateDataKey"},
        "<job>": {"glue:BatchStopJobRun", "glue:GetJobRun", "glue:GetJobRuns", "glue:StartJobRun"},
        "<topic>": {"sns:Publish"},
        "*": {
            "cloudwatch:PutMetricData",
            *("logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups"),
            *("logs:DescribeResourcePolicies", "logs:GetLogDelivery", "logs:ListLogDeliveries"),
            *("logs:PutResourcePolicy", "logs:UpdateLogDelivery"),
            *("xray:GetSamplingRules", "xray:GetSamplingTargets"),
            *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
        },
    },
    "scheduler": {"<machine>": {"states:StartExecution"}},
    "firehose": {
        "<bucket>": {"s3:GetBucketLocation"},
        "<bucket>/history/*": {"s3:AbortMultipartUpload", "s3:PutObject"},
        "<bucket>/undelivered/*": {"s3:AbortMultipartUpload", "s3:PutObject"},
        "<errors>": {"logs:PutLogEvents"},
        "<key>": {"kms:Decrypt", "kms:GenerateDataKey"},
    },
    "logs": {"<stream>": {"firehose:PutRecord", "firehose:PutRecordBatch"}},
}


def statements(stage: Stage) -> list[tuple[str, dict[str, Any]]]:
    """Return (service, statement) of every policy of every role."""
    found = []
    for role in stage.resources("AWS::IAM::Role").values():
        properties = role["Properties"]
        assert "ManagedPolicyArns" not in properties
        (trust,) = properties["AssumeRolePolicyDocument"]["Statement"]
        service = trust["Principal"]["Service"].partition(".")[0]
        for policy in properties["Policies"]:
            found += [(service, statement) for statement in policy["PolicyDocument"]["Statement"]]
    # The loop above would miss attached policies.
    assert stage.resources("AWS::IAM::Policy") == stage.resources("AWS::IAM::ManagedPolicy") == {}
    return found


def listed(value: Any) -> list[Any]:
    """IAM writes a list of one without brackets."""
    return value if isinstance(value, list) else [value]


def readable(resource: Any) -> str:
    """Return a resource as the table above writes it."""
    text = str(resolve(resource))
    for pattern, name in (
        (r".*:s3:::cdk-hnb659fds-assets-.*", "<assets>"),
        (r"<StorageBucket\w+\.Arn>", "<bucket>"),
        (r"<StorageKey\w+\.Arn>", "<key>"),
        (r"<TopicTopic\w+>|<Topic\w+>", "<topic>"),
        (r"<WorkflowMachine\w+>", "<machine>"),
        (r"<DeliveriesStream\w*\.Arn>", "<stream>"),
        (r"<DeliveriesErrors\w*\.Arn>", "<errors>"),
        (r"arn:.*:job/<\w+>", "<job>"),
        (r"arn:<AWS::Partition>:(?:dynamodb|kms|logs):<AWS::Region>:<AWS::AccountId>:", ""),
    ):
        text = re.sub(pattern, name, text)
    return text


def rights(stage: Stage) -> Rights:
    """Every role's actions by resource."""
    found: Rights = defaultdict(lambda: defaultdict(set))
    for service, statement in statements(stage):
        assert statement["Effect"] == "Allow"
        assert statement.keys() <= {"Effect", "Action", "Resource", "Condition"}
        for resource in listed(statement["Resource"]):
            found[service][readable(resource)].update(listed(statement["Action"]))
    return {service: dict(by_resource) for service, by_resource in found.items()}


def test_roles_have_exactly_these_rights(stages: dict[str, Stage], audit: Stage) -> None:
    assert rights(stages["dev"]) == CONSUMER_RIGHTS
    assert rights(stages["prod"])["lambda"] == CONSUMER_RIGHTS["lambda"]
    assert rights(audit) == AUDIT_RIGHTS


def test_calls_on_queues_are_granted() -> None:
    """The runtime declares the calls that it makes."""
    declared = {name for name in vars(SQS) if re.fullmatch(r"[a-z][a-z_]+", name)}
    granted = {action for actions in CONSUMER_RIGHTS["lambda"].values() for action in actions}
    assert {f"sqs:{''.join(word.capitalize() for word in name.split('_'))}" for name in declared} <= granted


@pytest.fixture(scope="module")
def calls_on_tables() -> dict[str, set[str]]:
    """Record the real consumer's calls for every kind of message. A transaction needs the rights of its writes."""
    made: dict[str, set[str]] = defaultdict(set)

    class Recorder(Intercepted):
        def __getattr__(self, name: str) -> Any:
            call = super().__getattr__(name)

            def recorded(**request: Any) -> Any:
                if name == "transact_write_items":
                    for write in request["TransactItems"]:
                        ((kind, item),) = write.items()
                        made[item["TableName"]].add({"Put": "PutItem", "Update": "UpdateItem"}[kind])
                else:
                    verb = "".join(word.capitalize() for word in name.split("_"))
                    made[request["TableName"]].add(verb)
                return call(**request)

            return recorded

    with bench(slots=2) as tested:
        consumer = tested.another_consumer(dynamodb=Recorder(tested.dynamodb))
        for body in (
            *(booking(f"m-{number}") for number in range(3)),  # the third one waits
            booking("m-1"),
            booking("m-9", practice="Z99999"),
            booking("late", not_before="2020-01-06T08:00:00Z", not_after="2020-01-07T08:00:00Z"),
            cancellation("m-0", "c-0"),
            cancellation("m-8", "c-8"),
            cancellation("m-2", "c-2"),
        ):
            tested.deliver(record(body), consumer=consumer)
        assert {"booked", "waitlist", "duplicate", "quarantined", "refused", "cancelled"} <= set(tested.outcomes)
    return made


def test_consumers_rights_on_tables_are_the_calls_it_makes(stage: Stage, calls_on_tables: dict[str, set[str]]) -> None:
    granted: dict[str, set[str]] = defaultdict(set)
    tables = {stage.logical_id(f"{name.capitalize()}TableName"): name for name in ("ledger", "slots", "appointments")}
    for _, statement in statements(stage):
        for action in listed(statement["Action"]):
            if action.startswith("dynamodb:"):
                (table,) = [name for logical, name in tables.items() if logical in json.dumps(statement["Resource"])]
                granted[table].add(action.removeprefix("dynamodb:"))
    assert granted == calls_on_tables
