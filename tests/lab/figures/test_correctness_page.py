"""docs/understand/correctness.md has the kept figures."""

from __future__ import annotations

from lab.figures import PAGE, fill

TEXT = PAGE.read_text()


def test_page_has_the_current_figures() -> None:
    assert fill(TEXT) == TEXT, "run: make figures"
