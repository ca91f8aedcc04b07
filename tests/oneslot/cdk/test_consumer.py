"""The construct's template: safe defaults, exact rights, one variable for each thing that the runtime reads."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from oneslot.cdk import ContradictorySettings, ExactlyOnceConsumer, TableRights, new_table, tables
from oneslot.cdk.relay import FORMS
from oneslot.cdk.tables import text
from oneslot.declaration.reading import parse_declaration
from oneslot.operator.commands.worker import relay as relay_verb
from oneslot.operator.target import STACK_OUTPUTS, Outputs
from oneslot.runtime import lambda_consumer
from oneslot.runtime.protocol import SENDER, UNSENT
from oneslot.runtime.sends.outbox import TARGETS
from oneslot.runtime.sqs.queue import Deferral, deferral_of
from oneslot.runtime.stores.transaction import KEY_PREFIX
from stacks.shared.rules import add_rules
from tests.kits.stacks import assert_snapshot
from tests.oneslot.cdk.kit import INLINE, Defined, define, handler_folder, new_stack

from aws_cdk import App, Duration, Stack  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_ec2 as ec2  # isort: skip
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_iam as iam  # isort: skip
from aws_cdk import aws_kms as kms  # isort: skip
from aws_cdk import aws_lambda as lambda_  # isort: skip
from aws_cdk import aws_sns as sns  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip

AWS = {"AWS_DEFAULT_REGION": "eu-west-2", "AWS_ACCESS_KEY_ID": "1", "AWS_SECRET_ACCESS_KEY": "1"}


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Defined:
    """The consumer with nothing but its defaults; and its alarms and outputs."""
    defined = define(tmp_path_factory.mktemp("orders"))
    defined.consumer.add_alarms(sns.Topic(defined.stack, "OnCall"))
    defined.consumer.add_outputs("Orders")
    return defined


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory) -> Defined:
    """A consumer that sends to one target of each kind, encrypted with a key; and its alarms."""
    folder = tmp_path_factory.mktemp("sending")
    _, shop = stack = new_stack(folder)
    defined = define(folder, stack, sends=targets(shop, kms.Key(shop, "Mine")), tables={})
    defined.consumer.add_alarms(sns.Topic(shop, "OnCall"))
    return defined


def rights(defined: Defined) -> dict[str, set[str]]:
    """Return the actions of every role and policy by resource."""
    policies = [policy for role in defined.resources("AWS::IAM::Role") for policy in role.get("Policies", [])]
    found: dict[str, set[str]] = {}
    for policy in (*policies, *defined.resources("AWS::IAM::Policy")):
        for statement in policy["PolicyDocument"]["Statement"]:
            actions = statement["Action"]
            found.setdefault(statement["Resource"], set()).update([actions] if isinstance(actions, str) else actions)
    return found


@pytest.fixture(scope="module")
def defaults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The template of the construct around a folder, with nothing but its defaults."""
    folder = tmp_path_factory.mktemp("defaults")
    return define(folder, entry=handler_folder(folder)).template


SNAPSHOTS = Path(__file__).with_name("snapshots")


def test_construct_is_its_snapshot(defaults: dict[str, Any]) -> None:
    """UPDATE_SNAPSHOTS=1 writes the files after an intended change."""
    assert_snapshot(defaults, SNAPSHOTS / "defaults.txt")


def test_construct_that_sends_differs_from_its_defaults_by_its_snapshot(
    tmp_path: Path, defaults: dict[str, Any]
) -> None:
    """What its other properties change, the snapshots of the appointments' stacks show: `tests/stacks/snapshots`."""
    _, shop = stack = new_stack(tmp_path)
    sends = targets(shop, kms.Key(shop, "Mine"))
    template = define(tmp_path, stack, entry=handler_folder(tmp_path), sends=sends).template
    assert_snapshot(template, SNAPSHOTS / "sends.txt", defaults)


