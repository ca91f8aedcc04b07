"""Every list has its group's versions, and `requirements.txt` is what a deployment needs, as the tests run it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from oneslot.cdk.asset.vendoring import read_pins

ROOT = Path(__file__).resolve().parents[2]
LISTS = {
    "function": "lambda_src/requirements.txt",
    "deploy": "requirements.txt",
    "emulator": "oneslot/local/aws/emulator.txt",
    **{name: f"requirements/{name}.txt" for name in ("run", "dev", "docs", "dependencies", "templates", "mutants")},
}
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
# What a deployment never runs: the local run, Spark, the checks.
HEAVY = {"awscli", "duckdb", "ministack", "moto", "mypy", "pandas", "pyarrow", "pyspark", "pytest", "ruff"}


def test_group_has_a_list_and_nothing_else_is_listed() -> None:
    assert sorted(GROUPS) == sorted(LISTS)
    assert {f"requirements/{path.name}" for path in (ROOT / "requirements").glob("*.txt")} < set(LISTS.values())


@pytest.mark.parametrize("group", LISTS)
def test_list_has_the_versions_of_its_group(group: str) -> None:
    """Else `make lock` was forgotten."""
    pinned = {f"{pin.name}=={pin.version}" for pin in read_pins(ROOT / LISTS[group])}
    named = {re.sub(r"\[.*\]", "", line) for line in GROUPS[group] if isinstance(line, str)}
    included = [line["include-group"] for line in GROUPS[group] if isinstance(line, dict)]
    assert named <= pinned
    for other in included:
        assert set(read_pins(ROOT / LISTS[other])) <= set(read_pins(ROOT / LISTS[group]))


def test_list_names_no_index() -> None:
    assert [path for path in LISTS.values() if "://" in (ROOT / path).read_text("utf-8")] == []


def test_deployment_installs_nothing_heavy() -> None:
    deployed = {pin.name for pin in read_pins(ROOT / "requirements.txt")}
    assert deployed.isdisjoint(HEAVY)
    assert {"aws-cdk-lib", "cdk-nag", "constructs", "boto3", "aws-lambda-powertools"} <= deployed
