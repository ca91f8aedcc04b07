"""Where a person who was woken reads on."""

from __future__ import annotations

FOLDER = "docs/runbooks"


def runbook(alarm: str) -> str:
    """The runbook's path in the repository, e.g. `docs/runbooks/audit.md`. A test checks that each one is there."""
    return f"{FOLDER}/{alarm}.md"
