"""Alarms and dashboard: each watches an existing metric of a deployed resource."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from appointments.outcomes import ANSWERED
from oneslot.cdk.monitoring.metrics import PAUSED, PAUSED_NAMESPACE
from oneslot.cdk.numbers import stalled_minutes
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
        (name,) = re.findall(r"docs/do/runbooks\.md#([a-z-]+)", properties["AlarmDescription"])
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


def test_alarms_of_the_audit_are_these(audit: Stage) -> None:
    assert set(alarms(audit)) == {"invariant-violated", "unarchived-deliveries", "undelivered-lines"}
    assert set(missing_audit(audit)) == {"Overdue", "Began", "Alarm"}


def test_watched_metrics_are_published(operations: Stage, audit: Stage) -> None:
    own = {f"Deliveries{outcome.capitalize()}" for outcome in OUTCOMES} | {LATENCY_METRIC, "AuditViolations"}
    for stage in (operations, audit):
        for alarm in alarms(stage).values():
            for metric in watched(alarm):
                published = PUBLISHED.get(metric["Namespace"], own)
                assert metric["MetricName"] in published, metric


def test_handler_emits_the_watched_metrics() -> None:
    source = HANDLER.read_text(encoding="utf-8")
    assert 'f"Deliveries{outcome.capitalize()}"' in source
    assert f'"{LATENCY_METRIC}"' in source


def test_outcomes_are_those_of_the_delivery_log() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in CONSUMER.glob("*.py"))
    own = set(re.findall(r'outcome(?:: str)? = "([a-z]+)"', source)) | {"duplicate"}
    assert own >= {"busy", "fenced", "quarantined", "failed"}
    assert set(OUTCOMES) == own | ANSWERED


def test_alarms_watch_the_deployed_stack(operations: Stage, stage: Stage) -> None:
    outputs = set(stage.template["Outputs"])
    read = set(re.findall(r'"OutputName": "(\w+)"', operations.template_text))
    assert read <= outputs
    assert read == {
        *("QueueName", "DeadLetterQueueName", "ConsumerFunctionName"),
        *("LedgerTableName", "SlotsTableName", "AppointmentsTableName"),
    }


def functions_around_outputs(value: Any, around: str = "") -> set[str]:
    """Return the functions that take another stack's output as an argument, in any part of a template."""
    if isinstance(value, list):
        return {found for entry in value for found in functions_around_outputs(entry, around)}
    if not isinstance(value, dict):
        return set()
    if "Fn::GetStackOutput" in value:
        return {around} - {""}
    return {
        found
        for name, entry in value.items()
        for found in functions_around_outputs(entry, name if name.startswith("Fn::") else "")
    }


def test_output_is_read_only_where_cloudformation_allows_it(operations: Stage, audit: Stage) -> None:
    """`Fn::Split` does not list `Fn::GetStackOutput` among its arguments: CloudFormation may refuse such a template."""
    for stage in (operations, audit):
        assert functions_around_outputs(stage.template) == {"Fn::Join"}


def test_own_metrics_are_in_the_functions_namespace(operations: Stage, stage: Stage) -> None:
    variables = stage.of_output("ConsumerFunctionName")["Environment"]["Variables"]
    (metric,) = watched(alarms(operations)["failed-deliveries"])
    assert metric["Namespace"] == variables["POWERTOOLS_METRICS_NAMESPACE"]
    assert metric["Dimensions"] == [{"Name": "service", "Value": variables["POWERTOOLS_SERVICE_NAME"]}]


def test_stalled_alarm_lasts_as_long_as_the_settings_say(operations: Stage) -> None:
    alarm, settings = alarms(operations)["stalled"], operations.settings
    assert alarm["EvaluationPeriods"] == alarm["DatapointsToAlarm"] == stalled_minutes(settings)
    assert f"for {stalled_minutes(settings)} minutes" in alarm["AlarmDescription"]


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


def test_missing_data_breaches_only_for_a_missing_audit(operations: Stage, audit: Stage) -> None:
    of_stage = {name: alarm["TreatMissingData"] for name, alarm in alarms(operations).items()}
    # SQS may stop reporting an untouched queue, although messages are in it.
    assert of_stage.pop("dead-letters") == "ignore"
    # `oneslot pause` and `resume` report once each.
    assert of_stage.pop("paused") == "ignore"
    assert set(of_stage.values()) == {"notBreaching"}
    silence = {name: alarm["TreatMissingData"] for name, alarm in alarms(audit).items()}
    # The verdict comes once a night, and holds until the next one.
    assert silence.pop("invariant-violated") == "ignore"
    archive = dict.fromkeys(("unarchived-deliveries", "undelivered-lines"), "notBreaching")
    assert silence == archive


