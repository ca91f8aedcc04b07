"""What outlives its stack never blocks the next stack of the same name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.shop.stack import build as shop
from examples.worker_on_fargate.build import build as worker_on_fargate
from tests.kits.stacks import Stage, literal_names
from tests.stacks.conftest import VARIANTS


def templates(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob("*.template.json")):
        yield path.name, json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(params=[*VARIANTS, "dev", "prod", "audit"])
def folder(
    request: pytest.FixtureRequest, stages: dict[str, Stage], with_audit: Stage, variant: Callable[[str], Stage]
) -> Path:
    """The cloud assembly of each stage, with every setting."""
    if request.param == "audit":
        return with_audit.folder
    return (stages.get(request.param) or variant(request.param)).folder


def test_retained_resource_has_no_literal_name(folder: Path) -> None:
    found = {name: literal_names(template) for name, template in templates(folder)}
    assert len(found) >= 2
    assert {name: resources for name, resources in found.items() if resources} == {}


@pytest.mark.parametrize("build", [shop, worker_on_fargate])
def test_retained_resource_of_an_example_has_no_literal_name(build: Callable[..., Any], tmp_path: Path) -> None:
    build(str(tmp_path)).synth()
    assert [literal_names(template) for _, template in templates(tmp_path)] == [[]]
