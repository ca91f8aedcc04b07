"""`oneslot docs`: a page, a section, and what is not there."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from oneslot.errors import PageNotFound
from oneslot.operator.cli import main
from oneslot.operator.commands.docs import section_of


def test_docs_prints_a_section_and_lists_the_pages() -> None:
    section = CliRunner().invoke(main, ["docs", "runbooks#stalled"]).output
    assert section.lower().startswith("## stalled\n")
    assert section.count("\n## ") == 0
    assert "runbooks\n" in CliRunner().invoke(main, ["docs"]).output


@pytest.mark.parametrize(("page", "said"), [("nothing", "The pages: "), ("runbooks#nothing", "Its sections: ")])
def test_docs_names_what_there_is_when_the_page_is_unknown(page: str, said: str) -> None:
    with pytest.raises(PageNotFound, match=said):
        section_of(page)
