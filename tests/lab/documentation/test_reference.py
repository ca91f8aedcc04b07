"""The pages of docs/look-up that are made from the code, and the commands of the pages beside them."""

from __future__ import annotations

import re

import pytest

from lab.documentation.reference.pages import LOOK_UP, PAGES, current


@pytest.mark.parametrize("name", PAGES)
def test_page_is_the_current_codes(name: str) -> None:
    assert current(name) == (LOOK_UP / name).read_text(encoding="utf-8"), "run: make figures"


def test_messages_page_has_every_reason_of_the_code() -> None:
    """A reason in the consumer's code or in its domain is a row of the page, and has a message that meets it."""
    repository = LOOK_UP.parents[1]
    sources = [*(repository / "lambda_src").rglob("*.py"), *(repository / "oneslot" / "runtime").rglob("*.py")]
    raised = {
        reason
        for source in sources
        for reason in re.findall(r'Unprocessable\(\s*"(\w+)"', source.read_text(encoding="utf-8"))
    }
    text = (LOOK_UP / "messages.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", text.split("## Reasons")[1], re.MULTILINE))
    tried = set(re.findall(r"^send .*# (\w+)$", text, re.MULTILINE))
    others = {"unknown_envelope"}  # of the library; the appointments unpack none
    assert raised - others <= rows
    assert tried == rows - {"receives_exhausted"}
