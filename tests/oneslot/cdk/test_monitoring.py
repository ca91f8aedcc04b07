"""Alarms of the construct: a standstill is no failing message and no long job, and a canary sees its own failures alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from oneslot.cdk import Numbers, new_table
from oneslot.cdk.metrics import VERSION_FIELD
from oneslot.cdk.numbers import stalled_minutes
from oneslot.runtime.record import Delivery, print_line
from oneslot.runtime.sqs.queue import Deferral
from tests.oneslot.cdk.kit import Defined, define, new_stack

from aws_cdk import Duration  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip


@pytest.mark.parametrize(
    "numbers",
    [
        Numbers(),  # ten receives of 30 s
        Numbers(max_receive_count=40),
        Numbers(lambda_timeout_seconds=900),
        Numbers(visibility_multiplier=6),
        Numbers(longest_retry_delay_seconds=900),
        Numbers(longest_retry_delay_seconds=1),
        Numbers(longest_retry_delay_seconds=300, visibility_multiplier=4),
        Numbers(longest_lease_seconds=7_200),  # a worker's long job
    ],
)
def test_stalled_alarm_waits_for_a_failing_message_and_for_a_long_job(numbers: Numbers) -> None:
    deferral = Deferral(
        max_receive_count=numbers.max_receive_count, longest_retry_delay_seconds=numbers.longest_retry_delay_seconds
    )
    lasts = 0
    for receive in range(1, numbers.max_receive_count + 1):
        delay = deferral.after_failure(receive, jitter=1.0)
        returns = numbers.visibility_timeout_seconds
        # It fails at the end of its time, or its consumer is killed.
        lasts += returns if delay is None else max(returns, numbers.lambda_timeout_seconds + delay)
    minutes = stalled_minutes(numbers)
    # A minute counts if the queue held the message at its report: the first and the last one do in part.
    assert (minutes - 3) * 60 < max(lasts, numbers.longest_lease_seconds) < (minutes - 1) * 60


def stalled_alarm(defined: Defined) -> dict[str, Any]:
    """Add the alarms; return the one on a standstill."""
    defined.consumer.add_alarms()
    found = defined.resources("AWS::CloudWatch::Alarm")
    return next(each for each in found if "not one was finished" in each["AlarmDescription"])


def test_stalled_alarm_says_so_when_cloudwatch_counts_too_few_minutes(tmp_path: Path) -> None:
    numbers = Numbers(lambda_timeout_seconds=900, visibility_multiplier=10, max_receive_count=19)
    defined = define(tmp_path, numbers=numbers)
    stalled = stalled_alarm(defined)
    assert stalled["EvaluationPeriods"] == 1_440
    assert "can be the cause: they take up to 2852 minutes." in stalled["AlarmDescription"]


def test_stalled_alarm_waits_for_the_receives_of_an_existing_queue(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    theirs = sqs.DeadLetterQueue(
        queue=sqs.Queue(shop, "Dead", retention_period=Duration.days(14)), max_receive_count=20
    )
    queue = sqs.Queue(shop, "Theirs", dead_letter_queue=theirs, visibility_timeout=Duration.seconds(301))
    defined = define(tmp_path, stack, existing_queue=queue)
    stalled = stalled_alarm(defined)
    assert stalled["EvaluationPeriods"] * 60 > 20 * 301


def test_alarm_watches_ten_metrics_at_most_however_many_tables_there_are(tmp_path: Path) -> None:
    _, shop = stack = new_stack(tmp_path)
    tables = {f"table_{number}": new_table(shop, f"T{number}", "id") for number in range(12)}
    defined = define(tmp_path, stack, tables=tables)
    defined.consumer.add_alarms()
    found = defined.resources("AWS::CloudWatch::Alarm")
    watched = [
        [part["MetricStat"]["Metric"]["Dimensions"][0]["Value"] for part in each["Metrics"] if "MetricStat" in part]
        for each in found
        if each["AlarmDescription"].endswith(("#table-throttles", "#transaction-conflicts"))
    ]
    assert sorted(map(len, watched)) == [3, 6, 10, 10, 10]
    assert len({name for names in watched for name in names}) == 13, "each table and the ledger"


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Defined:
    """A consumer that is deployed gradually."""
    return define(tmp_path_factory.mktemp("canary"), gradual_deployment=True)


def rollback_alarms(defined: Defined) -> dict[str, dict[str, Any]]:
    found = defined.resources("AWS::CloudWatch::Alarm")
    return {alarm["Metrics"][0]["MetricStat"]["Metric"]["MetricName"]: alarm for alarm in found}


def test_canary_counts_the_lines_that_a_version_prints(
    canary: Defined, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (counted,) = (
        each
        for each in canary.resources("AWS::Logs::MetricFilter")
        if each["MetricTransformations"][0]["MetricName"] == "DeliveriesFailedByVersion"
    )
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_VERSION", "7")
    print_line(Delivery("sqs-1", 1, 0, "request-1"))
    line = json.loads(capsys.readouterr().out)
    assert counted["FilterPattern"] == '{ ($.message = "delivery") && ($.outcome = "failed") }'
    assert (line["message"], line["outcome"], line[VERSION_FIELD]) == ("delivery", "failed", "7")
    (transformation,) = counted["MetricTransformations"]
    assert transformation["Dimensions"] == [{"Key": "version", "Value": f"$.{VERSION_FIELD}"}]
    (watched,) = rollback_alarms(canary)["DeliveriesFailedByVersion"]["Metrics"]
    assert watched["MetricStat"]["Metric"]["Namespace"] == transformation["MetricNamespace"]
    assert [each["Name"] for each in watched["MetricStat"]["Metric"]["Dimensions"]] == ["version"]
