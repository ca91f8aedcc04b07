"""Parts of a page that are made from the code, between `<!-- generated: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_BLOCK = re.compile(r"<!-- generated: ([a-z ]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def replace_blocks(page: str, writers: Mapping[str, Callable[[], str]]) -> str:
    """Return the page with the content of every block written again. Raises `KeyError` for an unknown block."""
    return _BLOCK.sub(lambda block: f"<!-- generated: {block[1]} -->\n{writers[block[1]]()}<!-- end -->\n", page)