def targets(shop: Stack, key: kms.IKey | None = None) -> dict[str, Any]:
    """Return one target of each kind."""
    encrypted = sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED
    return {
        "mails": sqs.Queue(shop, "Mails", enforce_ssl=True, encryption=encrypted, encryption_master_key=key),
        "shop_news": sns.Topic(shop, "News", enforce_ssl=True, master_key=key),
        "order_taken": events.EventBus(shop, "Bus"),
    }


@pytest.mark.parametrize("outcome", ["", "duplicate", "busy", "quarantined", "fenced", "failed"])
def test_metric_counts_the_lines_that_the_runtime_prints(orders: Defined, outcome: str) -> None:
    metric = orders.consumer.metric_deliveries(outcome, period=Duration.minutes(5), statistic="p99", label="theirs")
    assert (metric.period.to_minutes(), metric.statistic, metric.label) == (5, "p99", "theirs")
    (counted,) = (
        each["MetricTransformations"][0]
        for each in orders.resources("AWS::Logs::MetricFilter")
        if each["MetricTransformations"][0]["MetricName"] == metric.metric_name
    )
    assert (counted["MetricNamespace"], counted["MetricValue"]) == (metric.namespace, "1")
    for other in (orders.consumer.metric_dead_letters, orders.consumer.metric_oldest_message_age):
        assert other(label="theirs").label == "theirs"


