"""`-c queue=fifo`: the template of a stack that keeps order."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from oneslot.cdk import ContradictorySettings
from stacks.context import settings_from_context
from stacks.settings import STAGES
from tests.kits.stacks import Stage, resolve

HIGH_THROUGHPUT = {
    "FifoQueue": True,
    "ContentBasedDeduplication": True,
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}


def test_fifo_changes_the_queues_alone(fifo: Stage, stages: dict[str, Stage]) -> None:
    def others(stage: Stage) -> dict[str, Any]:
        return {
            name: found
            for name, found in stage.template["Resources"].items()
            if found["Type"] not in {"AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::IAM::Role"}
        }

    assert others(fifo) == others(stages["dev"])


@pytest.mark.parametrize("name", sorted(STAGES))
def test_queue_is_standard_by_default(stages: dict[str, Stage], name: str) -> None:
    assert not set(HIGH_THROUGHPUT) & set(stages[name].of_output("QueueUrl"))
    assert ".fifo" not in stages[name].template_text


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"queue": "lifo"}, "queue is 'lifo'; use one of: standard, fifo"),
        ({"queue": "fifo", "batching_window_seconds": "1", "visibility_multiplier": "2"}, "no batching window"),
    ],
)
def test_fifo_settings_are_refused_when_invalid(context: dict[str, str], said: str) -> None:
    with pytest.raises(ContradictorySettings, match=said):
        settings_from_context(context)


def test_queue_kind_ignores_case() -> None:
    assert settings_from_context({"queue": "FIFO"}).fifo


def queues_by_output(stage: Stage) -> dict[str, Any]:
    """Return the outputs that name a queue → the attribute of the queue that they show."""
    queues = stage.resources("AWS::SQS::Queue")
    values = {name: resolve(output["Value"]) for name, output in stage.template["Outputs"].items()}
    return {name: value for name, value in values.items() if value.strip("<>").split(".")[0] in queues}


@pytest.mark.parametrize("part", ["-operations", "-audit"])
def test_other_stacks_read_another_output_when_the_kind_changes(fifo: Stage, with_audit: Stage, part: str) -> None:
    """CDK's command line skips a stack whose template did not change. Its alarms would watch the old, silent queue."""
    read, said = {}, {}
    for kind, stage in {"standard": with_audit, "fifo": fifo}.items():
        outputs = queues_by_output(stage)
        template = replace(stage, part=part).template_text
        # In a state machine's definition the reference stands in a list of parts, as it does everywhere else.
        read[kind] = set(re.findall(r'"OutputName": "(\w+)"', template)) & set(outputs)
        said[kind] = sorted(outputs[name] for name in read[kind])
    assert said["standard"] == said["fifo"] != []
    assert not read["standard"] & read["fifo"]
