"""What tests ask of /proc about processes that others started."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Return the process ids below one process."""
    children: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        children |= {int(child) for child in (task / "children").read_text().split()}
    return children.union(*(descendants(child) for child in children)) if children else children
