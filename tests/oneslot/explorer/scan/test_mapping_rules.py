"""The rules of an event source mapping, each at the value that breaks it and at the one that does not."""

import re
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.templates.intrinsics import Resolver
from oneslot.explorer.handlers.templates.sources import BUS, DYNAMODB, FIFO, KNOWN, SQS, FunctionSource, sources_of
from oneslot.explorer.handlers.templates.template import function_properties, functions_of
from oneslot.explorer.scan.mapping_rules import RULES, findings
from tests.oneslot.cdk.kit import define

POLICY = {"RedrivePolicy": {"maxReceiveCount": 5}}
SOUND = {"VisibilityTimeout": 180, **POLICY}
REPORTS = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}
LIMITED = {"ScalingConfig": {"MaximumConcurrency": 8}}
BOUNDED = {"MaximumRetryAttempts": 10, "DestinationConfig": {"OnFailure": {}}, **REPORTS}


QUEUES = {
    "Plain": {"MessageRetentionPeriod": 1_209_600},
    "Short": {"MessageRetentionPeriod": 345_600},
    "Fifo": {"FifoQueue": True, "MessageRetentionPeriod": 1_209_600},
}
SCALED = {"ScalingConfig": {"MaximumConcurrency": 5}, **REPORTS}
WINDOW = {"MaximumBatchingWindowInSeconds": 1, **REPORTS}


def _policy(queue: str) -> dict[str, Any]:
    policy = {"maxReceiveCount": 5, "deadLetterTargetArn": {"Fn::GetAtt": [queue, "Arn"]}}
    return {"VisibilityTimeout": 180, "RedrivePolicy": policy}


def _rules(kind: str, function: dict[str, Any], queue: dict[str, Any] | None, mapping: dict[str, Any]) -> list[str]:
    resources = {name: {"Type": "AWS::SQS::Queue", "Properties": own} for name, own in QUEUES.items()}
    return [
        one.rule
        for one in findings(
            Resolver({"Resources": resources}, {}), "F", function, FunctionSource(kind, "Q", mapping, queue)
        )
    ]


