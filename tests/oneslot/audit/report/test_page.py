"""The report in a real browser: its plots are drawn, its numbers are those of the tables, and nothing is fetched."""

from __future__ import annotations

import html
import json
import random
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.audit.report.lives import CRASHED
from tests.kits.browser import opened
from tests.kits.histories import System, write_history
from tests.oneslot.audit.corruptions import CORRUPTIONS, Picker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.browser]


class Numbers(HTMLParser):
    """Collects data attributes of elements and the plots that were drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, float] = {}
        self.drawn: set[str] = set()
        self.cells: list[tuple[str, float]] = []
        self.said: dict[str, Any] = {}
        self.lines: dict[tuple[str, str], int] = {}
        self.marks: Counter[str] = Counter()
        self._plot = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read one element."""
        given = dict(attrs)
        if "plot" in (given.get("class") or "").split():
            self._plot = given.get("id") or ""
        if "data-line" in given:
            self.drawn.add(self._plot)
            self.lines[self._plot, given["data-line"] or ""] = int(given["data-value"] or 0)
        if given.get("data-mark"):
            self.marks[str(given["data-mark"])] += 1
        if "data-said" in given:
            self.said = json.loads(html.unescape(given["data-said"] or "{}"))
        if "data-cell" in given:
            self.cells.append((given["data-cell"] or "", float(given["data-value"] or "nan")))
        for name in ("data-verdict", "data-invariant", "data-percentile", "data-figure"):
            if name in given:
                self.values[str(given[name])] = float(given["data-value"] or "nan")


@pytest.fixture(scope="module")
def audit_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with every kind of finding."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    folder = tmp_path_factory.mktemp("report")
    world = System(21, practices=8, slots_per_practice=26).run(420)
    pick = Picker(world, random.Random(21))
    for corruption in CORRUPTIONS:
        corruption(pick)
    write_history(world, folder / "history")
    audit(spark, AuditSettings(str(folder / "history"), str(folder / "audit")))
    return folder / "audit"


def table_rows(spark: SparkSession, audit: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of an operations table."""
    return [row.asDict() for row in spark.read.parquet(str(audit / "operations" / name)).collect()]


def test_report_shows_the_numbers_of_the_tables(spark: SparkSession, audit_folder: Path, tmp_path: Path) -> None:
    """Every table of the page, the sums of the figures, and the plots as the browser drew them."""
    document = json.loads((audit_folder / "audit.json").read_text())
    by_verdict = (
        spark.read.parquet(str(audit_folder / "verdicts")).where("verdict is not null").groupBy("verdict").count()
    )
    counted = {row.verdict: row["count"] for row in by_verdict.collect()}
    assert {name: count for name, count in document["verdicts"].items() if count} == counted
    page = Numbers()
    page.feed(opened(audit_folder / "report.html", tmp_path, "--dump-dom"))
    assert page.drawn == {"drain", "rush", "latency", "timelines"}
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
    assert page.lines["rush", "Requests"] == sum(row["COUNT_OF_REQUESTS"] for row in days)
    assert page.lines["rush", "Deliveries"] == document["sums"]["deliveries"]
    assert page.lines["rush", "Duplicates"] == document["sums"]["deliveries_duplicate"]
    latency = table_rows(spark, audit_folder, "latency")
    assert page.lines["latency", "Requests"] == sum(row["COUNT_OF_REQUESTS"] for row in latency)


ON_A_PHONE = """
<script>
const rows = () => [...document.querySelectorAll('#practices tbody tr')].map(row => Number(row.cells[1].dataset.value));
const head = document.querySelectorAll('#practices th button')[1], orders = [];
for (let click = 0; click < 2; click++) { head.click(); orders.push(rows()); }
const wide = document.documentElement.scrollWidth, ground = getComputedStyle(document.body).backgroundColor;
const lines = [...document.querySelectorAll('.plot path.line')].map(line => getComputedStyle(line).stroke);
parent.postMessage({orders, wide, ground, lines}, '*');
</script>
"""
PHONE = """<!doctype html><iframe src="page.html" style="width:390px;height:840px;border:0"></iframe>
<script>addEventListener('message', event => { document.body.dataset.said = JSON.stringify(event.data); });</script>"""


def test_report_fits_a_phone_in_dark_mode(audit_folder: Path, tmp_path: Path) -> None:
    """A click on a column's name sorts the table."""
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


def test_report_is_smaller_than_a_photograph(audit_folder: Path) -> None:
    assert (audit_folder / "report.html").stat().st_size < 300_000


def test_report_needs_no_network_and_names_no_patient(audit_folder: Path) -> None:
    """Every script and style is inside the file."""
    page = (audit_folder / "report.html").read_text()
    own = page[: page.index("<script>")] + page[page.rindex("<script>") :]
    assert not re.search(r"""(src|href)\s*=\s*["']""", own)
    assert "http" not in own.replace("<!doctype html>", "")
    assert "9990000018" not in page


def test_report_draws_the_first_attempts_of_a_long_life(spark: SparkSession, tmp_path: Path) -> None:
    """Comparing thousands of marks with each other took hours, as did a corrupted count of claims."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    world = System(24, practices=1, slots_per_practice=10).run(20)
    copied = next(line for line in world.deliveries if line["answer"])
    copies = [{**copied, "outcome": "duplicate", "sqs_message_id": f"{number:05d}"} for number in range(3_000)]
    world.deliveries += copies
    other = next(line for line in world.deliveries if line["answer"] and line["message_id"] != copied["message_id"])
    world.ledger[other["message_id"]]["consumption_count"] = 1_000_000_000
    write_history(world, tmp_path / "history")
    audit(spark, AuditSettings(str(tmp_path / "history"), str(tmp_path / "audit")))
    page = Numbers()
    page.feed((tmp_path / "audit" / "report.html").read_text())
    drawn = page.marks
    assert drawn["duplicate"] >= 199
    assert sum(drawn.values()) < 500
    assert drawn[CRASHED] >= 199
