"""Trimming a template: what may be left out, what goes with it, and what cannot go."""

from __future__ import annotations

from typing import Any

import pytest

from oneslot.local.aws.template import TableSettings, drop_rejected, references, table_settings
from oneslot.local.errors import DeploymentFailed

TEMPLATE: dict[str, Any] = {
    "Resources": {
        "Queue": {"Type": "AWS::SQS::Queue", "DependsOn": ["Both", "Other"]},
        "Other": {"Type": "AWS::SQS::Queue", "DependsOn": "Both"},
        "Simple": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "m"}},
        "Math": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": [{"Id": "a"}]}},
        "Both": {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": {"AlarmRule": {"Fn::Sub": "${Math.Arn}"}}},
    },
    "Outputs": {"Alarm": {"Value": {"Fn::GetAtt": ["Both", "Arn"]}}, "Queue": {"Value": {"Ref": "Queue"}}},
}


def test_what_is_dropped_is_named_and_what_spoke_of_it_goes_too() -> None:
    trimmed, dropped = drop_rejected(TEMPLATE)
    assert dropped == {"AWS::CloudWatch::Alarm with Metrics": ("Math",), "AWS::CloudWatch::CompositeAlarm": ("Both",)}
    assert set(trimmed["Resources"]) == {"Queue", "Other", "Simple"}
    assert trimmed["Resources"]["Queue"]["DependsOn"] == ["Other"]
    assert trimmed["Resources"]["Other"]["DependsOn"] == []
    assert set(trimmed["Outputs"]) == {"Queue"}


def test_a_template_without_such_resources_stays_as_it_is() -> None:
    template = {"Resources": {"Queue": TEMPLATE["Resources"]["Simple"]}, "Description": "d"}
    assert drop_rejected(template) == (template, {})


def test_what_another_resource_needs_cannot_be_left_out() -> None:
    template = {
        "Resources": {
            "Both": {"Type": "AWS::CloudWatch::CompositeAlarm"},
            "Policy": {"Type": "AWS::IAM::Policy", "Properties": {"R": [{"Fn::GetAtt": "Both.Arn"}]}},
        }
    }
    with pytest.raises(DeploymentFailed, match="Policy refers to Both"):
        drop_rejected(template)


def test_references() -> None:
    value = [
        {"Ref": "A"},
        {"Fn::GetAtt": ["B", "Arn"]},
        {"Fn::GetAtt": "C.Arn"},
        {"Fn::Sub": "x-${D}-${E.Arn}"},
        {"Fn::Sub": ["${F}", {"G": {"Ref": "H"}}]},
    ]
    assert sorted(references(value)) == ["A", "B", "C", "D", "E", "F", "H"]


@pytest.mark.parametrize(
    ("properties", "settings"),
    [
        ({}, TableSettings(None, point_in_time_recovery=False)),
        (
            {
                "TimeToLiveSpecification": {"AttributeName": "t", "Enabled": True},
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            },
            TableSettings("t", point_in_time_recovery=True),
        ),
        (
            {
                "TimeToLiveSpecification": {"AttributeName": "t", "Enabled": False},
                "Replicas": [{"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}],
            },
            TableSettings(None, point_in_time_recovery=True),
        ),
    ],
    ids=["nothing", "Table", "GlobalTable"],
)
def test_table_settings(properties: dict[str, Any], settings: TableSettings) -> None:
    assert table_settings({"Type": "any", "Properties": properties}) == settings
