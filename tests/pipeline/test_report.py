"""The report, opened in a real browser: its plots draw, its numbers are the tables', and nothing is fetched."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.corruptions import CORRUPTIONS, Field
from tests.pipeline.histories import System, write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.browser]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Numbers(HTMLParser):
    """Collects the elements' data attributes, and counts drawn plots."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, float] = {}
        self.drawn: set[str] = set()
        self._plot = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element says."""
        given = dict(attrs)
        if "plot" in (given.get("class") or "").split():
            self._plot = given.get("id") or ""
        if tag == "path" and self._plot and re.search(r"\bM.*[LHVA]", given.get("d") or ""):
            self.drawn.add(self._plot)
        for name in ("data-verdict", "data-invariant", "data-percentile"):
            if name in given:
                self.values[str(given[name])] = float(given["data-value"] or "nan")


@pytest.fixture(scope="module")
def audit_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with something of everything."""
    from pipeline.job import AuditSettings, audit

    folder = tmp_path_factory.mktemp("report")
    world = System(21, practices=8, slots_per_practice=26).run(420)
    spoil = Field(world, random.Random(21))
    for corruption in CORRUPTIONS:
        corruption(spoil)
    write_history(world, folder / "history")
    audit(spark, AuditSettings(str(folder / "history"), str(folder / "audit"), partitions=2))
    return folder / "audit"


def opened(page: Path, tmp_path: Path, *arguments: str) -> str:
    """The page's DOM after its scripts have run, without any network."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("There is no Chromium on PATH. `make browser` installs one, or says how.")
    command = [
        *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND", *arguments),
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout


def test_plots_draw_and_numbers_are_the_tables(spark: SparkSession, audit_folder: Path, tmp_path: Path) -> None:
    """In light and in dark, on a desk and on a phone."""
    document = json.loads((audit_folder / "audit.json").read_text())
    by_verdict = (
        spark.read.parquet(str(audit_folder / "verdicts")).where("verdict is not null").groupBy("verdict").count()
    )
    counted = {row.verdict: row["count"] for row in by_verdict.collect()}
    assert {name: count for name, count in document["verdicts"].items() if count} == counted
    page = Numbers()
    page.feed(opened(audit_folder / "report.html", tmp_path, "--dump-dom", "--window-size=390,840"))
    assert page.drawn == {"rush", "latency", "timelines"}
    shown = {name: count for name, count in page.values.items() if name in document["verdicts"]}
    assert shown == document["verdicts"]
    assert {name: page.values[name] for name in document["violations"]} == document["violations"]


def test_percentiles_are_those_of_the_latencies(spark: SparkSession, audit_folder: Path) -> None:
    """To the three digits that the table keeps."""
    from pipeline.report import percentiles

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
