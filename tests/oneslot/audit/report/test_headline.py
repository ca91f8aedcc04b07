"""The first line of the report, and what a person on call does next."""

from typing import Any

import pytest

from demo.audit.model import model_of_appointments
from oneslot.audit.report.data import ReportData
from oneslot.audit.report.page import headline, next_steps, open_templates, render
from oneslot.declaration.reading import declared

WORDS = model_of_appointments(declared()).words


def audited(*, sound: bool = False, rejects: bool = False, **counts: int) -> dict[str, Any]:
    """The part of an audit's document that the two read; `counts` are verdicts and invariants by name."""
    verdicts = {name: counts.get(name, 0) for name in ("lost", "stuck", "duplicate_effect")}
    violations = {name: counts.get(name, 0) for name in ("I1", "I2", "I3", "I7")}
    return {"sound": sound, "verdicts": verdicts, "violations": violations, "rejects": {"above_limit": rejects}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (audited(sound=True), ["0 lost", "0 booked twice"]),
        (audited(lost=2, I2=2), ["2 lost", "0 booked twice"]),
        (audited(duplicate_effect=1, I1=1, I3=1), ["0 lost", "2 booked twice"]),
        (audited(stuck=3), ["0 lost", "0 booked twice", "3 stuck"]),
        (audited(I7=1), ["0 lost", "0 booked twice", "not sound"]),
    ],
)
def test_headline_names_what_is_broken(document: dict[str, Any], said: list[str]) -> None:
    assert headline(document, WORDS) == said


@pytest.mark.parametrize(
    ("document", "first"),
    [
        (audited(lost=1, I3=1), "Booked twice: "),
        (audited(stuck=1), "Lost or stuck: "),
        (audited(I7=1), "Broken invariants: I7."),
        (audited(rejects=True), "Unreadable lines: "),
    ],
)
def test_next_step_is_the_most_urgent_one(document: dict[str, Any], first: str) -> None:
    assert next_steps(document, WORDS)[0].startswith(first)


def test_report_shows_controls_when_text_is_foreign() -> None:
    page = open_templates().from_string('<td title="{{ text }}">{{ text }}</td>')
    shown = r"a\x1b[31m\u202e&lt;b&gt;"
    assert page.render(text="a\x1b[31m\u202e<b>") == f'<td title="{shown}">{shown}</td>'


def test_report_names_the_broken_first() -> None:
    """In its first band by their ids, and in the tables above what is sound. One word says that an effect happened twice."""
    model = model_of_appointments(declared())
    verdicts = dict.fromkeys(model.verdicts, 0) | {"booked": 9, "duplicate_effect": 1}
    document = {
        **audited(duplicate_effect=1, I3=1),
        "verdicts": verdicts,
        "requests": 10,
        "slots": 12,
        "sentence": "The history is not sound.",
        "sums": {"deliveries": 0, "deliveries_duplicate": 0},
        "rejects": {"lines": 0, "above_limit": False},
        "sources": ["ledger"],
        "notes": [],
    }
    data = ReportData(
        document=document,
        title_time="24 November 2026",
        invariants=(("I1", "One appointment a slot.", 0), ("I3", "One slot a request.", 1)),
        **dict.fromkeys(("rush", "drain", "lives", "days", "listed"), ()),
        rush_step="1 second",
        rush_scope="",
        run={},
        latency=[],
        findings=(
            {"invariant": "I3", "subject": "request", "id": "m-twice", "verdict": "duplicate_effect", "detail": "d"},
        ),
        model=model,
    )
    page = render(data)
    band = page[page.index('id="answer"') : page.index('class="figures"')]
    assert "<code>m-twice</code> I3" in band
    assert page.index("<td>booked twice<small>") < page.index("<td>booked<small>")
    assert page.index("<td>I3</td>") < page.index("<td>I1</td>")
    assert "duplicate effect" not in page
