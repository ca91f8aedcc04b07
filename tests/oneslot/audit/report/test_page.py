"""The report: its headline and next steps; in a real browser its plots, its numbers, and unusual names on a small phone."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from demo.declared import CONSUMER
from oneslot.audit.conclusion import sentence
from oneslot.audit.model import model_of
from oneslot.audit.report.data import ReportData
from oneslot.audit.report.lives import CRASHED, Life, LifeAttempt
from oneslot.audit.report.page import headline, next_steps, open_templates, render
from oneslot.wording import visible
from tests.kits.browser import opened
from tests.kits.histories import System, write_history
from tests.oneslot.audit.corruptions import corrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = model_of(CONSUMER)


def in_browser(test: Callable[..., None]) -> Any:
    """Mark a test that opens pages."""
    return pytest.mark.slow(pytest.mark.browser(test))


def of_audit(test: Callable[..., None]) -> Any:
    """Mark a test that opens the page of an audit."""
    return pytest.mark.spark(in_browser(test))


def audited(*, sound: bool = False, rejects: bool = False, **counts: int) -> dict[str, Any]:
    """The part of an audit's document that the two read; `counts` are verdicts and invariants by name."""
    verdicts = {name: counts.get(name, 0) for name in ("lost", "stuck", "duplicate_effect")}
    violations = {name: counts.get(name, 0) for name in ("I1", "I2", "I3", "I7")}
    return {"sound": sound, "verdicts": verdicts, "violations": violations, "rejects": {"above_limit": rejects}}


@pytest.mark.parametrize(
    ("document", "said", "first"),
    [
        (audited(sound=True), "0 lost, 0 booked twice", "The runbook: "),
        (audited(lost=2, I2=2), "2 lost, 0 booked twice", "Lost or stuck: "),
        (audited(duplicate_effect=1, I1=1, I3=1), "0 lost, 2 booked twice", "Booked twice: "),
        (audited(lost=1, I3=1), "1 lost, 1 booked twice", "Booked twice: "),
        (audited(stuck=3), "0 lost, 0 booked twice, 3 stuck", "Lost or stuck: "),
        (audited(I7=1), "0 lost, 0 booked twice, not sound", "Broken invariants: I7."),
        (audited(rejects=True), "0 lost, 0 booked twice, not sound", "Unreadable lines: "),
    ],
)
def test_headline_and_most_urgent_step_name_what_is_broken(document: dict[str, Any], said: str, first: str) -> None:
    assert ", ".join(headline(document, MODEL.words)) == said
    assert next_steps(document, MODEL.words)[0].startswith(first)


def test_report_shows_controls_when_text_is_foreign() -> None:
    page = open_templates().from_string('<td title="{{ text }}">{{ text }}</td>')
    shown = r"a\x1b[31m\u202e&lt;b&gt;"
    assert page.render(text="a\x1b[31m\u202e<b>") == f'<td title="{shown}">{shown}</td>'


HOSTILE = ("</script><img src=x>", "a<b>bold</b>&amp;", "x" * 128, "\u200f\u05e9\u05dc\u05d5\u05dd")
TEN_MILLION = 12_345_678


def document(requests: int, **broken: int) -> dict[str, Any]:
    """Return the `audit.json` of an audit of this many requests, each booked and delivered twice."""
    made: dict[str, Any] = {
        "sound": not broken,
        "requests": requests,
        "verdicts": dict.fromkeys(MODEL.verdicts, 0) | {"booked": requests},
        "violations": dict.fromkeys(MODEL.sentences, 0) | broken,
        "sums": {"deliveries": 2 * requests, "deliveries_duplicate": requests},
        "slots": TEN_MILLION,
        "rejects": {"lines": 0, "above_limit": False, "limit_share": 0.001},
        "sources": ["ledger", "slots", "appointments"],
        "notes": [f"Attributes that the audit does not know: {', '.join(HOSTILE)}."],
    }
    return {**made, "sentence": sentence(made)}


def page(said: dict[str, Any], names: tuple[str, ...] = HOSTILE) -> str:
    """Return a report with every section, and with these names."""
    attempts = (
        LifeAttempt("booked", 490, 500, "booked", "booked"),
        LifeAttempt("duplicate", 990, 1_000, "again", "duplicate"),
    )
    day = {"DATE": "2026-11-23", "DUPLICATE_RATE": 0.5}
    counts = ("REQUESTS", "DELIVERIES", "DUPLICATES", "TAKEOVERS", "DID_NOT_FIT", "SLOTS")
    numbers = {f"COUNT_OF_{name}": TEN_MILLION for name in counts} | {"BOOKED": 1, "WAITLIST": 1, "UTILISATION": 0.5}
    times = {f"LATENCY_P{part}_MS": 500 for part in (50, 90, 99)}
    return render(
        ReportData(
            document=said,
            title_time="23 November 2026, 16:00:00 UTC",
            invariants=tuple((name, MODEL.sentences[name], count) for name, count in said["violations"].items()),
            rush=tuple((f"2026-11-23 08:00:0{second}", 2, 1, 1) for second in range(3)),
            rush_step="1 second",
            rush_scope="",
            drain=tuple((f"2026-11-23 08:00:0{second}", TEN_MILLION, TEN_MILLION, second) for second in range(3)),
            run=dict.fromkeys(("Run", "Tables", "Settings"), " ".join(names)),
            latency=[(500, TEN_MILLION)],
            lives=tuple(Life(name, f"1. {name[:20]}", "booked", 1, 2, attempts) for name in names),
            days=({**day, **numbers, **times},),
            model=MODEL,
            listed=tuple({"GP_CODE": name[:8], **day, **numbers} for name in names),
            findings=tuple(
                {"invariant": law, "subject": "request", "id": name, "verdict": "lost", "detail": name}
                for name in names
                for law, count in said["violations"].items()
                if count
            ),
        )
    )


