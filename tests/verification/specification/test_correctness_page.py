"""docs/correctness.md says what the code says: its tables, its laws, its tests and its figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from appointments.invariants import INVARIANTS
from verification.figures.correctness_page import CONSUMER, PAGE, REPOSITORY, fill

TEXT = PAGE.read_text()


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    below = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    assert table is not None, heading
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()]
    return lines[2:]


def test_the_generated_parts_are_up_to_date() -> None:
    assert fill(TEXT) == TEXT, "run: make figures"


def test_the_readme_gives_the_number_of_schedules_that_were_explored() -> None:
    explored = json.loads((REPOSITORY / "docs" / "proof" / "explored.json").read_text())
    assert explored["holds"]
    readme = " ".join((REPOSITORY / "README.md").read_text().split())
    assert f"{explored['totals']['schedules']:,} schedules" in readme
    assert f"through {explored['totals']['states']:,} states" in readme
    assert f"runs of the handler: {explored['totals']['executions']:,}" in readme


def test_the_failure_table_is_the_consumers_own() -> None:
    documentation = CONSUMER.read_text()
    failures = rows("What happens in each failure")
    assert len(failures) >= 8
    for row in failures:
        for cell in row:
            assert cell in documentation


def test_the_laws_are_the_list_of_invariants() -> None:
    assert [(row[0], row[1]) for row in rows("The laws")] == [(each.name, each.sentence) for each in INVARIANTS]


def test_every_known_case_has_tests_and_every_test_is_there() -> None:
    cases = rows("The known cases")
    letters = [row[0] for row in cases]
    assert [letter for letter in letters if len(letter) == 1] == list("abcdefghijklmnop")
    defined = {
        name
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), flags=re.MULTILINE)
    }
    for row in cases:
        named = re.findall(r"`(test_\w+)`", row[3])
        assert named, row
        assert set(named) <= defined, set(named) - defined


def test_no_case_of_the_protocol_tests_is_left_out() -> None:
    text = (REPOSITORY / "tests" / "behaviours" / "test_protocol_cases.py").read_text()
    tests = re.findall(r"^def (test_[a-p]2?_\w+)", text, flags=re.MULTILINE)
    missing = [name for name in tests if name not in TEXT and not name.startswith("test_a_request")]
    # Of case p only the two that say something about the protocol are on the page.
    assert [name for name in missing if not name.startswith("test_p_")] == []


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()


def test_a_run_without_figures_says_how_to_get_them(tmp_path: Path) -> None:
    page = fill("<!-- generated: make soak -->\nold\n<!-- end -->\n", tmp_path)
    assert "`make soak` makes them" in page
    assert "old" not in page


def test_an_unknown_block_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("<!-- generated: by nobody -->\n<!-- end -->\n")
