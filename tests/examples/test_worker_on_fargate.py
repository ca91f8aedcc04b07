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
from tests.kits.stacks import synthesise

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


def container(resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (found,) = only(resources, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    definition: dict[str, Any] = found
    return definition


def test_service_scales_on_waiting_messages_per_task(resources: dict[str, dict[str, Any]]) -> None:
    policy = only(resources, "AWS::ApplicationAutoScaling::ScalingPolicy")
    tracking = policy["TargetTrackingScalingPolicyConfiguration"]
    assert tracking["TargetValue"] == SCALE.backlog_per_task == 960
    metrics = {each["Id"]: each for each in tracking["CustomizedMetricSpecification"]["Metrics"]}
    assert [name for name, each in metrics.items() if each["ReturnData"]] == ["backlog"]
    assert metrics["backlog"]["Expression"] == "waiting / tasks"
    names = {name: metrics[name]["MetricStat"]["Metric"]["MetricName"] for name in ("waiting", "tasks")}
    assert names == {"waiting": "ApproximateNumberOfMessagesVisible", "tasks": "RunningTaskCount"}
    # Without these insights CloudWatch has no count of running tasks.
    assert only(resources, "AWS::ECS::Cluster")["ClusterSettings"] == [
        {"Name": "containerInsights", "Value": "enabled"}
    ]


def test_image_is_built_for_the_tasks_processor(assembly: Path, resources: dict[str, dict[str, Any]]) -> None:
    assets = json.loads((assembly / "OneslotWorker.assets.json").read_text())["dockerImages"]
    assert [asset["source"]["platform"] for asset in assets.values()] == ["linux/arm64"]
    assert only(resources, "AWS::ECS::TaskDefinition")["RuntimePlatform"]["CpuArchitecture"] == "ARM64"


def test_service_keeps_one_task_when_the_queue_is_empty(resources: dict[str, dict[str, Any]]) -> None:
    target = only(resources, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 20)


def test_worker_accepts_its_command_line(resources: dict[str, dict[str, Any]]) -> None:
    command = [text if isinstance(text, str) else "Oneslot-dev" for text in container(resources)["Command"]]
    taken = worker.make_context("worker", command).params
    assert (taken["stack"], taken["threads"], taken["grace_seconds"]) == ("Oneslot-dev", 8, 30)


def test_stop_timeout_is_above_the_workers_grace_time(resources: dict[str, dict[str, Any]]) -> None:
    assert container(resources)["StopTimeout"] > SCALE.grace_seconds


def test_worker_accepts_no_connection(resources: dict[str, dict[str, Any]]) -> None:
    assert "SecurityGroupIngress" not in only(resources, "AWS::EC2::SecurityGroup")
    assert not [each for each in resources.values() if each["Type"] == "AWS::EC2::SecurityGroupIngress"]
    assert not [each for each in resources.values() if each["Type"] == "AWS::EC2::NatGateway"]


def test_worker_rights_are_on_the_named_stack_alone(resources: dict[str, dict[str, Any]]) -> None:
    (policy,) = [
        policy
        for each in resources.values()
        if each["Type"] == "AWS::IAM::Role"
        for policy in each["Properties"].get("Policies", [])
        if policy.get("PolicyName") == "Worker"
    ]
    for statement in policy["PolicyDocument"]["Statement"]:
        assert {"Ref": "OneslotStack"} in statement["Resource"]["Fn::Join"][1]
        assert "*" not in statement["Action"]


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
    (of_consumer,) = [
        statement
        for role in stack.resources("AWS::IAM::Role").values()
        for each in role["Properties"]["Policies"]
        for statement in each["PolicyDocument"]["Statement"]
        if "kms:Decrypt" in statement["Action"]
    ]
    assert {name: use[name] for name in ("Action", "Condition")} == {
        name: of_consumer[name] for name in ("Action", "Condition")
    }
    assert stack.template["Outputs"]["KeyArn"]["Value"] == of_consumer["Resource"]


def test_image_has_what_the_worker_imports_alone(assembly: Path, tmp_path: Path) -> None:
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
