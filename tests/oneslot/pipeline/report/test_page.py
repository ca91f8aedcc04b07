"""The report, opened in a real browser: its plots draw, its numbers are the tables', and nothing is fetched."""

from __future__ import annotations

import html
import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.pipeline.report.figures import LANE, lanes
from oneslot.pipeline.report.lives import CRASHED, Attempt, attempts_of
from tests.kits.browser import opened
from tests.kits.histories import System, write_history
from tests.oneslot.pipeline.corruptions import CORRUPTIONS, Field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.slow]


class Numbers(HTMLParser):
    """Collects the elements' data attributes, and counts drawn plots."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, float] = {}
        self.drawn: set[str] = set()
        self.cells: list[tuple[str, float]] = []
        self.said: dict[str, Any] = {}
        self._plot = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element says."""
        given = dict(attrs)
        if "plot" in (given.get("class") or "").split():
            self._plot = given.get("id") or ""
        if tag == "path" and self._plot and re.search(r"\bM.*[LHVA]", given.get("d") or ""):
            self.drawn.add(self._plot)
        if "data-said" in given:
            self.said = json.loads(html.unescape(given["data-said"] or "{}"))
        if "data-cell" in given:
            self.cells.append((given["data-cell"] or "", float(given["data-value"] or "nan")))
        for name in ("data-verdict", "data-invariant", "data-percentile", "data-figure"):
            if name in given:
                self.values[str(given[name])] = float(given["data-value"] or "nan")


@pytest.fixture(scope="module")
def audit_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with something of everything."""
    from oneslot.pipeline.job import audit
    from oneslot.pipeline.settings import AuditSettings

    folder = tmp_path_factory.mktemp("report")
    world = System(21, practices=8, slots_per_practice=26).run(420)
    spoil = Field(world, random.Random(21))
    for corruption in CORRUPTIONS:
        corruption(spoil)
    write_history(world, folder / "history")
    audit(spark, AuditSettings(str(folder / "history"), str(folder / "audit"), partitions=2))
    return folder / "audit"


def table_rows(spark: SparkSession, audit: Path, name: str) -> list[dict[str, Any]]:
    """An operations table."""
    return [row.asDict() for row in spark.read.parquet(str(audit / "operations" / name)).collect()]


def figures_of(audit: Path) -> dict[str, Any]:
    """The plots' data as they stand in the page."""
    found = re.search(r"^const figures = (.*);$", (audit / "report.html").read_text(), re.MULTILINE)
    assert found is not None
    figures: dict[str, Any] = json.loads(found[1])
    return figures


def test_plots_draw_and_numbers_are_the_tables(spark: SparkSession, audit_folder: Path, tmp_path: Path) -> None:
    """Every table of the page, the figures' sums, and the plots in the page as the browser made it."""
    document = json.loads((audit_folder / "audit.json").read_text())
    by_verdict = (
        spark.read.parquet(str(audit_folder / "verdicts")).where("verdict is not null").groupBy("verdict").count()
    )
    counted = {row.verdict: row["count"] for row in by_verdict.collect()}
    assert {name: count for name, count in document["verdicts"].items() if count} == counted
    page = Numbers()
    page.feed(opened(audit_folder / "report.html", tmp_path, "--dump-dom"))
    assert page.drawn == {"rush", "latency", "timelines"}
    shown = {name: count for name, count in page.values.items() if name in document["verdicts"]}
    assert shown == document["verdicts"]
    assert {name: page.values[name] for name in document["violations"]} == document["violations"]
    days, practices = (table_rows(spark, audit_folder, name) for name in ("days", "practices"))
    cells = {
        name: sorted(value for cell, value in page.cells if cell == name)
        for name in ("COUNT_OF_TAKEOVERS", "UTILISATION", "WAITLIST", "LATENCY_P99_MS")
    }
    assert cells["COUNT_OF_TAKEOVERS"] == sorted(row["COUNT_OF_TAKEOVERS"] for row in days)
    assert cells["LATENCY_P99_MS"] == sorted(row["LATENCY_P99_MS"] for row in days)
    assert cells["WAITLIST"] == sorted(row["WAITLIST"] for row in practices)
    assert cells["UTILISATION"] == sorted(row["UTILISATION"] for row in practices)
    assert page.values["requests"] == document["requests"]
    assert page.values["did not fit"] == sum(row["COUNT_OF_DID_NOT_FIT"] for row in days)
    figures = figures_of(audit_folder)
    rush = {trace["name"]: sum(trace["y"]) for trace in figures["rush"]["data"]}
    assert rush["Requests"] == sum(row["COUNT_OF_REQUESTS"] for row in days)
    assert rush["Deliveries"] == document["sums"]["deliveries"]
    assert rush["Duplicates"] == document["sums"]["deliveries_duplicate"]
    latency = table_rows(spark, audit_folder, "latency")
    assert sum(figures["latency"]["data"][0]["y"]) == sum(row["COUNT_OF_REQUESTS"] for row in latency)


