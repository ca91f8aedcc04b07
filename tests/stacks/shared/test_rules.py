"""The AWS Solutions and HIPAA Security rules refuse a bad stack, and ours break none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

import app as entry
from stacks.application import build
from stacks.shared.rules import add_rules
from tests.kits.stacks import Stage
from tests.stacks.conftest import VARIANTS


def bad_app(folder: Path) -> App:
    """A queue without TLS and without a dead-letter queue, and a role that may do everything everywhere."""
    bad = App(outdir=str(folder))
    stack = Stack(bad, "Bad")
    sqs.Queue(stack, "Queue")
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    role.add_to_policy(iam.PolicyStatement(actions=["dynamodb:*"], resources=["*"]))
    add_rules(bad)
    return bad


def test_bad_stack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=entry.RULES_BROKEN):
        bad_app(tmp_path).synth()
    reports = json.loads((tmp_path / "validation-report.json").read_text(encoding="utf-8"))["pluginReports"]
    found = {
        report["pluginName"]: {finding["ruleName"] for finding in report["violations"]}
        for report in reports
        if report["conclusion"] == "failure"
    }
    assert found == {
        "AwsSolutions": {
            "AwsSolutions-SQS3",
            "AwsSolutions-SQS4",
            "AwsSolutions-IAM5[Action::dynamodb:*]",
            "AwsSolutions-IAM5[Resource::*]",
        },
        "HIPAA.Security": {
            "HIPAA.Security-IAMNoInlinePolicy",
            "HIPAA.Security-IAMPolicyNoStatementsWithFullAccess",
        },
    }


def test_stacks_break_no_rule(stages: dict[str, Stage], with_audit: Stage, variant: Callable[[str], Stage]) -> None:
    for assembly in (*stages.values(), with_audit, *map(variant, VARIANTS)):
        report = json.loads((assembly.folder / "validation-report.json").read_text(encoding="utf-8"))
        assert [found for found in report["pluginReports"] if found["conclusion"] != "success"] == []


def test_app_is_held_to_the_rules(tmp_path: Path) -> None:
    ours = build(outdir=str(tmp_path))
    sqs.Queue(Stack(ours, "Addition"), "Queue")
    with pytest.raises(RuntimeError, match="AwsSolutions-SQS4"):
        ours.synth()


def test_app_exits_with_1_when_a_rule_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build_bad(**_: Any) -> App:
        return bad_app(tmp_path)

    monkeypatch.setattr(entry, "build", build_bad)
    assert entry.main() == 1
    assert "AwsSolutions-SQS4" in capsys.readouterr().err


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