def test_report_names_the_broken_first() -> None:
    """In its first band by their ids, and in the tables above what is sound. One word says that an effect happened twice."""
    said = document(10, I3=1)
    said["verdicts"] |= {"booked": 9, "duplicate_effect": 1}
    text = page(said, ("m-twice",))
    band = text[text.index('id="answer"') : text.index('class="figures"')]
    assert "<code>m-twice</code> I3" in band
    assert text.index("<td>booked twice<small>") < text.index("<td>booked<small>")
    assert text.index("<td>I3</td>") < text.index("<td>I1</td>")
    assert "duplicate effect" not in text


def test_report_of_no_requests_praises_none() -> None:
    """Only free slots, before the first message."""
    said = document(0)
    assert said["sentence"].startswith("The history contains no request")
    assert "Every one" not in page(said)


PROBE = """
<script>
const all = question => [...document.querySelectorAll(question)];
parent.postMessage({
  wide: document.documentElement.scrollWidth,
  cut: [...all('table').filter(table => table.scrollWidth > table.parentElement.clientWidth),
        ...all('.figure b').filter(figure => figure.scrollWidth > figure.clientWidth)].map(element => element.textContent),
  collisions: all('.canvas').flatMap(canvas => ['.x', '.y'].flatMap(axis => {
    const boxes = [...canvas.querySelectorAll(axis)].map(label => label.getBoundingClientRect());
    return boxes.flatMap((a, at) => boxes.slice(at + 1).filter(b =>
      a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(() => canvas.parentElement.id));
  })),
  labels: all('#timelines .y').map(label => label.textContent),
  strangers: all('main img, main b b').length,
  order: all('h2').map(head => head.textContent),
  drawn: all('.plot path.line').length > 0,
  unnamed: all('.plot, .wide').filter(element => !element.getAttribute('aria-label') || !element.getAttribute('role')).length,
  unreachable: all('.wide').filter(element => element.tabIndex !== 0).length,
}, '*');
</script>
"""
FRAME = """<!doctype html><iframe src="page.html" style="width:{width}px;height:640px;border:0"></iframe>
<script>addEventListener('message', event => {{ document.body.dataset.said = JSON.stringify(event.data); }});</script>"""


def shown(text: str, folder: Path, width: int, probe: str = PROBE, *options: str) -> dict[str, Any]:
    """Return what a probe measures of the page on a screen of this many pixels."""
    (folder / "page.html").write_text(text.replace("</body>", probe + "</body>"))
    (folder / "phone.html").write_text(FRAME.format(width=width))
    dom = opened(folder / "phone.html", folder, "--dump-dom", *options)
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found is not None
    said: dict[str, Any] = json.loads(html.unescape(found[1]))
    return said


@in_browser
@pytest.mark.parametrize("width", [360, 390, 820, 1280])
def test_report_is_readable_on_a_screen_of_any_width_with_hostile_names(tmp_path: Path, width: int) -> None:
    """Nothing is wider than the screen, no labels collide, and names are shown as text, with their controls visible.

    The operator on call finds the findings before the plots. A screen reader names each plot, and arrow keys scroll a table.
    """
    said = shown(page(document(TEN_MILLION, I2=4)), tmp_path, width)
    assert said["wide"] <= width
    assert said["cut"] == []
    assert said["collisions"] == [] or width < 390  # on the smallest, ticks may touch
    assert [label[3:] for label in said["labels"]] == [visible(name[:20]) for name in HOSTILE]
    assert (said["strangers"], said["drawn"]) == (0, True)
    assert said["order"].index("Findings") == said["order"].index("Invariants") + 1 < said["order"].index("The rush")
    assert (said["unnamed"], said["unreachable"]) == (0, 0)


class Numbers(HTMLParser):
    """Collects data attributes of elements and the plots that were drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, float] = {}
        self.drawn: set[str] = set()
        self.cells: list[tuple[str, float]] = []
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
    world, _ = corrupted(21)
    write_history(world, folder / "history")
    audit(spark, AuditSettings(str(folder / "history"), str(folder / "audit")))
    return folder / "audit"


def table_rows(spark: SparkSession, audit: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of an operations table."""
    return [row.asDict() for row in spark.read.parquet(str(audit / "operations" / name)).collect()]


@of_audit
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


@of_audit
def test_report_fits_a_phone_in_dark_mode(audit_folder: Path, tmp_path: Path) -> None:
    """A click on a column's name sorts the table."""
    report = (audit_folder / "report.html").read_text()
    said = shown(report, tmp_path, 390, ON_A_PHONE, "--blink-settings=preferredColorScheme=0")
    assert said["wide"] <= 390
    assert said["ground"] == "rgb(17, 21, 27)"  # --page, dark
    assert "rgb(110, 163, 255)" in said["lines"]  # --requests, dark
    down, up = said["orders"]
    assert len(set(down)) > 1
    assert down == sorted(down, reverse=True)
    assert up == sorted(down)


@of_audit
def test_report_needs_no_network_and_names_no_patient(audit_folder: Path) -> None:
    """Every script and style is inside the file, which is smaller than a photograph."""
    page = (audit_folder / "report.html").read_text()
    assert len(page.encode()) < 300_000
    own = page[: page.index("<script>")] + page[page.rindex("<script>") :]
    assert not re.search(r"""(src|href)\s*=\s*["']""", own)
    assert "http" not in own.replace("<!doctype html>", "")
    assert "9990000018" not in page


@of_audit
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
