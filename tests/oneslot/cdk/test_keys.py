"""A key of the user's own: what its policy lets AWS's services do, and a warning where CDK cannot change it."""

from pathlib import Path
from typing import Any

import pytest

from oneslot.cdk import ExactlyOnceConsumer, new_table
from tests.oneslot.cdk.kit import INLINE, Defined, define, new_stack

from aws_cdk import Stack  # isort: skip
from aws_cdk.assertions import Annotations, Match  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_kms as kms  # isort: skip
from aws_cdk import aws_sns as sns  # isort: skip

IMPORTED = "arn:aws:kms:eu-west-2:111122223333:key/11111111-2222-3333-4444-555555555555"
ALIAS = "alias/aws/sns"


def statements(defined: Defined, service: str) -> list[dict[str, Any]]:
    """Return the statements of the only key's policy that let this service use it."""
    policy = defined.only("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    return [each for each in policy if service in str(each["Principal"].get("Service", ""))]


def warnings(stack: Stack, text: str) -> list[Any]:
    return list(Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp(text)))


def test_key_of_two_consumers_has_each_statement_once(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    key = kms.Key(shop, "Mine")
    topic = sns.Topic(shop, "OnCall", master_key=key)
    defined = define(tmp_path, stack, key=key)
    second = ExactlyOnceConsumer(shop, "Returns", code=INLINE, handler="app.handler", tables={}, key=key)
    for consumer in (defined.consumer, second):
        consumer.add_alarms(topic)
    assert (len(statements(defined, "logs.")), len(statements(defined, "cloudwatch."))) == (1, 1)


def test_imported_key_gets_a_warning_with_what_its_policy_needs(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    key = kms.Key.from_key_arn(shop, "Theirs", IMPORTED)
    define(tmp_path, stack, key=key)
    (found,) = warnings(shop, "imported key")
    assert "Shop/Theirs is an imported key" in str(found.entry.data)
    assert "CloudWatch Logs (logs.REGION.amazonaws.com) use it, or the log group cannot be created" in str(
        found.entry.data
    )


@pytest.mark.parametrize("aws_managed", [False, True])
def test_topic_of_an_imported_key_gets_a_warning(tmp_path: Path, aws_managed: bool) -> None:
    """CloudWatch may not use AWS's own key of SNS, whose policy no one can change."""
    defined = define(tmp_path)
    key: Any = (
        kms.Alias.from_alias_name(defined.stack, "Theirs", ALIAS)
        if aws_managed
        else kms.Key.from_key_arn(defined.stack, "Theirs", IMPORTED)
    )
    defined.consumer.add_alarms(sns.Topic(defined.stack, "OnCall", master_key=key))
    assert len(warnings(defined.stack, "or no alarm reaches the topic")) == 1


@pytest.mark.parametrize("by_new_table", [True, False])
def test_granted_table_brings_the_right_on_its_key(tmp_path: Path, by_new_table: bool) -> None:
    _, shop = stack = new_stack(tmp_path)
    key = kms.Key(shop, "Mine")
    text = dynamodb.Attribute(name="hall", type=dynamodb.AttributeType.STRING)
    plan = (
        new_table(shop, "Plan", "hall", key=key)
        if by_new_table
        else dynamodb.Table(shop, "Plan", partition_key=text, encryption_key=key)
    )
    defined = define(tmp_path, stack)
    defined.consumer.grant_table(plan, "dynamodb:GetItem")
    granted = [
        each for policy in defined.resources("AWS::IAM::Policy") for each in policy["PolicyDocument"]["Statement"]
    ]
    (use,) = [each for each in granted if each["Resource"] == f"<{defined.logical_id(key)}.Arn>"]
    assert "kms:Decrypt" in use["Action"]
    assert "dynamodb." in str(use["Condition"])


@pytest.mark.parametrize("enforced", [False, True])
def test_alarm_may_publish_to_a_topic_with_a_policy(tmp_path: Path, enforced: bool) -> None:
    """A policy takes the place of SNS's own, which lets the account's services publish."""
    defined = define(tmp_path)
    topic = sns.Topic(defined.stack, "OnCall", enforce_ssl=enforced)
    defined.consumer.add_alarms(topic)
    policies = [each["PolicyDocument"]["Statement"] for each in defined.resources("AWS::SNS::TopicPolicy")]
    allowed = [each for policy in policies for each in policy if each["Effect"] == "Allow"]
    assert [each["Action"] for each in allowed] == ["sns:Publish"] * enforced
    assert len(policies) == enforced, "a policy would end what SNS's own allows"
    assert all(each["Principal"] == {"Service": "cloudwatch.amazonaws.com"} for each in allowed)
