"""The Fargate example's template: what it runs, what that may do, and by what it scales."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest

from examples.worker_on_fargate.build import build
from examples.worker_on_fargate.stack import DOCKERFILE, ROOT, Scale
from oneslot.operator.commands.worker.worker import worker
from tests.kits.stacks import assert_snapshot, synthesise

SCALE = Scale(threads=8, seconds_per_message=0.5, acceptable_wait_seconds=60, grace_seconds=30)


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worker-on-fargate")
    build(str(folder), SCALE).synth()
    return folder


@pytest.fixture(scope="module")
def template(assembly: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((assembly / "OneslotWorker.template.json").read_text())
    return found


@pytest.fixture(scope="module")
def resources(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = template["Resources"]
    return found


def only(resources: dict[str, dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each["Properties"] for each in resources.values() if each["Type"] == kind]
    properties: dict[str, Any] = found
    return properties


def test_example_is_its_snapshot(template: dict[str, Any]) -> None:
    """Its rights, its network without ingress, and the metrics by which it scales. UPDATE_SNAPSHOTS=1 writes the file."""
    assert_snapshot(template, Path(__file__).with_name("snapshots") / "worker-on-fargate.txt")


def test_worker_accepts_its_command_line_and_ends_before_it_is_killed(resources: dict[str, dict[str, Any]]) -> None:
    (container,) = only(resources, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    command = [text if isinstance(text, str) else "Oneslot-dev" for text in container["Command"]]
    taken = worker.make_context("worker", command).params
    assert (taken["stack"], taken["threads"], taken["grace_seconds"]) == ("Oneslot-dev", 8, SCALE.grace_seconds)
    assert container["StopTimeout"] > SCALE.grace_seconds


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ("", True),
        ("arn:aws:kms:eu-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef", True),
        ("arn:aws:kms:eu-west-2:111122223333:key/*", False),
        ("arn:aws:kms:eu-west-2:111122223333:alias/oneslot", False),
        ("*", False),
    ],
)
def test_key_parameter_accepts_a_key_arn_alone(template: dict[str, Any], key: str, taken: bool) -> None:
    parameter = template["Parameters"]["KeyArn"]
    assert parameter["Default"] == ""
    assert bool(re.fullmatch(parameter["AllowedPattern"], key)) is taken


def test_worker_uses_the_given_key_as_the_consumer_does(
    template: dict[str, Any], resources: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    (role,) = [each for name, each in resources.items() if name.startswith("TaskRole")]
    _, (condition, policy, otherwise) = [each.get("Fn::If") for each in role["Properties"]["Policies"]]
    assert template["Conditions"][condition] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "KeyArn"}, ""]}]}
    assert otherwise == {"Ref": "AWS::NoValue"}
    (use,) = policy["PolicyDocument"]["Statement"]
    assert use["Resource"] == {"Ref": "KeyArn"}
    stack = synthesise(tmp_path, customer_managed_keys="true")
    text = json.dumps(stack.template)
    assert all(json.dumps(use[name]) in text for name in ("Action", "Condition"))
    assert "KeyArn" in stack.template["Outputs"]


def test_image_has_what_the_worker_imports_alone(assembly: Path, tmp_path: Path) -> None:
    assets = json.loads((assembly / "OneslotWorker.assets.json").read_text())["dockerImages"]
    assert [asset["source"]["platform"] for asset in assets.values()] == ["linux/arm64"]
    (context,) = assembly.glob("asset.*")
    copied = re.findall(r"^COPY (\S+)", (ROOT / DOCKERFILE).read_text(), re.MULTILINE)
    sources = {"lambda_src", "oneslot", "pyproject.toml"}
    assert set(copied) == sources
    assert {path.name for path in context.iterdir()} == {"examples", *sources}
    assert not list(context.rglob("__pycache__"))
    for source in copied:
        (tmp_path / source).symlink_to(context / source)
    # -S: the packages are found, and this repository, which is installed beside them, is not.
    path = os.pathsep.join(map(str, [tmp_path, tmp_path / "lambda_src", sysconfig.get_path("purelib")]))
    worker = [sys.executable, "-S", "-P", "-c", "import oneslot.cli, booking.consumer"]
    environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run(worker, env=environment, capture_output=True, text=True, check=False).stderr == ""


def test_image_installs_the_packages_dependencies() -> None:
    dockerfile = (ROOT / DOCKERFILE).read_text()
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {f'"{each}"' for each in asked} <= set(re.findall(r'"[a-z0-9-]+[=>][^"]+"', dockerfile))
