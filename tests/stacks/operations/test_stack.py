"""Alarms and dashboard: each watches an existing metric of a deployed resource."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from appointments.outcomes import ANSWERED
from oneslot.cdk.metrics import PAUSED, PAUSED_NAMESPACE
from stacks.audit.workflow import DEFINITION
from stacks.shared.measures import LATENCY_METRIC, OUTCOMES
from tests.kits.stacks import Stage, resolve
from tests.stacks.operations.metric_math import at_one_moment

ROOT = Path(__file__).resolve().parents[3]
HANDLER = ROOT / "lambda_src" / "handler.py"
CONSUMER = ROOT / "oneslot" / "runtime" / "consumer"
# The names that the services publish, from their developer guides: an alarm on a misspelt metric never goes off.
PUBLISHED = {
    "AWS/SQS": {
        *("ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"),
        *("ApproximateAgeOfOldestMessage", "NumberOfMessagesSent", "NumberOfMessagesDeleted"),
    },
    "AWS/Lambda": {"Errors", "Throttles", "ConcurrentExecutions"},
    "AWS/DynamoDB": {
        *("ReadThrottleEvents", "WriteThrottleEvents", "TransactionConflict", "ConditionalCheckFailedRequests"),
    },
    "AWS/States": {"ExecutionsSucceeded"},
    "AWS/Firehose": {"DeliveryToS3.DataFreshness"},
    "AWS/S3": {"PutRequests"},
    PAUSED_NAMESPACE: {PAUSED},
}


@pytest.fixture(scope="module")
def operations(stage: Stage) -> Stage:
    """The operations stack of each stage."""
    return replace(stage, part="-operations")


def alarms(stage: Stage) -> dict[str, dict[str, Any]]:
    """The alarms by the name of their runbook."""
    found = {}
    for alarm in stage.resources("AWS::CloudWatch::Alarm").values():
        properties = resolve(alarm["Properties"])
        if "Read by" in properties["AlarmDescription"]:
            continue  # part of a composite alarm, which notifies
        (name,) = re.findall(r"oneslot docs runbooks#([a-z-]+)", properties["AlarmDescription"])
        found[name] = properties
    return found


def missing_audit(audit: Stage) -> dict[str, dict[str, Any]]:
    """The parts of the alarm on a missing audit: `Overdue`, `Began`, and the composite `Alarm` over both."""
    kinds = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
    found = {name: resource for kind in kinds for name, resource in audit.resources(kind).items()}
    return {
        re.sub(r"^Missing|[0-9A-F]{8}$", "", name): resolve(resource["Properties"])
        for name, resource in found.items()
        if name.startswith("Missing")
    }


def watched(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics behind an alarm: its own, or those of its expression."""
    if "MetricName" in alarm:
        return [alarm]
    return [
        {**entry["MetricStat"], **entry["MetricStat"]["Metric"]} for entry in alarm["Metrics"] if "MetricStat" in entry
    ]


def test_watched_metrics_are_published(operations: Stage, audit: Stage) -> None:
    own = {f"Deliveries{outcome.capitalize()}" for outcome in OUTCOMES} | {LATENCY_METRIC, "AuditViolations"}
    for stage in (operations, audit):
        for alarm in alarms(stage).values():
            for metric in watched(alarm):
                published = PUBLISHED.get(metric["Namespace"], own)
                assert metric["MetricName"] in published, metric


def test_outcomes_are_those_of_the_delivery_log_and_the_handler() -> None:
    source = "".join(
        path.read_text(encoding="utf-8") for path in (*CONSUMER.glob("*.py"), CONSUMER.parent / "record.py")
    )
    own = set(re.findall(r'outcome(?:: str)? = "([a-z]+)"', source)) | {"duplicate"}
    assert own >= {"busy", "fenced", "quarantined", "failed"}
    assert set(OUTCOMES) == own | ANSWERED
    handler = HANDLER.read_text(encoding="utf-8")
    assert 'f"Deliveries{outcome.capitalize()}"' in handler
    assert f'"{LATENCY_METRIC}"' in handler


