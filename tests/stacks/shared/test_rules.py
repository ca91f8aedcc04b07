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
from tests.kits.stacks import Stage
from tests.stacks.conftest import VARIANTS


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