def test_missing_audit_is_quiet_until_the_first_one_ended(audit: Stage) -> None:
    parts = missing_audit(audit)
    overdue, began = (name for name in audit.resources("AWS::CloudWatch::Alarm") if name.startswith("Missing"))
    if "Began" in overdue:
        overdue, began = began, overdue
    assert parts["Alarm"]["AlarmRule"] == f'(ALARM("<{overdue}.Arn>") AND OK("<{began}.Arn>"))'
    assert parts["Alarm"]["AlarmActions"] == parts["Alarm"]["OKActions"] != []
    assert not {"AlarmActions", "OKActions"} & {*parts["Overdue"], *parts["Began"]}
    # Without data `Began` stays INSUFFICIENT_DATA; any datapoint makes it OK, because no count is below 0.
    assert parts["Began"]["TreatMissingData"] == "ignore"
    assert (parts["Began"]["ComparisonOperator"], parts["Began"]["Threshold"]) == ("LessThanThreshold", 0)
    assert parts["Overdue"]["TreatMissingData"] == "breaching"


def test_dead_letter_age_alarm_rings_before_sqs_deletes(operations: Stage) -> None:
    alarm = alarms(operations)["dead-letter-age"]
    assert alarm["Threshold"] == 10 * 86_400 < operations.settings.dead_letter_retention_seconds
    assert "is 240 hours old" in alarm["AlarmDescription"]


def test_archive_alarm_rings_before_firehose_gives_lines_up(audit: Stage) -> None:
    """Firehose tries for 24 hours. No other check reports a night without the lines."""
    alarm = alarms(audit)["unarchived-deliveries"]
    (stream,) = audit.resources("AWS::KinesisFirehose::DeliveryStream")
    (age,) = watched(alarm)
    assert (age["MetricName"], age["Stat"]) == ("DeliveryToS3.DataFreshness", "Maximum")
    assert age["Dimensions"] == [{"Name": "DeliveryStreamName", "Value": f"<{stream}>"}]
    destination = audit.properties("AWS::KinesisFirehose::DeliveryStream")["ExtendedS3DestinationConfiguration"]
    collected = destination["BufferingHints"]["IntervalInSeconds"]
    assert collected * 2 <= alarm["Threshold"] <= 900  # the longest buffering of Firehose
    assert alarm["DatapointsToAlarm"] == alarm["EvaluationPeriods"]
    assert alarm["Threshold"] + age["Period"] * alarm["EvaluationPeriods"] <= 3600


def test_undelivered_alarm_rings_with_the_first_object(audit: Stage) -> None:
    """S3 counts every object in Firehose's error folder, whatever the error."""
    alarm = alarms(audit)["undelivered-lines"]
    (puts,) = watched(alarm)
    assert (puts["Namespace"], puts["MetricName"], puts["Stat"]) == ("AWS/S3", "PutRequests", "Sum")
    assert (alarm["Threshold"], alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (0, 1, 1)
    dimensions = {each["Name"]: each["Value"] for each in puts["Dimensions"]}
    destination = audit.properties("AWS::KinesisFirehose::DeliveryStream")["ExtendedS3DestinationConfiguration"]
    (bucket,) = re.findall(r"<([^>]+)>", json.dumps(resolve(destination["BucketARN"])))
    assert dimensions.pop("BucketName") == f"<{bucket.removesuffix('.Arn')}>"
    (counted,) = audit.resources("AWS::S3::Bucket")[bucket.removesuffix(".Arn")]["Properties"]["MetricsConfigurations"]
    assert dimensions == {"FilterId": counted["Id"]}
    assert destination["ErrorOutputPrefix"].startswith(counted["Prefix"])
    assert not destination["Prefix"].startswith(counted["Prefix"])


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


def test_thresholds_are_the_settings(operations: Stage) -> None:
    thresholds = {name: alarm["Threshold"] for name, alarm in alarms(operations).items()}
    settings = operations.settings
    assert thresholds == {
        "dead-letters": 0,
        "dead-letter-age": 10 * 86_400,
        "paused": 0,
        "stalled": 0,
        "oldest-message": settings.alarm_oldest_message_seconds,
        "function-errors": 3,
        "function-throttles": 10,
        "failed-deliveries": settings.alarm_failed_deliveries,
        "quarantined-deliveries": settings.alarm_quarantined_deliveries,
        "table-throttles": 20,
        "transaction-conflicts": settings.alarm_transaction_conflicts,
    }


QUEUE, FUNCTION, SERVICE = "<QueueName>", "<ConsumerFunctionName>", "appointments"
VISIBLE, HELD = "ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"
AGE = "ApproximateAgeOfOldestMessage"
# An alarm → its metrics by statistic, what they are of, the period in seconds, and the periods above the threshold.
# The count of sent messages would miss those that the redrive policy moved. Visible messages are always counted.
WATCHED = {
    "dead-letters": ({(VISIBLE, "Maximum")}, "<DeadLetterQueueName>", 60, 1),
    "dead-letter-age": ({(AGE, "Maximum")}, "<DeadLetterQueueName>", 60, 1),
    "paused": ({(PAUSED, "Minimum")}, FUNCTION, 60, 1),
    "oldest-message": ({(AGE, "Maximum")}, QUEUE, 60, 3),
    "stalled": ({(VISIBLE, "Maximum"), (HELD, "Maximum"), ("NumberOfMessagesDeleted", "Sum")}, QUEUE, 60, 17),
    "function-errors": ({("Errors", "Sum")}, FUNCTION, 300, 1),
    "function-throttles": ({("Throttles", "Sum")}, FUNCTION, 300, 1),
    "failed-deliveries": ({("DeliveriesFailed", "Sum")}, SERVICE, 300, 1),
    "quarantined-deliveries": ({("DeliveriesQuarantined", "Sum")}, SERVICE, 300, 1),
}


@pytest.mark.parametrize("name", sorted(WATCHED))
def test_alarm_watches_its_metrics(operations: Stage, name: str) -> None:
    alarm = alarms(operations)[name]
    metrics, source, seconds, periods = WATCHED[name]
    assert {(metric["MetricName"], metric["Stat"]) for metric in watched(alarm)} == metrics
    assert {each["Value"] for metric in watched(alarm) for each in metric["Dimensions"]} == {source}
    assert {metric["Period"] for metric in watched(alarm)} == {seconds}
    assert alarm["EvaluationPeriods"] == alarm["DatapointsToAlarm"] == periods
    assert alarm["ComparisonOperator"] == "GreaterThanThreshold"


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("table-throttles", ("ReadThrottleEvents", "WriteThrottleEvents")),
        ("transaction-conflicts", ("TransactionConflict",)),
    ],
)
def test_alarm_counts_every_table(operations: Stage, name: str, counted: tuple[str, ...]) -> None:
    alarm = alarms(operations)[name]
    assert {(metric["Stat"], metric["Period"]) for metric in watched(alarm)} == {("Sum", 300)}
    assert (alarm["EvaluationPeriods"], alarm["ComparisonOperator"]) == (1, "GreaterThanThreshold")
    (total, *terms) = alarm["Metrics"]
    assert sorted(total["Expression"].split(" + ")) == sorted(f"FILL({term['Id']}, 0)" for term in terms)
    tables = ("Ledger", "Slots", "Appointments")
    assert sorted(
        (term["MetricStat"]["Metric"]["MetricName"], term["MetricStat"]["Metric"]["Dimensions"][0]["Value"])
        for term in terms
    ) == sorted((metric, f"<{table}TableName>") for metric in counted for table in tables)


