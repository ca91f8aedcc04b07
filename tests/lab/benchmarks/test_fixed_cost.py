"""The table of a stage's fixed cost is of the templates as they are."""

from __future__ import annotations

import pytest

from lab.benchmarks.fixed_cost import BEGIN, END, PAGE, costs, measured, table


def alarm(*namespaces: str) -> dict[str, object]:
    metrics = [{"MetricStat": {"Metric": {"Namespace": each, "MetricName": each[-1]}}} for each in namespaces]
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": metrics}}


def test_costs_count_each_metric_of_an_alarm() -> None:
    found = costs([alarm("AWS/SQS", "Own"), alarm("AWS/SQS"), {"Type": "AWS::KMS::Key", "Properties": {}}])

    assert found["metrics of alarms"] == pytest.approx((3, 0.3))
    assert found["custom metrics"] == pytest.approx((1, 0.3))
    assert found["keys"] == (1, 1.0)


def test_costs_count_a_graphed_metric_once() -> None:
    body = (
        '{"alarms":["","",""],"metrics":[["AWS/SQS","Sent","Queue","q"],'
        '["Own","Paused","Function","f"],["Own","Late","Stage","dev"]]}'
    )
    dashboard = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": body}}

    assert costs([dashboard, dashboard])["custom metrics"] == pytest.approx((2, 0.6))


def test_table_adds_the_dollars_of_each_stage() -> None:
    shown = table({"dev": costs([alarm("AWS/SQS")]), "prod": costs([])})

    assert shown.splitlines()[-1] == "| dollars | 0.10 | 0.00 |"


@pytest.mark.slow
def test_page_has_the_table_of_the_templates() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text.partition(BEGIN)[2].partition(END)[0].strip() == measured().strip(), (
        "run: python -m lab.benchmarks.fixed_cost --write"
    )