ON_A_PHONE = """
<script>
const rows = () => [...document.querySelectorAll('#practices tbody tr')].map(row => Number(row.cells[1].dataset.value));
const head = document.querySelectorAll('#practices th button')[1], orders = [];
for (let click = 0; click < 2; click++) { head.click(); orders.push(rows()); }
const wide = document.documentElement.scrollWidth, ground = getComputedStyle(document.body).backgroundColor;
const lines = [...document.querySelectorAll('.plot .scatterlayer path.js-line')].map(line => getComputedStyle(line).stroke);
parent.postMessage({orders, wide, ground, lines}, '*');
</script>
"""
PHONE = """<!doctype html><iframe src="page.html" style="width:390px;height:840px;border:0"></iframe>
<script>addEventListener('message', event => { document.body.dataset.said = JSON.stringify(event.data); });</script>"""


def test_on_a_phone_in_the_dark(audit_folder: Path, tmp_path: Path) -> None:
    """Nothing is wider than the screen, the plots have the dark mode's colours, and a click on a column's name sorts."""
    report = (audit_folder / "report.html").read_text()
    (tmp_path / "page.html").write_text(report.replace("</body>", ON_A_PHONE + "</body>"))
    (tmp_path / "phone.html").write_text(PHONE)
    page = Numbers()
    page.feed(opened(tmp_path / "phone.html", tmp_path, "--dump-dom", "--blink-settings=preferredColorScheme=0"))
    assert page.said["wide"] <= 390
    assert page.said["ground"] == "rgb(17, 21, 27)"  # --page, dark
    assert "rgb(110, 163, 255)" in page.said["lines"]  # --requests, dark
    down, up = page.said["orders"]
    assert len(set(down)) > 1
    assert down == sorted(down, reverse=True)
    assert up == sorted(down)


