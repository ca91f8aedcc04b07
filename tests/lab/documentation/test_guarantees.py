"""docs/understand/guarantees.md names laws, cases, tests and scenarios that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demo.declared import CONSUMER
from lab.laws import OF_CALLS, OF_PROCESSES
from lab.simulation.run import SCENARIOS

REPOSITORY = Path(__file__).resolve().parents[3]
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
