"""The roles that the page on GitHub has an operator create: one for each environment, with rights on that stage alone."""

import fnmatch
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import yaml  # type: ignore[import-untyped]

from demo.commands.smoke import Smoke
from tests.kits.moto_stack import MotoStack
from tests.kits.stacks import Stage, resolve

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "do" / "deploy-from-github.md").read_text(encoding="utf-8")
BOOTSTRAP = ROOT / "node_modules" / "aws-cdk" / "lib" / "api" / "bootstrap" / "bootstrap-template.yaml"
ANY_STACK = {"cloudformation:CreateStackRefactor", "cloudformation:ExecuteStackRefactor"}
"""Refactoring moves resources between stacks, which no deployment of ours does."""


def policy(file: str) -> list[dict[str, Any]]:
    """Return the statements of the file that the page has an operator copy."""
    assert f"[`{file}`](rights/{file})" in PAGE
    text = (ROOT / "docs" / "do" / "rights" / file).read_text(encoding="utf-8")
    statements: list[dict[str, Any]] = json.loads(text)["Statement"]
    return statements


def listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def actions(statements: list[dict[str, Any]]) -> set[str]:
    return {action for statement in statements for action in listed(statement["Action"])}


def test_role_trusts_one_environment() -> None:
    (trust,) = policy("trust.json")
    subjects = trust["Condition"]["StringEquals"]["token.actions.githubusercontent.com:sub"]
    assert [subject.rpartition(":environment:")[2] for subject in subjects] == ["STAGE", "STAGE"]
    assert "aud" in json.dumps(trust["Condition"]["StringEquals"])
    roles = re.findall(r'create-role --role-name "?([^ "]+)"?', PAGE)
    assert roles == ["oneslot-deploy-$STAGE", "oneslot-smoke-$STAGE"]
    assert not re.search(r"environment:(dev|prod)", PAGE)


@pytest.mark.parametrize("file", ["deploy.json", "smoke.json"])
def test_rights_end_at_the_stage(file: str) -> None:
    """What else a deployment needs is the bootstrap's: it has the roles and the bucket, for every stage of an account."""
    for statement in policy(file):
        for resource in listed(statement["Resource"]):
            named = f"{resource} {json.dumps(statement.get('Condition', {}))}"
            assert "Oneslot-STAGE" in named or "cdk-hnb659fds-" in resource or "/hnb659fds/" in resource, statement
    assumed = [statement["Resource"] for statement in policy(file) if "sts:AssumeRole" in listed(statement["Action"])]
    assert all("publishing-role" in role for role in assumed), "CDK's deployment role may change every stack"


def test_rights_cover_each_stack_of_a_stage(keys: Stage) -> None:
    (stacks,) = [
        each["Resource"] for each in policy("deploy.json") if "cloudformation:CreateChangeSet" in each["Action"]
    ]
    named = {resource.split("stack/")[1].removesuffix("/*") for resource in stacks}
    assert named == {path.name.split(".")[0].replace("prod", "STAGE") for path in keys.folder.glob("*.template.json")}


def test_deployment_has_the_rights_of_cdks_own_role() -> None:
    """Without CDK's deployment role, `cdk` makes the same calls with these rights."""
    role = yaml.safe_load(BOOTSTRAP.read_text(encoding="utf-8"))["Resources"]["DeploymentActionRole"]["Properties"]
    own = [
        statement
        for statement in role["Policies"][0]["PolicyDocument"]["Statement"]
        if not statement.get("Sid", "").startswith("PipelineCrossAccount")
    ]
    needed = actions(own) - ANY_STACK - {"sts:GetCallerIdentity"}
    assert len(needed) > 10
    assert needed <= actions(policy("deploy.json"))
    assert "AWSCloudFormationReadOnlyAccess" in json.dumps(role["ManagedPolicyArns"])


@pytest.fixture
def smoked(moto_stack: MotoStack) -> set[tuple[str, str]]:
    """The calls of a smoke test: service and operation."""
    calls: set[tuple[str, str]] = set()

    create: Any = boto3.client  # its stubs know no name that is a variable

    def recorded(name: str) -> Any:
        client = create(name, region_name="eu-west-2", aws_access_key_id="a", aws_secret_access_key="s")
        client.meta.events.register("before-call", lambda model, **_: calls.add((name, model.name)))
        return client

    clients: Any = SimpleNamespace(**{name: lambda name=name: recorded(name) for name in ("dynamodb", "sqs")})
    target = replace(moto_stack.target, clients=clients)
    smoke = Smoke(target, 60.0, sleep=lambda _: moto_stack.consume())
    smoke.check()
    smoke.clean_up()
    return calls


def test_smoke_role_has_the_rights_of_its_calls_alone(smoked: set[tuple[str, str]]) -> None:
    granted = {tuple(action.split(":")) for action in actions(policy("smoke.json")) if not action.startswith("kms:")}
    assert granted == smoked | {("cloudformation", "DescribeStacks"), ("logs", "FilterLogEvents")}


def test_smoke_role_uses_the_key_as_the_consumer_does(keys: Stage) -> None:
    of_consumer = {
        action
        for role in keys.resources("AWS::IAM::Role").values()
        for each in role["Properties"].get("Policies", [])
        for statement in each["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
        if action.startswith("kms:")
    }
    assert {action for action in actions(policy("smoke.json")) if action.startswith("kms:")} == of_consumer
    (alias,) = keys.resources("AWS::KMS::Alias").values()
    assert f'"{alias["Properties"]["AliasName"].replace("prod", "STAGE")}"' in json.dumps(policy("smoke.json"))


def names(stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield the name of each resource that a smoke test calls, by its output. CloudFormation appends digits."""
    for output in ("SlotsTableName", "LedgerTableName", "AppointmentsTableName", "ConsumerLogGroupName"):
        yield output, f"{stage.stack_name}-{stage.logical_id(output)}-ABC"
    queue = resolve(stage.of_output("QueueUrl")["QueueName"]).replace("<AWS::StackName>", stage.stack_name)
    yield "QueueUrl", queue


def test_smoke_role_names_the_resources_of_the_stack(keys: Stage) -> None:
    patterns = [
        re.split(r"[:/](?=Oneslot)", resource)[1].replace("STAGE", "prod")
        for statement in policy("smoke.json")
        for resource in listed(statement["Resource"])
        if "Oneslot" in resource
    ]
    for output, name in names(keys):
        assert [pattern for pattern in patterns if fnmatch.fnmatch(name, pattern)], (output, name)
