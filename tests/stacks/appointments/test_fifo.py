"""`-c queue=fifo`: the template of a stack that keeps order."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stacks.application import build
from stacks.context import settings_from_context
from stacks.settings import STAGES, ContradictorySettings
from tests.kits.stacks import Stage, resolve, synthesise


@pytest.fixture(scope="module")
def fifo(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    folder = tmp_path_factory.mktemp("assembly-fifo")
    build(outdir=str(folder), context={"stage": "dev", "queue": "fifo"}).synth()
    return Stage(settings_from_context({"queue": "fifo"}), folder)


@pytest.mark.parametrize("output", ["QueueUrl", "DeadLetterQueueUrl"])
def test_both_queues_are_fifo_with_high_throughput(fifo: Stage, output: str) -> None:
    queue = fifo.of_output(output)
    assert {name: queue.get(name) for name in HIGH_THROUGHPUT} == HIGH_THROUGHPUT


HIGH_THROUGHPUT = {
    "FifoQueue": True,
    "ContentBasedDeduplication": True,
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}


def test_a_given_name_ends_as_sqs_asks(fifo: Stage) -> None:
    assert json.dumps(fifo.of_output("QueueUrl")["QueueName"]).rstrip(']}" ').endswith(".fifo")
    policy = json.dumps(fifo.of_output("DeadLetterQueueUrl")["RedriveAllowPolicy"])
    assert ".fifo" in policy


def test_the_mapping_reports_failures_and_has_no_window(fifo: Stage) -> None:
    mapping = fifo.properties("AWS::Lambda::EventSourceMapping")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BatchSize"] <= 10
    assert "MaximumBatchingWindowInSeconds" not in mapping


def test_all_else_is_as_with_a_standard_queue(fifo: Stage, stages: dict[str, Stage]) -> None:
    def others(stage: Stage) -> dict[str, Any]:
        return {
            name: found
            for name, found in stage.template["Resources"].items()
            if found["Type"] not in {"AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::IAM::Role"}
        }

    assert others(fifo) == others(stages["dev"])


@pytest.mark.parametrize("name", sorted(STAGES))
def test_a_standard_queue_is_the_default(stages: dict[str, Stage], name: str) -> None:
    assert not set(HIGH_THROUGHPUT) & set(stages[name].of_output("QueueUrl"))
    assert ".fifo" not in stages[name].template_text


def test_no_rule_is_broken(fifo: Stage) -> None:
    report = json.loads((fifo.folder / "validation-report.json").read_text(encoding="utf-8"))
    assert [found for found in report["pluginReports"] if found["conclusion"] != "success"] == []


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"queue": "lifo"}, "queue is 'lifo'; use one of: standard, fifo"),
        ({"queue": "fifo", "batching_window_seconds": "1", "visibility_multiplier": "2"}, "no batching window"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(context: dict[str, str], said: str) -> None:
    with pytest.raises(ContradictorySettings, match=said):
        settings_from_context(context)


def test_the_value_may_be_spelled_in_capitals() -> None:
    assert settings_from_context({"queue": "FIFO"}).fifo


def test_the_assets_of_both_kinds_are_the_same_code(fifo: Stage, stages: dict[str, Stage]) -> None:
    assert Path(fifo.asset).name == stages["dev"].asset.name


def queues_by_output(stage: Stage) -> dict[str, Any]:
    """The outputs that name a queue, by what they say of which."""
    queues = stage.resources("AWS::SQS::Queue")
    values = {name: resolve(output["Value"]) for name, output in stage.template["Outputs"].items()}
    return {name: value for name, value in values.items() if value.strip("<>").split(".")[0] in queues}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    """A stage with each kind of queue, and the audit."""
    return {
        kind: synthesise(tmp_path_factory.mktemp(f"assembly-{kind}"), audit="true", queue=kind)
        for kind in ("standard", "fifo")
    }


@pytest.mark.parametrize("part", ["-operations", "-audit"])
def test_who_reads_of_a_queue_reads_anew_when_it_is_another(kinds: dict[str, Stage], part: str) -> None:
    """CDK's command line passes over a stack whose template is what it was, whatever the outputs say that it reads: its
    alarms would go on watching the queue of before, which is silent, and silence is well.
    """
    read, said = {}, {}
    for kind, stage in kinds.items():
        outputs = queues_by_output(stage)
        template = replace(stage, part=part).template_text
        # In a state machine's definition the reference stands in a list of parts, as it does everywhere else.
        read[kind] = set(re.findall(r'"OutputName": "(\w+)"', template)) & set(outputs)
        said[kind] = sorted(outputs[name] for name in read[kind])
    assert said["standard"] == said["fifo"] != []
    assert not read["standard"] & read["fifo"]
