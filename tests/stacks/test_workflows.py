"""The workflows have few rights and pinned actions, and the threat model names existing tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def parsed(path: Path) -> dict[str, Any]:
    """The workflow. YAML reads the key `on` as true."""
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def steps(path: Path) -> list[dict[str, Any]]:
    """All steps of all jobs."""
    return [step for job in parsed(path)["jobs"].values() for step in job["steps"]]


def has_token(job: dict[str, Any]) -> bool:
    """Whether the job may ask for a token that AWS exchanges for credentials."""
    return "id-token" in job.get("permissions", {})


def test_production_is_deployed_from_the_default_branch_alone() -> None:
    job = parsed(ROOT / ".github" / "workflows" / "deploy.yml")["jobs"]["deploy"]
    assert job["if"] == "inputs.stage != 'prod' || github.ref_name == github.event.repository.default_branch"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_pastes_no_input_and_stores_no_key(path: Path) -> None:
    assert not [step for step in steps(path) if "${{" in step.get("run", "")]
    assert "secrets." not in path.read_text(encoding="utf-8")
    assert all(
        step["with"]["persist-credentials"] is False for step in steps(path) if "checkout" in step.get("uses", "")
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_action_is_pinned_to_a_commit_with_its_version(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[0-9.]+", line)] == []


def test_deployment_starts_by_hand_and_no_test_gets_a_token() -> None:
    assert [parsed(path)["permissions"] for path in WORKFLOWS] == [{"contents": "read"}] * len(WORKFLOWS)
    tokens = {(path.stem, name) for path in WORKFLOWS for name, job in parsed(path)["jobs"].items() if has_token(job)}
    assert tokens == {("deploy", "deploy"), ("diff", "diff"), ("publish", "publish")}
    triggers: Any = parsed(ROOT / ".github" / "workflows" / "deploy.yml")
    assert list(triggers[True]) == ["workflow_dispatch"]
    assert triggers["jobs"]["deploy"]["environment"] == "${{ inputs.stage }}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_job_with_a_token_runs_what_needs_aws_alone(path: Path) -> None:
    """Any tool that runs there could ask for the role's credentials."""
    needed = {"make deploy", "make smoke", "make diff"}
    for job in parsed(path)["jobs"].values():
        commands = {" ".join(step["run"].split()[:2]) for step in job["steps"] if "run" in step}
        assert commands <= needed if has_token(job) else not commands & needed


def test_security_page_names_existing_tests() -> None:
    named = re.findall(
        r"`(tests/[\w/]+\.py)(?:::(\w+))?`",
        (ROOT / "docs" / "understand" / "security.md").read_text(encoding="utf-8"),
    )
    assert len(named) > 10
    for path, function in named:
        assert f"def {function}" in (ROOT / path).read_text(encoding="utf-8"), (path, function)
