"""Parts of a page that are made from the code, between `<!-- generated: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_BLOCK = re.compile(r"<!-- generated: ([a-z ]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def first_sentence(documentation: str) -> str:
    """Return the first sentence of a docstring or a help text."""
    return re.split(r"(?<=\.) ", " ".join(documentation.split()), maxsplit=1)[0]


def replace_blocks(page: str, writers: Mapping[str, Callable[[], str]]) -> str:
    """Return the page with the content of every block written again. Raises `KeyError` for an unknown block."""
    return _BLOCK.sub(lambda block: f"<!-- generated: {block[1]} -->\n{writers[block[1]]()}<!-- end -->\n", page)
