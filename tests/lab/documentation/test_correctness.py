"""docs/understand/correctness.md agrees with the code and the kept figures: failures and laws."""

from __future__ import annotations

import re

from demo.declared import CONSUMER as DECLARED
from lab.figures import PAGE, REPOSITORY, fill
from lab.laws import OF_CALLS

TEXT = PAGE.read_text()
CONSUMER = REPOSITORY / "oneslot" / "runtime" / "consumer" / "consumer.py"


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading."""
    below = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    assert table is not None, heading
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()]
    return lines[2:]


def test_page_has_the_consumers_failure_table() -> None:
    documentation = CONSUMER.read_text().split('"""')[1]
    lines = [line.strip("|") for line in documentation.splitlines() if line.startswith("|")]
    failures = [[cell.strip() for cell in line.split("|")] for line in lines[2:]]
    assert len(failures) >= 8
    assert rows("What happens in each failure") == failures


def test_page_lists_every_invariant() -> None:
    everywhere, alone = TEXT.split("so the explorer alone checks them:")
    for part, judged, others in ((everywhere, True, {}), (alone, False, OF_CALLS)):
        listed = {name: f"{law}." for law, name in re.findall(r"^- (.+) \(([A-Z]\d+r?)\)\.$", part, re.MULTILINE)}
        assert listed == {each.name: each.sentence for each in DECLARED.laws if each.is_judged is judged} | others


def test_page_has_the_current_figures() -> None:
    assert fill(TEXT) == TEXT, "run: make figures"
