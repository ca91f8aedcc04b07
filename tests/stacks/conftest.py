"""CDK's first synthesis in a process takes seconds, later ones little: each stage is synthesised once."""

from __future__ import annotations

import pytest

from stacks.application import build
from stacks.settings import STAGES
from tests.stacks.kit import Stage


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    """Every stage, synthesised."""
    made = {}
    for name, settings in STAGES.items():
        folder = tmp_path_factory.mktemp(f"assembly-{name}")
        build(outdir=str(folder), context={"stage": name}).synth()
        made[name] = Stage(settings, folder)
    return made


@pytest.fixture(scope="session", params=sorted(STAGES))
def stage(request: pytest.FixtureRequest, stages: dict[str, Stage]) -> Stage:
    """Each stage in turn."""
    return stages[request.param]
