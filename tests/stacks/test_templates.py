"""The templates, checked by cfn-lint: CloudFormation's schemas, and the Amazon States Language."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kits.stacks import Stage
from tests.stacks.audit.night import definition
from tests.stacks.conftest import VARIANTS

ROOT = Path(__file__).resolve().parents[2]
LINTER = ROOT / ".venv" / "templates" / "bin" / "cfn-lint"

# W3005: CDK orders a role's policies before their user, although a reference does so already.
ACCEPTED = ["W3005"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LINTER.exists() and not os.environ.get("CI"), reason="make .venv/templates/.installed"),
]


def lint(*templates: Path) -> str:
    """Return the linter's findings, one in two lines; empty if there are none."""
    command = list(map(str, [LINTER, "--ignore-checks", *ACCEPTED, "--", *templates]))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def write_machine(folder: Path, definition: dict[str, Any]) -> Path:
    """Write a template with the definition as an object: cfn-lint reads a text with references in it only as text."""
    properties = {"RoleArn": "arn:aws:iam::111122223333:role/states", "Definition": definition}
    machine = {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}
    path = folder / "machine.template.json"
    path.write_text(json.dumps({"Resources": {"Machine": machine}}))
    return path


@pytest.fixture
def machine(audit: Stage) -> dict[str, Any]:
    """The definition of the nightly state machine."""
    parsed: dict[str, Any] = json.loads(json.dumps(definition(audit)).replace("<AWS::Partition>", "aws"))
    return parsed


@pytest.mark.parametrize("name", VARIANTS)
def test_template_passes_cfn_lint(name: str, variant: Callable[[str], Stage]) -> None:
    """The plain stages are not here: all that they hold but their names is in one of the variants."""
    stage = variant(name)
    templates = sorted(stage.folder.glob("*.template.json"))
    assert len(templates) == (3 if stage.settings.audit else 2)
    assert lint(*templates) == ""


def test_state_machine_follows_the_states_language(machine: dict[str, Any], tmp_path: Path) -> None:
    assert lint(write_machine(tmp_path, machine)) == ""


def test_linter_finds_a_faulty_state_machine(machine: dict[str, Any], tmp_path: Path) -> None:
    del machine["States"]["Audit"]["Type"]
    assert "E3601" in lint(write_machine(tmp_path, machine))
