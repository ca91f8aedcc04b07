"""Each page of docs/look-up with tables made from the code, and what makes its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lab.documentation.blocks import replace_blocks
from lab.documentation.reference import command_line, errors, logs, messages, python_api, settings

LOOK_UP = Path(__file__).resolve().parents[3] / "docs" / "look-up"

PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "command-line.md": {
        "shared options": command_line.shared_options,
        "exit statuses": command_line.exit_statuses,
        "verbs": command_line.verbs,
        "send": command_line.send_of_any_consumer,
        "codes": errors.codes,
    },
    "construct.md": {"thresholds": settings.thresholds},
    "logs.md": {
        "delivery": logs.delivery,
        "outcomes": logs.outcomes,
        "events": logs.events,
        "metrics": logs.metrics,
    },
    "messages.md": {"book": lambda: messages.fields("book"), "cancel": lambda: messages.fields("cancel")},
    "python-api.md": {"names": python_api.names},
    "settings.md": {
        "numbers": settings.numbers,
        "others": settings.others,
        "variables": settings.variables,
        "command line": settings.command_lines,
    },
}
"""A page → the names of its blocks, and the function that writes each."""


def current(name: str) -> str:
    """Return a page as the code is now."""
    return replace_blocks((LOOK_UP / name).read_text(encoding="utf-8"), PAGES[name])
