"""Each page of docs/look-up with tables made from the code: `python -m lab.documentation.reference.pages` writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.documentation.blocks import replace_blocks
from lab.documentation.reference import command_line, python_api

LOOK_UP = Path(__file__).resolve().parents[3] / "docs" / "look-up"

PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "command-line.md": {
        "shared options": command_line.shared_options,
        "exit statuses": command_line.exit_statuses,
        "verbs": command_line.verbs,
        "send": command_line.send_of_any_consumer,
        "codes": command_line.codes,
    },
    "python-api.md": {"names": python_api.names},
}
"""A page → the names of its blocks, and the function that writes each."""


def current(name: str) -> str:
    """Return a page as the code is now."""
    return replace_blocks((LOOK_UP / name).read_text(encoding="utf-8"), PAGES[name])


if __name__ == "__main__":
    for page in PAGES:
        (LOOK_UP / page).write_text(current(page), encoding="utf-8")
    sys.stderr.write(f"Wrote {len(PAGES)} pages in docs/look-up.\n")
