"""Every property of every stack, as a review sees it: one file for each stack, one line for each property.

UPDATE_SNAPSHOTS=1 python -m pytest tests/stacks/test_snapshots.py      write the files after an intended change
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kits.stacks import Stage, assert_snapshot

FOLDER = Path(__file__).with_name("snapshots")
STACKS = ("keys", "keys-operations", "keys-audit", "fifo", "fifo-operations", "fifo-audit", "rush", "rush-operations")
"""The stacks of `VARIANTS`: production with every setting for safety, a FIFO queue, development with all for speed."""


@pytest.mark.parametrize("stack", STACKS)
def test_stack_is_its_snapshot(stack: str, variant: Callable[[str], Stage]) -> None:
    name, _, part = stack.partition("-")
    made = variant(name)
    assert_snapshot(Stage(made.settings, made.folder, part and f"-{part}").template, FOLDER / f"{stack}.txt")