@pytest.mark.parametrize(
    ("kind", "function", "queue", "mapping", "rules"),
    [
        (SQS, {"Timeout": 30}, SOUND, REPORTS, []),
        (SQS, {"Timeout": 30}, {"VisibilityTimeout": 29, **POLICY}, REPORTS, ["visibility-below-timeout"]),
        (SQS, {"Timeout": 30}, {"VisibilityTimeout": 179, **POLICY}, REPORTS, ["visibility-below-six-timeouts"]),
        (
            *(SQS, {"Timeout": 30}, SOUND, {"MaximumBatchingWindowInSeconds": 1, **REPORTS}),
            ["visibility-below-six-timeouts"],
        ),
        (SQS, {"Timeout": 30}, {"VisibilityTimeout": 30, **POLICY}, {**LIMITED, **REPORTS}, []),
        (SQS, {"Timeout": 30}, {"VisibilityTimeout": 180}, REPORTS, ["no-dead-letter-queue"]),
        (SQS, {"Timeout": 30}, {**SOUND, "RedrivePolicy": {"maxReceiveCount": 4}}, REPORTS, ["too-few-receives"]),
        (SQS, {"Timeout": 30}, SOUND, {}, ["failures-not-reported"]),
        (SQS, {"Timeout": 30}, SOUND, {"BatchSize": 1}, []),
        (SQS, {}, SOUND, REPORTS, ["batch-too-large-for-timeout"]),
        (SQS, {"Timeout": {"Ref": "Unknown"}}, {**SOUND, "VisibilityTimeout": {"Ref": "Unknown"}}, REPORTS, []),
        (SQS, {"Timeout": 30}, None, REPORTS, ["queue-not-in-template"]),
        (SQS, {"Timeout": 60}, SOUND | {"VisibilityTimeout": 400}, {"BatchSize": 11, **REPORTS}, ["batch-above-ten"]),
        (SQS, {"Timeout": 30, "DeadLetterQueue": {}}, SOUND, REPORTS, ["dead-letters-of-the-function"]),
        (SQS, {"Timeout": 30, "ReservedConcurrentExecutions": 2}, SOUND, SCALED, ["concurrency-above-reserved"]),
        (SQS, {"Timeout": 30, "ReservedConcurrentExecutions": 5}, SOUND, SCALED, []),
        (SQS, {"Timeout": 30}, _policy("Q"), REPORTS, ["source-is-its-own-target"]),
        (SQS, {"Timeout": 30}, _policy("Plain"), REPORTS, []),
        (SQS, {"Timeout": 30}, _policy("Short"), REPORTS, ["dead-letters-expire"]),
        (SQS, {"Timeout": 30}, _policy("Fifo"), REPORTS, ["dead-letter-queue-of-another-type"]),
        (FIFO, {"Timeout": 30}, _policy("Fifo"), REPORTS, ["order-broken-by-dead-letters"]),
        (FIFO, {"Timeout": 30}, {"VisibilityTimeout": 180}, REPORTS, ["group-blocked-by-a-message"]),
        (
            *(FIFO, {"Timeout": 60}, {"VisibilityTimeout": 400}, {"BatchSize": 11, **WINDOW}),
            ["group-blocked-by-a-message", "batch-above-ten"],
        ),
        (DYNAMODB, {}, {}, {**BOUNDED, "StartingPosition": "LATEST"}, ["reads-from-latest"]),
        (DYNAMODB, {}, {}, {**BOUNDED, "FunctionResponseTypes": [], "BisectBatchOnFunctionError": True}, []),
        (SQS, {"Timeout": 31}, {}, REPORTS, ["visibility-below-timeout", "no-dead-letter-queue"]),
        (DYNAMODB, {}, {}, REPORTS, ["shard-blocked-by-a-record"]),
        (DYNAMODB, {}, {}, {"MaximumRecordAgeInSeconds": 60, **REPORTS}, ["no-failure-destination"]),
        (DYNAMODB, {}, {}, BOUNDED, []),
        (BUS, {}, {}, {}, ["no-failure-destination"]),
        (BUS, {}, {}, {"DeadLetterConfig": {}}, ["no-failure-destination"]),
        (BUS, {"DeadLetterQueue": {}}, {}, {}, []),
        (BUS, {"EventInvokeConfig": {"MaximumRetryAttempts": 0}}, {}, {}, ["no-failure-destination"]),
        (BUS, {"EventInvokeConfig": {"DestinationConfig": {"OnSuccess": {}}}}, {}, {}, ["no-failure-destination"]),
        (BUS, {"EventInvokeConfig": {"DestinationConfig": {"OnFailure": {"Type": "SQS"}}}}, {}, {}, []),
    ],
)
def test_mapping_breaks_these_rules(
    kind: str, function: dict[str, Any], queue: dict[str, Any] | None, mapping: dict[str, Any], rules: list[str]
) -> None:
    assert _rules(kind, function, queue, mapping) == rules


def test_construct_breaks_no_rule_when_its_numbers_are_the_defaults(tmp_path: Path) -> None:
    resolver = Resolver(define(tmp_path).template, {})

    found = [
        finding
        for name in functions_of(resolver)
        for source in sources_of(resolver, name)
        for finding in findings(resolver, name, function_properties(resolver.template, name), source)
    ]

    assert [SQS in source.kind for source in sources_of(resolver, functions_of(resolver)[0])] == [True]
    assert found == []


def test_page_lists_each_rule_with_its_severity_and_each_source() -> None:
    page = (Path(__file__).parents[4] / "docs" / "do" / "scan.md").read_text()
    sources = page.partition("## How each source delivers again")[2].partition("## ")[0].lower()

    of_severity = re.findall(r"^- (error|warning)s: ((?:`[a-z-]+`[, \n]*)+)$", page, re.MULTILINE)
    listed = {rule: severity for severity, names in of_severity for rule in re.findall("`([a-z-]+)`", names)}
    assert listed == {rule: severity for rule, (severity, _) in RULES.items()}
    assert [kind for kind in KNOWN if kind.lower() not in sources] == []
