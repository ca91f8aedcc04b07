"""The report for unusual histories, on a small phone, by keyboard and for a screen reader."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from demo.declared import CONSUMER
from oneslot.audit.conclusion import sentence
from oneslot.audit.model import model_of
from oneslot.audit.report.data import Drain, ReportData, Rush
from oneslot.audit.report.lives import Life, LifeAttempt
from oneslot.audit.report.page import render
from oneslot.wording import visible
from tests.kits.browser import opened

pytestmark = [pytest.mark.slow, pytest.mark.browser]

HOSTILE = ("</script><img src=x>", "a<b>bold</b>&amp;", "x" * 128, "\u200f\u05e9\u05dc\u05d5\u05dd")
TEN_MILLION = 12_345_678
MODEL = model_of(CONSUMER)


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


def page(said: dict[str, Any]) -> str:
    """Return a report with every section, in which every name is hostile."""
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
            rush=tuple(Rush(f"2026-11-23 08:00:0{second}", 1, 2, 1) for second in range(3)),
            rush_step="1 second",
            rush_scope="",
            drain=tuple(Drain(f"2026-11-23 08:00:0{second}", TEN_MILLION, second, TEN_MILLION) for second in range(3)),
            run=dict.fromkeys(("Run", "Tables", "Settings"), " ".join(HOSTILE)),
            latency=[(500, TEN_MILLION)],
            lives=tuple(Life(name, f"1. {name[:20]}", "booked", 1, 2, attempts) for name in HOSTILE),
            days=({**day, **numbers, **times},),
            model=MODEL,
            listed=tuple({"GP_CODE": name[:8], **day, **numbers} for name in HOSTILE),
            findings=tuple(
                {"invariant": "I2", "subject": "request", "id": name, "verdict": "lost", "detail": name}
                for name in HOSTILE
            ),
        )
    )


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


def shown(text: str, folder: Path, width: int = 360) -> dict[str, Any]:
    """Return measurements of the page on a screen of this many pixels, by default a small phone."""
    (folder / "page.html").write_text(text.replace("</body>", PROBE + "</body>"))
    (folder / "phone.html").write_text(FRAME.format(width=width))
    dom = opened(folder / "phone.html", folder, "--dump-dom")
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found is not None
    said: dict[str, Any] = json.loads(html.unescape(found[1]))
    return said


def test_report_fits_a_small_phone_with_hostile_names(tmp_path: Path) -> None:
    """Nothing is wider than 360 pixels, and names are shown as text, with their controls visible."""
    said = shown(page(document(TEN_MILLION, I2=4)), tmp_path)
    assert said["wide"] <= 360
    assert said["cut"] == []
    assert [label[3:] for label in said["labels"]] == [visible(name[:20]) for name in HOSTILE]
    assert (said["strangers"], said["drawn"]) == (0, True)


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_page_fits_its_screen_and_no_labels_collide(tmp_path: Path, width: int) -> None:
    said = shown(page(document(TEN_MILLION, I2=4)), tmp_path, width)
    assert said["wide"] <= width
    assert (said["cut"], said["collisions"]) == ([], [])


def test_findings_come_before_the_plots(tmp_path: Path) -> None:
    """The operator on call looks for them first."""
    order = shown(page(document(10, I2=4)), tmp_path)["order"]
    assert order.index("Findings") == order.index("Invariants") + 1
    assert order.index("Findings") < order.index("The rush")


def test_plots_are_named_and_tables_scroll_by_keyboard(tmp_path: Path) -> None:
    """A screen reader names each plot, and arrow keys scroll a wide table."""
    said = shown(page(document(10)), tmp_path)
    assert (said["unnamed"], said["unreachable"]) == (0, 0)


def test_report_of_no_requests_praises_none() -> None:
    """Only free slots, before the first message."""
    said = document(0)
    assert said["sentence"].startswith("The history contains no request")
    assert "Every one" not in page(said)
