"""The cost of a stage in a month before its first message, from its synthesised templates.

    python -m lab.benchmarks.fixed_cost            # print the table
    python -m lab.benchmarks.fixed_cost --write    # write it into docs/understand/cost.md

List prices of us-east-1, without a free tier, of the services' pricing pages in November 2026.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.benchmarks.batches import between
from lab.figures import tables
from stacks.application import build

PAGE = Path(__file__).resolve().parents[2] / "docs" / "understand" / "cost.md"
BEGIN, END = "<!-- table of lab.benchmarks.fixed_cost -->", "<!-- end of the table -->"
ALARM_METRIC, COMPOSITE_ALARM, DASHBOARD, CUSTOM_METRIC, KEY = 0.10, 0.50, 3.00, 0.30, 1.00
"""Dollars a month: each metric of an alarm, a composite alarm, a dashboard, a custom metric, a key."""
GLUE_HOUR = 0.44
"""Dollars for an hour of a worker G.1X."""
GLUE_MINUTES, NIGHTS = 10, 30
"""The assumed length of a night's Spark job."""
STAGES: Mapping[str, Mapping[str, str]] = {
    "dev": {"stage": "dev"},
    "prod": {"stage": "prod"},
    "prod, audit": {"stage": "prod", "audit": "true"},
    "prod, audit, keys, backup, budget": {
        **{"stage": "prod", "audit": "true", "customer_managed_keys": "true", "backup": "true"},
        **{"monthly_budget_dollars": "200", "budget_mail": "oncall@example.org"},
    },
}
Resources = Iterable[Mapping[str, Any]]


def costs(resources: Resources) -> dict[str, tuple[int, float]]:
    """Return the number and the dollars a month of each kind of resource."""
    found = list(resources)
    workers = sum(each["Properties"]["NumberOfWorkers"] for each in _of(found, "AWS::Glue::Job"))
    counts = {
        "metrics of alarms": (sum(map(_metrics_of, _of(found, "AWS::CloudWatch::Alarm"))), ALARM_METRIC),
        "composite alarms": (len(_of(found, "AWS::CloudWatch::CompositeAlarm")), COMPOSITE_ALARM),
        "dashboards": (len(_of(found, "AWS::CloudWatch::Dashboard")), DASHBOARD),
        "custom metrics": (len(set(_custom_metrics(found))), CUSTOM_METRIC),
        "keys": (len(_of(found, "AWS::KMS::Key")), KEY),
        f"Glue's workers, {GLUE_MINUTES} minutes a night": (workers, GLUE_HOUR * GLUE_MINUTES / 60 * NIGHTS),
        "budgets": (len(_of(found, "AWS::Budgets::Budget")), 0.0),
    }
    return {name: (count, count * price) for name, (count, price) in counts.items()}


def table(stages: Mapping[str, dict[str, tuple[int, float]]]) -> str:
    """Return the counts and dollars of each stage as a Markdown table."""
    names = next(iter(stages.values()))
    rows = [[name, *(f"{each[name][0]}: {each[name][1]:.2f}" for each in stages.values())] for name in names]
    dollars = ["dollars", *(f"{sum(cost for _, cost in each.values()):.2f}" for each in stages.values())]
    return tables.table(["a month", *stages], [*rows, dollars])


def resources_of(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of every template in a cloud assembly."""
    for path in sorted(folder.glob("*.template.json")):
        yield from json.loads(path.read_text(encoding="utf-8"))["Resources"].values()


def measured() -> str:
    """Synthesise each stage, and return the table."""
    stages = {}
    for name, context in STAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            build(outdir=folder, context=dict(context)).synth()
            stages[name] = costs(resources_of(Path(folder)))
    return table(stages)


def _of(resources: Resources, kind: str) -> list[Mapping[str, Any]]:
    return [each for each in resources if each["Type"] == kind]


def _metrics_of(alarm: Mapping[str, Any]) -> int:
    return sum("MetricStat" in each for each in alarm["Properties"].get("Metrics", ())) or 1


def _custom_metrics(resources: Resources) -> Iterator[str]:
    """Yield the metrics outside of AWS's own namespaces: of filters, of alarms and of graphs."""
    for each in _of(resources, "AWS::Logs::MetricFilter"):
        yield from (change["MetricName"] for change in each["Properties"]["MetricTransformations"])
    for each in _of(resources, "AWS::CloudWatch::Alarm"):
        properties = each["Properties"]
        metrics = [part["MetricStat"]["Metric"] for part in properties.get("Metrics", ()) if "MetricStat" in part]
        for metric in metrics or [properties]:
            if not metric["Namespace"].startswith("AWS/"):
                yield metric["MetricName"]
    for each in _of(resources, "AWS::CloudWatch::Dashboard"):
        body = each["Properties"]["DashboardBody"]
        text = body if isinstance(body, str) else "".join(part for part in body["Fn::Join"][1] if isinstance(part, str))
        yield from (name for space, name in _graphed(text) if not space.startswith("AWS/"))


def _graphed(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split('["')[1:]:
        names = part.split('"')
        # A widget's list of alarms has references, whose texts are empty here.
        if len(names) > 2 and names[0] and names[1] == "," and names[2] != "...":
            yield names[0], names[2]


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/understand/cost.md")
    made = measured()
    if parser.parse_args().write:
        PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), BEGIN, made, END), encoding="utf-8")
    print(made)


if __name__ == "__main__":
    main()
