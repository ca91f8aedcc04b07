"""Every property of every stack, as a review sees it; and what outlives its stack never blocks the next one of its name.

`snapshots/` has production's stacks whole, one line for each property, and the differences of the other variants. To write
the files after an intended change:

    UPDATE_SNAPSHOTS=1 python -m pytest tests/stacks/test_snapshots.py
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kits.stacks import Stage, assert_snapshot, literal_names
from tests.stacks.conftest import VARIANTS


def templates(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob("*.template.json")):
        yield path.name, json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", VARIANTS)
def test_retained_resource_has_no_literal_name(name: str, variant: Callable[[str], Stage]) -> None:
    found = {name: literal_names(template) for name, template in templates(variant(name).folder)}
    assert len(found) >= 2
    assert {name: resources for name, resources in found.items() if resources} == {}


FOLDER = Path(__file__).with_name("snapshots")
STACKS = ("keys", "keys-operations", "keys-audit", "fifo", "fifo-operations", "fifo-audit", "rush", "rush-operations")
"""The stacks of `VARIANTS`: production with every setting for safety, a FIFO queue, development with all for speed."""


BASES = {"fifo": "keys", "rush": "fifo"}
"""The variant from which another one's snapshot has the differences."""


@pytest.mark.parametrize("stack", STACKS)
def test_stack_is_its_snapshot(stack: str, variant: Callable[[str], Stage]) -> None:
    name, _, part = stack.partition("-")

    def template(variant_name: str) -> dict[str, Any]:
        return replace(variant(variant_name), part=part and f"-{part}").template

    base = template(BASES[name]) if name in BASES else None
    assert_snapshot(template(name), FOLDER / f"{stack}.txt", base)
