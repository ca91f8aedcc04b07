"""Least privilege over all stacks: the consumer has the rights of its calls alone, and no policy is attached."""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

import app as entry
from oneslot.runtime.consumer.queues import SQS
from stacks.application import build
from tests.kits.consumer import Intercepted, bench, booking, cancellation, record
from tests.kits.stacks import Stage
from tests.stacks.conftest import VARIANTS


def statements(stage: Stage) -> list[dict[str, Any]]:
    """Return every statement of every role."""
    assert stage.resources("AWS::IAM::Policy") == stage.resources("AWS::IAM::ManagedPolicy") == {}
    roles = [role["Properties"] for role in stage.resources("AWS::IAM::Role").values()]
    assert [role for role in roles if "ManagedPolicyArns" in role] == []
    return [each for role in roles for policy in role["Policies"] for each in policy["PolicyDocument"]["Statement"]]


def listed(value: Any) -> list[Any]:
    """IAM writes a list of one without brackets."""
    return value if isinstance(value, list) else [value]


def test_calls_on_queues_are_granted(stages: dict[str, Stage]) -> None:
    """The runtime declares the calls that it makes."""
    declared = {name for name in vars(SQS) if re.fullmatch(r"[a-z][a-z_]+", name)}
    granted = {action for each in statements(stages["dev"]) for action in listed(each["Action"])}
    assert {f"sqs:{''.join(word.capitalize() for word in name.split('_'))}" for name in declared} <= granted


def test_statements_only_allow(stages: dict[str, Stage], audit: Stage) -> None:
    """Which action each role may do to which resource, the snapshots show."""
    for stage in (*stages.values(), audit):
        for statement in statements(stage):
            assert statement["Effect"] == "Allow"
            assert statement.keys() <= {"Effect", "Action", "Resource", "Condition"}


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
    for statement in statements(stage):
        for action in listed(statement["Action"]):
            if action.startswith("dynamodb:"):
                (table,) = [name for logical, name in tables.items() if logical in json.dumps(statement["Resource"])]
                granted[table].add(action.removeprefix("dynamodb:"))
    assert granted == calls_on_tables


# The AWS Solutions and HIPAA Security rules refuse a bad stack, and ours break none.


def test_app_exits_with_1_when_a_stack_breaks_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A queue without TLS and without a dead-letter queue, and a role that may do everything everywhere."""

    def build_bad(**_: Any) -> App:
        ours = build(outdir=str(tmp_path))
        stack = Stack(ours, "Addition")
        sqs.Queue(stack, "Queue")
        role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        role.add_to_policy(iam.PolicyStatement(actions=["dynamodb:*"], resources=["*"]))
        return ours

    monkeypatch.setattr(entry, "build", build_bad)
    assert entry.main() == 1
    assert "AwsSolutions-SQS4" in capsys.readouterr().err
    reports = json.loads((tmp_path / "validation-report.json").read_text(encoding="utf-8"))["pluginReports"]
    broken = {report["pluginName"]: {each["ruleName"] for each in report["violations"]} for report in reports}
    assert broken["AwsSolutions"] >= {
        *("AwsSolutions-SQS3", "AwsSolutions-SQS4"),
        *("AwsSolutions-IAM5[Action::dynamodb:*]", "AwsSolutions-IAM5[Resource::*]"),
    }
    assert "HIPAA.Security-IAMPolicyNoStatementsWithFullAccess" in broken["HIPAA.Security"]


def test_stacks_break_no_rule(stages: dict[str, Stage], with_audit: Stage, variant: Callable[[str], Stage]) -> None:
    for assembly in (*stages.values(), with_audit, *map(variant, VARIANTS)):
        report = json.loads((assembly.folder / "validation-report.json").read_text(encoding="utf-8"))
        assert [found for found in report["pluginReports"] if found["conclusion"] != "success"] == []


def test_resources_carry_application_and_stage(with_audit: Stage) -> None:
    wanted = [{"Key": "Application", "Value": "oneslot"}, {"Key": "Stage", "Value": "prod"}]
    kinds = ("AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::S3::Bucket", "AWS::CloudWatch::Alarm", "AWS::KMS::Key")
    tagged = 0
    for part in ("", "-operations", "-audit"):
        for kind in kinds:
            for resource in Stage(with_audit.settings, with_audit.folder, part).resources(kind).values():
                assert [tag for tag in resource["Properties"]["Tags"] if tag in wanted] == wanted
                tagged += 1
    assert tagged > 10
