"""The cost page: its units, its sums, and the resources that its templates have."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.billed_time import CONTENDERS, FINISHED, NEW, measure
from lab.benchmarks.handlers import BATCH, book
from lab.benchmarks.standin import StandIn
from lab.peers.powertools import Handler
from stacks.settings import STAGES
from tests.kits.stacks import synthesise

TEXT = (Path(__file__).parents[3] / "docs" / "understand" / "cost.md").read_text(encoding="utf-8")
FIFO = "SQS FIFO, the effect without a ledger"


def table(below: str) -> list[list[str]]:
    """Return the cells of the first table below a text."""
    found = re.search(r"(?:^\|.*\n)+", TEXT.split(below)[1], re.MULTILINE)
    assert found is not None
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in found[0].splitlines())
    return [head, *rows]


BILLS = {NEW: table("New requests:")[1:], FINISHED: table("Duplicates of finished requests:")[1:]}


def numbers(row: list[str]) -> list[float]:
    return [float(cell.removesuffix(" M").replace(",", "")) for cell in row[1:]]


@pytest.mark.parametrize("row", [row for rows in BILLS.values() for row in rows], ids=lambda row: row[0])
def test_bill_is_the_sum_of_its_parts(row: list[str]) -> None:
    write, read, fair, ordered, invocation, second = (float(price) for _, price in table("the list prices")[1:])
    writes, reads, requests, invocations, seconds, dollars = numbers(row)
    sums = writes * write + reads * read + requests * (ordered if row[0] == FIFO else fair)
    assert dollars == pytest.approx(sums + invocations * invocation + seconds * second, abs=0.01)
    assert (requests, invocations) == (1 + 2 / BATCH, 1 / BATCH)


def effect_alone(standin: StandIn) -> Handler:
    """Return a handler without a ledger, for a FIFO queue whose five-minute deduplication it trusts."""
    client = standin.client()

    def handler(event: Mapping[str, Any], _: Any) -> Mapping[str, Any]:
        for record in event["Records"]:
            book(client, json.loads(record["body"]))
        return {"batchItemFailures": []}

    return handler


@pytest.mark.slow
@pytest.mark.parametrize("kind", BILLS)
def test_page_has_the_units_that_are_consumed(kind: str) -> None:
    compared = {**CONTENDERS, **({FIFO: effect_alone} if kind == NEW else {})}
    found = {one.handler: [one.write_units, one.read_units] for one in measure(compared, kind, 0, runs=2)}
    assert {row[0]: numbers(row)[:2] for row in BILLS[kind]} == found


STAGES_OF_THE_PAGE = {
    "dev": {"stage": "dev"},
    "prod": {"stage": "prod"},
    "prod, audit": {"stage": "prod", "audit": "true"},
    "prod, audit, keys": {"stage": "prod", "audit": "true", "customer_managed_keys": "true"},
}


def counts(resources: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of each kind of resource that the page counts."""
    of: dict[str, list[Any]] = {}
    for each in resources:
        of.setdefault(each["Type"].rpartition("::")[2], []).append(each["Properties"])
    alarms = [alarm.get("Metrics") or [{"MetricStat": {"Metric": alarm}}] for alarm in of["Alarm"]]
    watched = [part["MetricStat"]["Metric"] for parts in alarms for part in parts if "MetricStat" in part]
    filters = [change["MetricName"] for each in of.get("MetricFilter", ()) for change in each["MetricTransformations"]]
    own = {each["MetricName"] for each in watched if not each["Namespace"].startswith("AWS/")}
    graphed = re.findall(r'\["(Oneslot/[a-z]+)","(\w+)"', json.dumps(of["Dashboard"]).replace("\\", ""))
    return {
        "metrics of alarms": len(watched),
        "composite alarms": len(of.get("CompositeAlarm", ())),
        "dashboards": len(of["Dashboard"]),
        "custom metrics": len({*own, *filters, *(name for _, name in graphed)}),
        "keys": len(of.get("Key", ())),
        "Glue's workers, 10 minutes a night": sum(
            each["NumberOfWorkers"] for each in of.get("Job", ()) if "NumberOfWorkers" in each
        ),
    }


@pytest.mark.slow
def test_page_counts_the_resources_of_each_stage(tmp_path: Path) -> None:
    head, *rows, dollars = table("before its first message")
    assert head[1:] == list(STAGES_OF_THE_PAGE)
    for place, (name, context) in enumerate(STAGES_OF_THE_PAGE.items(), 1):
        synthesise(tmp_path / name, **context)
        templates = [json.loads(path.read_text()) for path in (tmp_path / name).glob("*.template.json")]
        found = counts([each for template in templates for each in template["Resources"].values()])
        cells = {row[0]: row[place].split(": ") for row in rows}
        assert {kind: int(count) for kind, (count, _) in cells.items()} == found
        assert float(dollars[place]) == pytest.approx(sum(float(cost) for _, cost in cells.values()))


def test_page_assumes_the_stacks_memory() -> None:
    assert {stage.lambda_memory_mb for stage in STAGES.values()} == {512}


def test_page_has_the_order_of_the_limits() -> None:
    """A booking writes each table with four units: `test_units.py` counts them."""
    batch = int(re.findall(r"with a batch of (\d+) ms:", TEXT)[0])
    rates = [int(number.replace(",", "")) for row in re.findall(r"^\| (\d[^|MG]*) \|", TEXT, re.MULTILINE)
             for number in row.split(", or ")]  # fmt: skip
    stages = [STAGES[stage].max_concurrency or 0 for stage in ("dev", "prod")]
    second = 10 * 1_000 / batch
    model = [*(batches * second for batches in stages), 4_000 / 4, 40_000 / 4, 1_000 * second, 1_250 * second]
    assert rates == [pytest.approx(rate, rel=0.01) for rate in model]