def test_outputs_that_are_read_exist(stage: Stage, fifo: Stage) -> None:
    for made in (stage, fifo):
        text = Stage(made.settings, made.folder, "-operations").template_text
        read = set(re.findall(r'"OutputName": "(\w+)"', text))
        assert {"DeadLetterQueueName", "QueueName"} <= {name.removeprefix("Fifo") for name in read}
        assert read <= set(made.template["Outputs"])


@pytest.mark.parametrize(
    ("visible", "inflight", "deleted", "stalled"),
    [
        (5, 0, 0, True),
        (0, 3, 0, True),
        (5, 5, 1, False),
        (0, 0, 0, False),
        (0, 0, 9, False),
        # SQS reports what is in flight, and what was deleted, only where there is some.
        (5, None, 0, True),
        (5, 0, None, True),
        (5, None, None, True),
        (0, None, None, False),
    ],
)
def test_stalled_expression_counts_held_and_finished(
    operations: Stage, visible: int, inflight: int | None, deleted: int | None, stalled: bool
) -> None:
    series = {"visible": visible, "inflight": inflight, "deleted": deleted}
    never = frozenset(name for name, value in series.items() if value is None)
    for unreported in (frozenset[str](), never):  # in this minute, and in the whole period
        value = at_one_moment(standstill(operations), series, unreported)
        assert value is not None
        assert (value > alarms(operations)["stalled"]["Threshold"]) == stalled


@pytest.mark.parametrize("deleted", [None, 0, 7])
def test_stalled_expression_has_no_value_without_reports(operations: Stage, deleted: int | None) -> None:
    """The newest minute often has no report yet. A filled 0 there would keep the alarm silent for ever (FILL, in
    CloudWatch's user guide). For a minute without a value the alarm looks at an earlier one.
    """
    figures = {"visible": None, "inflight": None, "deleted": deleted}
    assert at_one_moment(standstill(operations), figures) is None


def standstill(stage: Stage) -> str:
    """The alarm's expression."""
    (expression,) = [entry["Expression"] for entry in alarms(stage)["stalled"]["Metrics"] if "Expression" in entry]
    return str(expression)


def test_missing_alarm_waits_for_the_longest_night(audit: Stage) -> None:
    machine = json.loads(DEFINITION.read_text(encoding="utf-8"))
    missing = missing_audit(audit)["Overdue"]
    (metric,) = watched(missing)
    assert metric["Period"] == 3600
    assert (
        missing["EvaluationPeriods"] * 3600 == missing["DatapointsToAlarm"] * 3600 == 86_400 + machine["TimeoutSeconds"]
    )
    assert f"for {missing['EvaluationPeriods']} hours" in missing["AlarmDescription"]


def test_alarm_window_is_within_cloudwatchs_limits(operations: Stage, audit: Stage) -> None:
    """PutMetricAlarm allows a day, or a week with periods of an hour or more."""
    for stage in (operations, audit):
        for alarm in alarms(stage).values():
            (period,) = {metric["Period"] for metric in watched(alarm)}
            assert period * alarm["EvaluationPeriods"] <= (86_400 if period < 3600 else 7 * 86_400)


def dashboard_text(stage: Stage) -> str:
    """The dashboard's body."""
    return cast("str", resolve(stage.properties("AWS::CloudWatch::Dashboard")["DashboardBody"]))


def test_dashboard_shows_every_alarm_and_outcome(operations: Stage, with_audit: Stage) -> None:
    text = dashboard_text(operations)
    widgets = json.loads(text)["widgets"]
    assert len(widgets[0]["properties"]["alarms"]) == len(alarms(operations))
    assert all(widget["x"] + widget["width"] <= 24 for widget in widgets)
    assert [outcome for outcome in OUTCOMES if f"Deliveries{outcome.capitalize()}" not in text] == []
    shown = ["AuditViolations" in each for each in (text, dashboard_text(replace(with_audit, part="-operations")))]
    assert shown == [False, True]


def test_own_metrics_have_fixed_dimensions(operations: Stage) -> None:
    """CloudWatch charges for each metric: a dimension with many values would cost more with traffic."""
    text = dashboard_text(operations) + json.dumps(alarms(operations))
    for dimensions in re.findall(r'"Oneslot/\w+","\w+",((?:"[^"]*",)*)', text):
        assert dimensions in ("", '"service","appointments",')
