"""docs/understand: correctness.md agrees with the code, the figures and its picture; guarantees.md names what exists."""

import re
from dataclasses import replace

import pytest

from demo.declared import CONSUMER
from lab.explore.scenarios import ONE_REQUEST
from lab.figures import PAGE, REPOSITORY, fill
from lab.laws import OF_CALLS, OF_PROCESSES
from lab.peers.peers import PEERS
from lab.simulation.run import SCENARIOS
from oneslot.explorer.counterexample import Counterexample, replay

TEXT = PAGE.read_text()
CODE = REPOSITORY / "oneslot" / "runtime" / "consumer" / "consumer.py"


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading."""
    below = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    assert table is not None, heading
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()]
    return lines[2:]


def test_page_has_the_consumers_failure_table() -> None:
    documentation = CODE.read_text().split('"""')[1]
    lines = [line.strip("|") for line in documentation.splitlines() if line.startswith("|")]
    failures = [[cell.strip() for cell in line.split("|")] for line in lines[2:]]
    assert len(failures) >= 8
    assert rows("What happens in each failure") == failures


def test_page_lists_every_invariant() -> None:
    everywhere, alone = TEXT.split("so the explorer alone checks them:")
    for part, judged, others in ((everywhere, True, {}), (alone, False, OF_CALLS)):
        listed = {name: f"{law}." for law, name in re.findall(r"^- (.+) \(([A-Z]\d+r?)\)\.$", part, re.MULTILINE)}
        assert listed == {each.name: each.sentence for each in CONSUMER.laws if each.is_judged is judged} | others


def test_page_has_the_current_figures() -> None:
    assert fill(TEXT) == TEXT, "run: make figures"


UNDERSTAND = REPOSITORY / "docs" / "understand"
ROWS = re.findall(r"^\| (?!-|claim|not claimed)(.+) \|$", (UNDERSTAND / "guarantees.md").read_text(), re.MULTILINE)
LAWS = {law.name for law in CONSUMER.laws} | {*OF_CALLS, *OF_PROCESSES}


def shown_by(row: str) -> str:
    return row.rsplit("|", 1)[1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[0].replace("*", "").strip()[:30])
def test_claim_names_evidence_that_exists(row: str) -> None:
    shown = shown_by(row)
    text = (REPOSITORY / "tests" / "behaviours" / "test_protocol_cases.py").read_text()
    cases = re.findall(r"^def test_([a-p]2?)_", text, re.MULTILINE)
    assert set(re.findall(r"\b[A-Z][0-9]+r?\b", shown)) <= LAWS
    named = re.search(r"\bcases? ([a-p2, ]+)", shown)
    assert not named or set(named[1].replace(",", " ").split()) <= set(cases)
    assert [name for name in re.findall(r"scenario `([^`]+)`", shown) if name not in SCENARIOS] == []
    assert [name for name in re.findall(r"`(test_\w+\.py)`", shown) if not [*(REPOSITORY / "tests").rglob(name)]] == []


def test_every_claim_has_evidence() -> None:
    assert [row for row in ROWS if not shown_by(row).strip() and "clinical" not in row] == []
    assert len(ROWS) > 12


KEPT = REPOSITORY / "lab" / "results" / "booked-twice.json"


def test_usual_handler_books_twice_when_one_response_is_lost() -> None:
    usual = next(peer.subject for peer in PEERS if peer.subject.name == "get, then put, with conditions")
    kept = Counterexample.from_json(KEPT.read_text(encoding="utf-8"))

    replayed = replay(kept, replace(ONE_REQUEST, deliveries=((0,), (0,)), faults=1, expiries=0), usual)

    assert [line for line in replayed.broken if line.startswith("I1 ")]
    assert sum("response lost; the SDK sends it again" in line for line in replayed.lines) == 1
    assert not any("crash" in line for line in replayed.lines)
