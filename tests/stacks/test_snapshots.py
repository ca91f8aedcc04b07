"""Every property of every stack, as a review sees it: one file for each stack, one line for each property.

UPDATE_SNAPSHOTS=1 python -m pytest tests/stacks/test_snapshots.py      write the files after an intended change
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kits.stacks import Stage, resolve

FOLDER = Path(__file__).with_name("snapshots")
STACKS = ("keys", "keys-operations", "keys-audit", "fifo", "fifo-audit", "rush", "rush-operations")
"""The stacks of `VARIANTS`: production with every setting for safety, a FIFO queue, development with all for speed."""

HASH = re.compile(r"[0-9a-f]{64}|(?<=CurrentVersion[0-9A-F]{8})[0-9a-f]{32}|(?<=-security-)[0-9a-f]{8}")
ATTRIBUTES = ("DeletionPolicy", "UpdateReplacePolicy", "DependsOn", "UpdatePolicy")

LEFT_OUT = {"AlarmDescription", "DashboardBody", "Tags"}
"""Texts for people, and what other tests read of every resource."""


def outline(template: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a template, without the hashes of its assets."""
    for name, resource in sorted(template["Resources"].items()):
        yield f"{resource['Type']} {name}"
        properties = {key: resource[key] for key in ATTRIBUTES if key in resource} | resource.get("Properties", {})
        for key, value in sorted(properties.items()):
            if key in LEFT_OUT:
                continue
            yield f"    {key}: {json.dumps(resolve(value), sort_keys=True, ensure_ascii=False)}"
    for name, output in sorted(template.get("Outputs", {}).items()):
        yield f"Output {name}: {resolve(output['Value'])}"


@pytest.mark.parametrize("stack", STACKS)
def test_stack_is_its_snapshot(stack: str, variant: Callable[[str], Stage]) -> None:
    name, _, part = stack.partition("-")
    made = variant(name)
    template = Stage(made.settings, made.folder, part and f"-{part}").template
    lines = [HASH.sub("<hash>", line) for line in outline(template)]
    path = FOLDER / f"{stack}.txt"
    if "UPDATE_SNAPSHOTS" in os.environ:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8").splitlines(), f"intended? UPDATE_SNAPSHOTS=1 pytest {__file__}"
