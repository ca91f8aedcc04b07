"""Least privilege: the consumer's rights, enumerated and compared with the calls of its code."""

from __future__ import annotations

import re
from typing import Any

from oneslot.runtime.consumer.queues import SQS
from oneslot.runtime.stores.expressions import DynamoDB
from tests.kits.stacks import Stage


def consumer_role(stage: Stage) -> dict[str, Any]:
    """The role of the consumer's function."""
    function = stage.of_output("ConsumerFunctionName")
    role: dict[str, Any] = stage.resources("AWS::IAM::Role")[function["Role"]["Fn::GetAtt"][0]]["Properties"]
    return role


def rights(stage: Stage) -> dict[str, set[str]]:
    """Return {resource: actions} of the only role. A resource is named after its output."""
    outputs = {
        stage.logical_id(name): name
        for name in stage.template["Outputs"]
        if name.endswith(("TableName", "QueueUrl", "LogGroupName"))
    }

    def readable(resource: Any) -> str:
        if "Fn::GetAtt" in resource:
            logical_id, attribute = resource["Fn::GetAtt"]
            assert attribute == "Arn"
            return str(outputs[logical_id])
        separator, (table, suffix) = resource["Fn::Join"]
        assert separator == ""
        return readable(table) + str(suffix)

    found: dict[str, set[str]] = {}
    for policy in consumer_role(stage)["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement.keys() == {"Effect", "Action", "Resource"}
            assert statement["Effect"] == "Allow"
            actions = statement["Action"]
            resource = readable(statement["Resource"])
            found.setdefault(resource, set()).update([actions] if isinstance(actions, str) else actions)
    return found


def test_role_has_exactly_these_rights(stage: Stage) -> None:
    assert rights(stage) == {
        "LedgerTableName": {"dynamodb:UpdateItem"},
        "SlotsTableName": {"dynamodb:Query", "dynamodb:UpdateItem"},
        "SlotsTableName/index/free_slots": {"dynamodb:Query"},
        "AppointmentsTableName": {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
        "QueueUrl": {
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ChangeMessageVisibility",
        },
        "DeadLetterQueueUrl": {"sqs:SendMessage"},
        "ConsumerLogGroupName": {"logs:CreateLogStream", "logs:PutLogEvents"},
    }


# A transaction is granted as its single writes. Group commit has a right of its own, below.
GRANTED_OTHERWISE = {"transact_write_items", "batch_get_item"}


def test_declared_calls_are_granted(stage: Stage) -> None:
    """The runtime declares the calls that it makes in two protocols."""
    declared = {name for protocol in (DynamoDB, SQS) for name in vars(protocol) if re.fullmatch(r"[a-z][a-z_]+", name)}
    granted = {action.split(":")[1] for actions in rights(stage).values() for action in actions}
    assert declared > GRANTED_OTHERWISE
    for call in declared - GRANTED_OTHERWISE:
        assert "".join(word.capitalize() for word in call.split("_")) in granted
    assert {"PutItem", "UpdateItem"} <= granted
