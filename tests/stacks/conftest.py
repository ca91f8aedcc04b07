"""Synthesised stages. CDK's first synthesis in a process takes seconds, so each stage is synthesised once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stacks.settings import STAGES
from tests.kits.stacks import Stage, resolve, synthesise
from tests.stacks.audit.night import World


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    """Every stage, synthesised."""
    return {name: synthesise(tmp_path_factory.mktemp(f"assembly-{name}"), stage=name) for name in STAGES}


@pytest.fixture(scope="session", params=sorted(STAGES))
def stage(request: pytest.FixtureRequest, stages: dict[str, Stage]) -> Stage:
    """Each stage in turn."""
    return stages[request.param]


@pytest.fixture(scope="session")
def with_audit(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Production with the audit: its appointments stack; `part` leads to the others."""
    return synthesise(tmp_path_factory.mktemp("assembly-audit"), stage="prod", audit="true")


@pytest.fixture(scope="session")
def audit(with_audit: Stage) -> Stage:
    """The audit stack of production."""
    return replace(with_audit, part="-audit")


@pytest.fixture
def world(audit: Stage) -> World:
    """A night of production's state machine."""
    text = resolve(audit.properties("AWS::StepFunctions::StateMachine")["DefinitionString"])
    return World(json.loads(text))