def test_runtime_reads_every_variable_of_the_construct(orders: Defined, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = orders.only("AWS::Lambda::Function")["Environment"]["Variables"]
    assert set(variables) == {
        lambda_consumer.LEDGER_TABLE,
        lambda_consumer.LEDGER_RETENTION,
        lambda_consumer.QUEUE_URL,
        lambda_consumer.DEAD_LETTER_QUEUE_URL,
        f"{lambda_consumer.TABLE_PREFIX}SHIPMENTS",
        f"{KEY_PREFIX}SHIPMENTS",
        *(f"ONESLOT_{each.name.upper()}" for each in fields(Deferral)),
    }
    for name, value in {**variables, **AWS}.items():
        monkeypatch.setenv(name, value)
    ledger = lambda_consumer.ledger_from_environment()
    assert ledger.tables["shipments"] == variables["ONESLOT_TABLE_SHIPMENTS"]
    assert ledger.keys == {"shipments": ("shipment_id",)}
    numbers = orders.consumer.numbers
    assert deferral_of(variables) == Deferral(
        max_receive_count=numbers.max_receive_count,
        longest_lease_seconds=numbers.longest_lease_seconds,
        longest_retry_delay_seconds=numbers.longest_retry_delay_seconds,
    )


def test_function_knows_the_key_when_a_table_has_two_of_any_type(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    at = dynamodb.Attribute(name="at", type=dynamodb.AttributeType.NUMBER)
    orders = dynamodb.Table(shop, "Orders2", partition_key=text("customer"), sort_key=at)
    orders.add_global_secondary_index(index_name="by-mail", partition_key=text("mail"))
    imported = dynamodb.Table.from_table_name(shop, "Plan", "plan")
    tables = {"orders": orders, "plan": imported, "seats": imported}
    defined = define(tmp_path, stack, tables=tables, keys={"plan": ("hall", "row")})
    variables = defined.only("AWS::Lambda::Function")["Environment"]["Variables"]
    found = {name: value for name, value in variables.items() if name.startswith(KEY_PREFIX)}
    assert found == {"ONESLOT_KEY_ORDERS": "customer:S,at:N;mail:S", "ONESLOT_KEY_PLAN": "hall,row"}


def test_rights_on_a_table_are_those_named(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    seats, plan = new_table(shop, "Seats", "seat"), new_table(shop, "Plan", "hall")
    narrowed = TableRights(table=seats, actions=["dynamodb:UpdateItem"], indexes={"by_row": ["dynamodb:Query"]})
    in_words = TableRights(table=new_table(shop, "Words", "id"), actions=["Delete", "Check", "dynamodb:GetItem"])
    defined = define(tmp_path, stack, tables={"seats": narrowed, "words": in_words})
    defined.consumer.grant_table(plan, "dynamodb:GetItem")
    granted = rights(defined)
    assert granted[f"<{defined.logical_id(seats)}.Arn>"] == {"dynamodb:UpdateItem"}
    assert granted[f"<{defined.logical_id(seats)}.Arn>/index/by_row"] == {"dynamodb:Query"}
    assert granted[f"<{defined.logical_id(in_words.table)}.Arn>"] == {
        "dynamodb:DeleteItem",
        "dynamodb:ConditionCheckItem",
        "dynamodb:GetItem",
    }
    assert granted[f"<{defined.logical_id(plan)}.Arn>"] == {"dynamodb:GetItem"}


def test_rights_stay_when_a_table_has_a_policys_name(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    tables = {name: new_table(shop, name, "id") for name in ("logs", "key", "requests", "quarantine")}
    defined = define(tmp_path, stack, tables=tables)
    assert len(rights(defined)) == 4 + len(tables)
    assert {f"<{defined.logical_id(table)}.Arn>" for table in tables.values()} <= rights(defined).keys()


@pytest.mark.parametrize("keyed", [False, True])
def test_producer_may_send_and_nothing_else(tmp_path: Path, keyed: bool) -> None:
    _, shop = stack = new_stack(tmp_path)
    key = kms.Key(shop, "Mine") if keyed else None
    defined = define(tmp_path, stack, key=key)
    role = iam.Role(shop, "Shop", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    defined.consumer.grant_send(role)
    (policy,) = (each for each in defined.resources("AWS::IAM::Policy") if "Shop" in str(each["Roles"]))
    granted = {each["Resource"]: each["Action"] for each in policy["PolicyDocument"]["Statement"]}
    queue, of_key = f"<{defined.logical_id(defined.consumer.queue)}.Arn>", ["kms:Decrypt", "kms:GenerateDataKey"]
    assert granted == {queue: "sqs:SendMessage", **({f"<{defined.logical_id(key)}.Arn>": of_key} if keyed else {})}


def test_queue_name_fits_when_the_stacks_is_the_longest(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path / "assembly"))
    defined = define(tmp_path, (app, Stack(app, "S" * 128)), fifo=True)
    (name,) = [each["QueueName"] for each in defined.resources("AWS::SQS::Queue") if "QueueName" in each]
    assert "<AWS::StackName>" not in name
    assert len(name.replace("<AWS::StackId>[2][4]", "0123456789ab")) <= 80


def test_existing_queue_and_ledger_are_used_when_they_are_imported(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    queue = sqs.Queue.from_queue_arn(shop, "Theirs", "arn:aws:sqs:eu-west-2:111122223333:theirs")
    dead = sqs.Queue.from_queue_arn(shop, "TheirDead", "arn:aws:sqs:eu-west-2:111122223333:their-dead")
    ledger = dynamodb.Table.from_table_name(shop, "TheirLedger", "their-ledger")
    theirs: Any = {"existing_queue": queue, "existing_dead_letter_queue": dead, "existing_ledger": ledger}
    defined = define(tmp_path, stack, tables={}, **theirs)
    consumer = defined.consumer
    assert (consumer.queue, consumer.dead_letter_queue, consumer.ledger) == (queue, dead, ledger)
    assert defined.resources("AWS::SQS::Queue") == defined.resources("AWS::DynamoDB::GlobalTable") == []
    assert defined.only("AWS::Lambda::EventSourceMapping")["EventSourceArn"] == queue.queue_arn
    arn = "arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/their-ledger"
    assert rights(defined)[arn] == {"dynamodb:UpdateItem"}


def test_relay_knows_rows_streams_and_targets_as_the_runtime_does(sending: Defined) -> None:
    """The construct writes the runtime's words as text. The rest of the mapping is in the snapshot."""
    (mapping,) = (each for each in sending.resources("AWS::Lambda::EventSourceMapping") if "StartingPosition" in each)
    (pattern,) = (json.loads(each["Pattern"]) for each in mapping["FilterCriteria"]["Filters"])
    assert pattern == {"dynamodb": {"NewImage": {UNSENT: {"N": [{"exists": True}]}}}}
    (index,) = sending.only("AWS::DynamoDB::GlobalTable")["GlobalSecondaryIndexes"]
    assert [each["AttributeName"] for each in index["KeySchema"]] == ["message_id", UNSENT]
    assert index["Projection"]["NonKeyAttributes"] == ["updated", SENDER]
    assert tuple(TARGETS.values()) == FORMS
    assert tables.WITH_NEW_IMAGES == relay_verb.WITH_NEW_IMAGES


def test_alarm_of_the_relay_is_about_the_line_of_its_looks_and_their_absence(sending: Defined) -> None:
    """A disabled mapping has no metric of its own. The looks go on, and end with the function or its schedule."""
    (counted,) = (
        each for each in sending.resources("AWS::Logs::MetricFilter") if "oldest_seconds" in each["FilterPattern"]
    )
    (metric,) = counted["MetricTransformations"]
    alarm = alarms(sending)["relay-behind"]
    (watched,) = (each["MetricStat"]["Metric"] for each in alarm["Metrics"])
    assert watched == {"Namespace": metric["MetricNamespace"], "MetricName": metric["MetricName"]}
    assert (metric["MetricValue"], alarm["TreatMissingData"]) == ("$.oldest_seconds", "breaching")
    rule = sending.only("AWS::Events::Rule")
    relay = sending.logical_id(sending.consumer.relay.function) if sending.consumer.relay else ""
    assert (rule["ScheduleExpression"], rule["State"], rule["Targets"][0]["Arn"]) == (
        "rate(1 minute)",
        "ENABLED",
        f"<{relay}.Arn>",
    )


def test_runtime_reads_every_target_of_the_construct(sending: Defined) -> None:
    consumer, relay = (
        each["Environment"]["Variables"]
        for each in sorted(sending.resources("AWS::Lambda::Function"), key=lambda each: each["Handler"])
    )
    sends = {name for name in consumer if name.startswith(lambda_consumer.SEND_PREFIX)}
    assert sends == {"ONESLOT_SEND_MAILS", "ONESLOT_SEND_SHOP_NEWS", "ONESLOT_SEND_ORDER_TAKEN"}
    own = (lambda_consumer.LEDGER_TABLE, lambda_consumer.LEDGER_RETENTION, lambda_consumer.QUEUE_URL)
    assert relay == {**{name: consumer[name] for name in (*sends, *own)}, lambda_consumer.UNSENT_INDEX: "unsent"}


@pytest.mark.parametrize("in_network", [False, True])
def test_construct_breaks_no_rule(tmp_path: Path, in_network: bool) -> None:
    """Held to cdk-nag's two packs, as the stacks are; synthesis fails with a finding."""
    _, shop = stack = new_stack(tmp_path)
    place: Any = {"vpc_id": "vpc-1", "availability_zones": ["a"], "private_subnet_ids": ["subnet-1"]}
    vpc: Any = ec2.Vpc.from_vpc_attributes(shop, "Net", **place) if in_network else None
    groups: Any = [ec2.SecurityGroup.from_security_group_id(shop, "Group", "sg-1")] if in_network else None
    tracing = lambda_.Tracing.ACTIVE if in_network else None
    bus = {"order_taken": events.EventBus(shop, "Bus")}
    defined = define(tmp_path, stack, vpc=vpc, security_groups=groups, tracing=tracing, sends=bus)
    defined.consumer.add_alarms()
    add_rules(defined.app)
    defined.app.synth()


def alarms(defined: Defined) -> dict[str, dict[str, Any]]:
    """Return the alarms by the name of their runbook."""
    found = defined.resources("AWS::CloudWatch::Alarm")
    return {each["AlarmDescription"].rpartition("oneslot docs runbooks#")[2]: each for each in found}


def test_alarms_have_a_runbook_and_notify_the_topic(orders: Defined, sending: Defined) -> None:
    page = (Path(__file__).parents[3] / "docs" / "do" / "runbooks.md").read_text(encoding="utf-8").lower()
    assert (len(alarms(orders)), len(alarms(sending))) == (11, 12)
    for defined in (orders, sending):
        topic = f"<{defined.logical_id(defined.stack.node.find_child('OnCall'))}>"
        for name, alarm in alarms(defined).items():
            assert f"\n## {name.replace('-', ' ')}\n" in page
            assert alarm["AlarmActions"] == alarm["OKActions"] == [topic]


def test_outputs_are_those_that_a_declaration_asks_for(orders: Defined) -> None:
    names = 'name = "orders"\nhandler = "app.handler"\nstack = "Shop"\noutputs = "Orders"\n'
    declaration = parse_declaration(names + '[tables.shipments]\nkey = "shipment_id"', None)
    outputs = orders.template["Outputs"]

    assert Outputs.of("Shop", dict.fromkeys(outputs, "x"), declaration).tables == {"shipments": "x"}
    assert len(outputs) == len(STACK_OUTPUTS) + 1


def test_outputs_of_further_consumers_begin_with_their_ids_and_never_collide(tmp_path: Path) -> None:
    defined = define(tmp_path)
    others = [
        ExactlyOnceConsumer(defined.stack, name, code=INLINE, handler="app.handler", tables={})
        for name in ("gift-mails", "giftmails", "gift_mails")
    ]
    for consumer in (defined.consumer, *others):
        consumer.add_outputs()

    outputs = defined.template["Outputs"]

    queues = {
        name: each["Value"]["Ref"] for name, each in outputs.items() if re.fullmatch(r"(giftmails\d?)?QueueUrl", name)
    }
    names = ["QueueUrl", "giftmailsQueueUrl", "giftmails2QueueUrl", "giftmails3QueueUrl"]
    consumers = (defined.consumer, *others)
    assert queues == {name: defined.logical_id(each.queue) for name, each in zip(names, consumers, strict=True)}
    named = 'name = "mails"\nhandler = "app.handler"\nstack = "Shop"\noutputs = "giftmails"\n'
    assert Outputs.of("Shop", dict.fromkeys(outputs, "x"), parse_declaration(named, None)).queue_url == "x"
    with pytest.raises(ContradictorySettings, match="has an output giftmailsQueueUrl; pass another prefix"):
        defined.consumer.add_outputs("giftmails")


def test_function_takes_a_network_layers_and_tracing(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    vpc = ec2.Vpc(shop, "Net", restrict_default_security_group=False)
    group = ec2.SecurityGroup(shop, "Group", vpc=vpc)
    layer = lambda_.LayerVersion.from_layer_version_arn(
        shop, "Layer", "arn:aws:lambda:eu-west-2:111122223333:layer:theirs:1"
    )
    defined = define(
        tmp_path,
        stack,
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
        security_groups=[group],
        layers=[layer],
        tracing=lambda_.Tracing.ACTIVE,
        sends={"order_taken": events.EventBus(shop, "Bus")},
    )
    functions = [each for each in defined.resources("AWS::Lambda::Function") if "VpcConfig" in each]
    assert len(functions) == 2, "the consumer and its relay"
    for function in functions:
        assert function["VpcConfig"]["SecurityGroupIds"] == [f"<{defined.logical_id(group)}.GroupId>"]
        assert "PrivateSubnet" in str(function["VpcConfig"]["SubnetIds"])
        assert function["Layers"] == [layer.layer_version_arn]
        assert function["TracingConfig"] == {"Mode": "Active"}
    # Lambda makes and deletes the network's interfaces in the role's name: developer guide, "Giving Lambda access to a VPC".
    assert rights(defined)["*"] >= {
        *("ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DeleteNetworkInterface"),
        *("ec2:DescribeSubnets", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
        *("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
    }