def test_refused_conditions_are_graphed_without_an_alarm(operations: Stage, audit: Stage) -> None:
    text = json.dumps([alarms(operations), alarms(audit)])
    assert "ConditionalCheckFailedRequests" not in text
    assert "ConditionalCheckFailedRequests" in dashboard_text(operations)


def dashboard_text(stage: Stage) -> str:
    """The dashboard's body."""
    return cast("str", resolve(stage.properties("AWS::CloudWatch::Dashboard")["DashboardBody"]))


def test_dashboard_answers_three_questions(operations: Stage) -> None:
    widgets = json.loads(dashboard_text(operations))["widgets"]
    assert widgets[0]["type"] == "alarm"
    assert len(widgets[0]["properties"]["alarms"]) == len(alarms(operations))
    questions = [widget["properties"]["markdown"] for widget in widgets if widget["type"] == "text"]
    assert questions == ["## Is it keeping up?", "## Is it right?", "## What is failing?"]
    for widget in widgets:
        if widget["type"] == "metric":
            assert widget["properties"]["metrics"]
            assert widget["x"] + widget["width"] <= 24
    for outcome in OUTCOMES:
        assert f"Deliveries{outcome.capitalize()}" in dashboard_text(operations)


def test_dashboard_shows_the_audit_when_it_is_on(stage: Stage, with_audit: Stage) -> None:
    assert "AuditViolations" not in dashboard_text(replace(stage, part="-operations"))
    assert "AuditViolations" in dashboard_text(replace(with_audit, part="-operations"))


def test_own_metrics_have_fixed_dimensions(operations: Stage) -> None:
    """CloudWatch charges for each metric: a dimension with many values would cost more with traffic."""
    text = dashboard_text(operations) + json.dumps(alarms(operations))
    for dimensions in re.findall(r'"Oneslot/\w+","\w+",((?:"[^"]*",)*)', text):
        assert dimensions in ("", '"service","appointments",')


def test_alarm_notifies_the_given_topic_at_start_and_end(keys: Stage) -> None:
    for alarm in alarms(replace(keys, part="-operations")).values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [keys.settings.alarm_topic_arn] != [""]


def test_alarms_have_no_action_without_a_topic(operations: Stage) -> None:
    assert [alarm for alarm in alarms(operations).values() if "AlarmActions" in alarm] == []


def test_audit_alarms_notify_the_audits_topic(audit: Stage) -> None:
    for alarm in alarms(audit).values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [f"<{audit.logical_id('AuditTopicArn')}>"]
