"""`docs`: the documentation's pages in the terminal, which errors and alarms name."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import click

from oneslot.errors import PageNotFound

_PACKAGE = Path(__file__).resolve().parents[2]
# The wheel has them in the package, a clone beside it.
FOLDER = _PACKAGE / "docs" if (_PACKAGE / "docs").is_dir() else _PACKAGE.parent / "docs"


@click.command(short_help="Print a page of the documentation, such as runbooks#stalled.")
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a PAGE, or the section after its "#", as Markdown. Without PAGE, print the pages' names."""
    click.echo(section_of(page) if page else "\n".join(pages()))


@cache
def pages() -> Mapping[str, Path]:
    """Return the pages by name: the file's name without its folder and ending."""
    return {path.stem: path for path in sorted(FOLDER.rglob("*.md"))}


def section_of(page: str) -> str:
    """Return the text of `name` or `name#section`. Raises `PageNotFound` with the names that there are."""
    name, _, wanted = page.partition("#")
    if name not in pages():
        raise PageNotFound(f"There is no page {name!r}. The pages: {', '.join(pages())}.")
    text = pages()[name].read_text(encoding="utf-8")
    headings = list(re.finditer(r"^(##+) (.+)$", text, re.MULTILINE))
    # The part behind "#" of a link to a heading.
    sections = {re.sub(r"[^\w -]", "", each[2].lower()).replace(" ", "-"): each for each in headings}
    if wanted and wanted not in sections:
        raise PageNotFound(f"The page {name!r} has no section {wanted!r}. Its sections: {', '.join(sections)}.")
    if not wanted:
        return text.rstrip()
    begin = sections[wanted]
    # A section ends before the next heading of its level, or of a higher one.
    ends = (each.start() for each in headings if each.start() > begin.start() and len(each[1]) <= len(begin[1]))
    return text[begin.start() : next(ends, len(text))].rstrip()