def test_the_days_and_practices_are_made_of_the_other_tables(spark: SparkSession, audit_folder: Path) -> None:
    """Rates are those of the counts; percentiles are those of the latencies of the day."""
    demand, latency = (table_rows(spark, audit_folder, name) for name in ("demand", "latency"))
    for day in table_rows(spark, audit_folder, "days"):
        mine = [row for row in demand if str(row["DATE"]) == day["DATE"]]
        for name in ("COUNT_OF_REQUESTS", "COUNT_OF_DUPLICATES", "COUNT_OF_DID_NOT_FIT", "WAITLIST"):
            assert day[name] == sum(row[name] for row in mine)
        assert day["DUPLICATE_RATE"] == day["COUNT_OF_DUPLICATES"] / day["COUNT_OF_DELIVERIES"]
        times = [
            row["LATENCY_MS"] for row in latency if row["DATE"] == day["DATE"] for _ in range(row["COUNT_OF_REQUESTS"])
        ]
        times.sort()
        for name, hundredths in (("P50", 50), ("P90", 90), ("P99", 99)):
            assert day[f"LATENCY_{name}_MS"] == times[-(-len(times) * hundredths // 100) - 1]
    practices = {row["GP_CODE"]: row for row in table_rows(spark, audit_folder, "practices")}
    slots = table_rows(spark, audit_folder, "utilisation")
    assert set(practices) == {row["GP_CODE"] for row in slots}
    for code, practice in practices.items():
        busy = sum(row["COUNT_OF_BUSY_SLOTS"] for row in slots if row["GP_CODE"] == code)
        assert practice["UTILISATION"] == busy / sum(row["COUNT_OF_SLOTS"] for row in slots if row["GP_CODE"] == code)
        assert practice["COUNT_OF_REQUESTS"] == sum(
            row["COUNT_OF_REQUESTS"] for row in demand if row["GP_CODE"] == code
        )


def line(outcome: str, finished: int, claim: int | None = None, claimed_by: str | None = None) -> Any:
    """A line of the delivery log, as Spark hands it over."""
    given = {"sent": 1_000, "attempt_ms": 10, "receive_count": 1}
    return SimpleNamespace(outcome=outcome, finished=finished, consumption_count=claim, claimed_by=claimed_by, **given)


def test_a_life_shows_the_claim_that_left_no_line() -> None:
    """Two claims are counted and one line tells of them: the first crashed before the second took over."""
    lines = [line("busy", 1_500), line("booked", 4_000, 2, "b"), line("duplicate", 5_000, 2, "b")]
    told = [(attempt.outcome, attempt.begin_ms, attempt.end_ms, attempt.step) for attempt in attempts_of(lines, 2)]
    assert told == [
        ("busy", 490, 500, "busy"),
        (CRASHED, 500, 2_990, "claim 1 crashed"),
        ("booked", 2_990, 3_000, "claim 2 took over: booked"),
        ("duplicate", 3_990, 4_000, "duplicate"),
    ]


def test_a_life_without_a_crash_invents_none() -> None:
    """A fenced loser told of itself; a failed attempt gave its claim back; a duplicate found a finished claim."""
    fenced = [line("booked", 2_000, 2, "b"), line("fenced", 2_500, 1, "a")]
    failed = [line("failed", 1_500), line("booked", 2_000, 2, "b")]
    found = [line("duplicate", 1_500, 1, "a"), line("duplicate", 2_500, 1, "a")]
    for lines, claims in ((fenced, 2), (failed, 2), (found, 1)):
        assert CRASHED not in {attempt.outcome for attempt in attempts_of(lines, claims)}
    assert attempts_of([], 3) == ()


def test_a_clock_that_is_behind_the_queues_puts_no_crash_after_the_booking() -> None:
    """The consumer's host said 0.5 s where SQS had said 1: an attempt ends after its begin, and before what followed it."""
    lines = [line("busy", 500), line("booked", 900, 2, "b")]
    attempts = attempts_of(lines, 2)
    assert [(attempt.outcome, attempt.begin_ms, attempt.end_ms) for attempt in attempts] == [
        ("busy", 0, 10),
        (CRASHED, 10, 400),
        ("booked", 400, 410),
    ]


def test_marks_in_one_place_are_drawn_beside_each_other() -> None:
    """Two that end at once get lanes of their own; a later one is back on the line."""
    attempts = [
        Attempt("booked", 0, 100, "", ""),
        Attempt("busy", 0, 101, "", ""),
        Attempt("duplicate", 0, 900, "", ""),
    ]
    assert lanes(attempts) == [0.0, LANE, 0.0]


def test_percentiles_are_those_of_the_latencies(spark: SparkSession, audit_folder: Path) -> None:
    """To the three digits that the table keeps."""
    from oneslot.pipeline.report.data import percentiles

    rows = spark.read.parquet(str(audit_folder / "verdicts")).where("subject = 'request' and first_done is not null")
    exact = sorted(row[0] for row in rows.selectExpr("greatest(first_done - delivery_sent, 0)").collect())
    table = (
        spark.read.parquet(str(audit_folder / "operations" / "latency")).groupBy("LATENCY_MS").sum("COUNT_OF_REQUESTS")
    )
    found = dict(percentiles(sorted((row[0], row[1]) for row in table.collect())))
    assert found["50 %"] == pytest.approx(exact[(len(exact) + 1) // 2 - 1], rel=0.01)
    assert found["99.9 %"] == pytest.approx(exact[-1], rel=0.01)
    assert percentiles([]) == []


def test_the_page_needs_no_network_and_holds_nothing_personal(audit_folder: Path) -> None:
    """Every script and style is inside; no NHS number of the history is."""
    page = (audit_folder / "report.html").read_text()
    own = page[: page.index("<script>")] + page[page.rindex("<script>") :]
    assert not re.search(r"""(src|href)\s*=\s*["']""", own)
    assert "http" not in own.replace("<!doctype html>", "")
    assert "9990000018" not in page


def test_a_message_that_was_sent_in_a_loop_has_the_begin_of_its_life_drawn(spark: SparkSession, tmp_path: Path) -> None:
    """So many marks hide each other, and comparing each with each took hours; so did claims of a count that was spoilt."""
    from oneslot.pipeline.job import audit
    from oneslot.pipeline.settings import AuditSettings

    world = System(24, practices=1, slots_per_practice=10).run(20)
    copied = next(line for line in world.deliveries if line["answer"])
    copies = [{**copied, "outcome": "duplicate", "sqs_message_id": f"{number:05d}"} for number in range(3_000)]
    world.deliveries += copies
    other = next(line for line in world.deliveries if line["answer"] and line["message_id"] != copied["message_id"])
    world.ledger[other["message_id"]]["consumption_count"] = 1_000_000_000
    write_history(world, tmp_path / "history")
    audit(spark, AuditSettings(str(tmp_path / "history"), str(tmp_path / "audit"), partitions=2))
    marks = [trace for trace in figures_of(tmp_path / "audit")["timelines"]["data"] if trace["mode"] == "markers"]
    drawn = {trace["name"]: len(trace["x"]) for trace in marks}
    assert drawn["duplicate"] >= 199
    assert sum(drawn.values()) < 500
    assert drawn[CRASHED] >= 199
