"""Synthesised stages. CDK's first synthesis in a process takes seconds, so each stage is synthesised once."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from stacks.settings import STAGES
from tests.kits.stacks import Stage, synthesise
from tests.stacks.audit.night import World, definition

TOPIC = "arn:aws:sns:eu-west-2:111122223333:on-call"


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    """Every stage, synthesised."""
    return {name: synthesise(tmp_path_factory.mktemp(f"assembly-{name}"), stage=name) for name in STAGES}


@pytest.fixture(scope="session", params=sorted(STAGES))
def stage(request: pytest.FixtureRequest, stages: dict[str, Stage]) -> Stage:
    """Each stage in turn."""
    return stages[request.param]


VARIANTS = {
    "fifo": {"stage": "dev", "queue": "fifo", "audit": "true"},
    "keys": {
        **{"stage": "prod", "audit": "true", "customer_managed_keys": "true", "alarm_topic_arn": TOPIC},
        **{"log_retention_days": "90", "ledger_retention_seconds": "forever"},
        "ledger_forgotten_before": "2026-11-23T14:00:00Z",
    },
    "rush": {
        **{"stage": "dev", "provisioned_pollers": "20", "max_concurrency": "1000", "snap_start": "true"},
        **{"table_warm_writes": "40000", "table_maximum_writes": "41000", "group_commit": "true"},
    },
}
"""Every setting that changes a template. cfn-lint reads each of these, too."""


@pytest.fixture(scope="session")
def variant(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Stage]:
    """Return a function that synthesises a variant at its first use."""
    return cache(lambda name: synthesise(tmp_path_factory.mktemp(f"assembly-{name}"), **VARIANTS[name]))


@pytest.fixture(scope="session")
def fifo(variant: Callable[[str], Stage]) -> Stage:
    """Development with a FIFO queue, and its audit."""
    return variant("fifo")


@pytest.fixture(scope="session")
def keys(variant: Callable[[str], Stage]) -> Stage:
    """Production with keys of its own, a topic, and rows that stay for ever."""
    return variant("keys")


@pytest.fixture(scope="session")
def rush(variant: Callable[[str], Stage]) -> Stage:
    """Development with every setting for speed."""
    return variant("rush")


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
    return World(definition(audit))
