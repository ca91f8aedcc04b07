"""docs/understand/correctness.md agrees with the code: failures and laws."""

from __future__ import annotations

import re

from demo.declared import CONSUMER as DECLARED
from lab.figures.correctness_page import CONSUMER, PAGE

TEXT = PAGE.read_text()


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading."""
    below = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    assert table is not None, heading
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()]
    return lines[2:]


def test_page_has_the_consumers_failure_table() -> None:
    documentation = CONSUMER.read_text()
    failures = rows("What happens in each failure")
    assert len(failures) >= 8
    assert [cell for row in failures for cell in row if cell not in documentation] == []


def test_page_lists_every_invariant() -> None:
    """Those of the simulation alone (Q, M) are about parts of it, which no user has."""
    listed = dict(re.findall(r"^- (.+) \(([A-Z]\d+r?)\)\.$", TEXT, re.MULTILINE))
    declared = {each.sentence.removesuffix("."): each.name for each in DECLARED.laws if each.name[0] not in "QM"}
    assert listed == declared
