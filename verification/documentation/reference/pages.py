"""Each page of docs/look-up with tables made from the code, and what makes its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from verification.documentation.blocks import replace_blocks
from verification.documentation.reference import messages

LOOK_UP = Path(__file__).resolve().parents[3] / "docs" / "look-up"

PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "messages.md": {"book": lambda: messages.fields("book"), "cancel": lambda: messages.fields("cancel")},
}
"""A page → the names of its blocks, and the function that writes each."""


def current(name: str) -> str:
    """Return a page as the code is now."""
    return replace_blocks((LOOK_UP / name).read_text(encoding="utf-8"), PAGES[name])
