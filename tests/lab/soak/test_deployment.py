"""The shortened stack is the real one with another timeout and the same ratio of visibility."""

from __future__ import annotations

from typing import Any

import pytest

from lab.soak.deployment import shortened
from oneslot.local.aws.cloud_assembly import SynthesisedStack


def template(visibility: int, mappings: int = 1) -> dict[str, Any]:
    mapping = {
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "FunctionName": {"Ref": "Consumer"},
            "EventSourceArn": {"Fn::GetAtt": ["Requests", "Arn"]},
            "BatchSize": 10,
        },
    }
    return {
        "Resources": {
            "Consumer": {"Type": "AWS::Lambda::Function", "Properties": {"Timeout": 30, "MemorySize": 512}},
            "Other": {"Type": "AWS::Lambda::Function", "Properties": {"Timeout": 60}},
            "Requests": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": visibility}},
            "DeadLetters": {"Type": "AWS::SQS::Queue", "Properties": {"MessageRetentionPeriod": 1}},
            **{f"Mapping{number}": mapping for number in range(mappings)},
        }
    }


def stack(document: dict[str, Any]) -> SynthesisedStack:
    return SynthesisedStack("S", document, ())


@pytest.mark.parametrize("relation", [1, 6])
def test_shortened_changes_only_the_mapped_times(relation: int) -> None:
    original = template(30 * relation)
    changed = shortened(stack(original), 5).template["Resources"]
    assert changed["Consumer"]["Properties"] == {"Timeout": 5, "MemorySize": 512}
    assert changed["Requests"]["Properties"]["VisibilityTimeout"] == 5 * relation
    for name in ("Other", "DeadLetters"):
        assert changed[name] == original["Resources"][name]
    assert original == template(30 * relation)


def test_shortened_rejects_two_mappings() -> None:
    with pytest.raises(ValueError, match="2 event source mappings"):
        shortened(stack(template(30, mappings=2)), 5)
