"""The workflows have few rights and run existing commands, and the threat model names existing tests."""

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


def test_workflows_are_tests_and_a_deployment() -> None:
    assert [path.stem for path in WORKFLOWS] == ["deploy", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_commands_exist(path: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = [step["run"].split() for step in steps(path) if "run" in step]
    assert commands
    for words in commands:
        assert words[0] == ".ci/run" or (words[0] == "make" and words[1] in targets), words


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


def test_deployment_alone_gets_a_token_and_starts_by_hand() -> None:
    rights = {path.stem: parsed(path)["permissions"] for path in WORKFLOWS}
    assert rights == {"tests": {"contents": "read"}, "deploy": {"contents": "read", "id-token": "write"}}
    triggers: Any = parsed(ROOT / ".github" / "workflows" / "deploy.yml")
    assert list(triggers[True]) == ["workflow_dispatch"]
    assert triggers["jobs"]["deploy"]["environment"] == "${{ inputs.stage }}"


def test_threat_model_names_existing_tests() -> None:
    named = re.findall(
        r"`(tests/[\w/]+\.py)(?:::(\w+))?`",
        (ROOT / "docs" / "understand" / "threat-model.md").read_text(encoding="utf-8"),
    )
    assert len(named) > 10
    for path, function in named:
        assert f"def {function}" in (ROOT / path).read_text(encoding="utf-8"), (path, function)
