"""A stage's file is part of every deployment, and one that drops a given setting is refused."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oneslot.cdk.numbers import ContradictorySettings
from stacks import kept
from stacks.application import build
from stacks.context import given_settings, settings_from_context
from stacks.settings import STAGES

ROOT = Path(__file__).resolve().parents[2]


class CloudFormation:
    """Returns one stack's outputs, or that there is none."""

    def __init__(self, given: str | None, error: str = "does not exist") -> None:
        self.given, self.error = given, error

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803  # the API's spelling
        if self.given is None:
            raise ClientError({"Error": {"Code": "ValidationError", "Message": self.error}}, "DescribeStacks")
        return {"Stacks": [{"Outputs": [{"OutputKey": "GivenSettings", "OutputValue": self.given}]}]}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "STAGE_FILES", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("stage", "context", "changed"),
    [
        ("prod", {}, {"audit": True, "max_concurrency": 200}),
        ("prod", {"max_concurrency": "9"}, {"audit": True, "max_concurrency": 9}),
        ("dev", {}, {}),
    ],
)
def test_stage_file_changes_its_stages_settings_unless_the_context_does(
    tmp_path: Path, stage: str, context: dict[str, str], changed: dict[str, Any]
) -> None:
    (tmp_path / "prod.json").write_text('{"audit": true, "max_concurrency": 200}')
    settings = settings_from_context({"stage": stage, **context}, tmp_path)
    assert settings == replace(STAGES[stage], **changed)
    assert ("-c audit=true" in given_settings(settings)) is ("audit" in changed)


def test_app_reads_the_stage_file(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text('{"max_concurrency": 1}')
    with pytest.raises(ContradictorySettings, match="max_concurrency is 1"):
        build(str(tmp_path / "out"), {"stage": "dev"}, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "stages/dev.json is not valid JSON"),
        ("[]", "stages/dev.json is not a JSON object"),
        ('{"audits": true}', "stages/dev.json: audits is unknown; did you mean audit?"),
        ('{"retain_data": true}', "retain_data belongs to the stage"),
        ('{"audit": "yes"}', "audit is 'yes'; use true or false"),
    ],
)
def test_invalid_stage_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "dev.json").write_text(text)
    with pytest.raises(ContradictorySettings) as refusal:
        settings_from_context({"stage": "dev"}, tmp_path)
    assert said in str(refusal.value)


def test_deployment_that_drops_a_setting_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "prod.json").write_text('{"max_concurrency": 200}')
    deployed = CloudFormation("-c max_concurrency=200 -c customer_managed_keys=true")
    assert kept.main(["prod"], deployed) == 1
    assert capsys.readouterr().err == (
        "Oneslot: Oneslot-prod was deployed with customer_managed_keys=true, and this deployment would drop it. Write it "
        "into stages/prod.json; to end it, write its default there, false.\n"
    )


def test_deployment_that_ends_the_audit_says_that_its_stack_stays(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "dev.json").write_text(json.dumps({"audit": False}))
    assert kept.main(["dev"], CloudFormation("-c audit=true")) == 0
    assert capsys.readouterr().err.startswith("Oneslot: The stack Oneslot-dev-audit stays, audits each night")
    assert kept.main(["dev", "-c", "audit=true"], CloudFormation("-c audit=true")) == 0
    assert capsys.readouterr().err == ""


def test_rollback_leaves_out_a_setting_that_the_older_version_refuses() -> None:
    page = (ROOT / "docs" / "do" / "deploy.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^export GIVEN=.*NAME=VALUE.*$", page, re.MULTILINE)
    given = "-c audit=true -c newer=1 -c max_concurrency=200"
    with pytest.raises(ContradictorySettings, match="-c newer is unknown"):
        settings_from_context({"stage": "prod", "newer": "1"})
    script = f'{line.replace("NAME=VALUE", "newer=1")}\nprintf "%s|" $GIVEN'
    done = subprocess.run(["/bin/bash", "-c", script], env={"GIVEN": given}, capture_output=True, text=True, check=True)
    assert done.stdout == "-c|audit=true|-c|max_concurrency=200|"


def test_deployment_goes_on_when_a_deployed_setting_is_gone(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kept.main(["dev"], CloudFormation("-c former=7")) == 0
    assert capsys.readouterr().err == (
        "Oneslot: Oneslot-dev was deployed with former=7, and this version has no former: see the changelog.\n"
    )


def test_deployed_settings_are_read_in_the_region_that_cdk_deploys_to() -> None:
    assert kept.region({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}) == "eu-west-1"
    assert kept.region({"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2"}) == "eu-west-2"
    assert kept.region({}) is None


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (None, []),  # the first deployment
        ("", []),
        ("-c customer_managed_keys=true -c audit=true", ["-c", "audit=true"]),
        ("-c customer_managed_keys=true -c audit=true", ["-c", "audit=false"]),
    ],
)
def test_deployment_that_names_every_setting_goes_on(files: Path, given: str | None, options: list[str]) -> None:
    (files / "prod.json").write_text(json.dumps({"customer_managed_keys": True}))
    assert kept.main(["prod", *options], CloudFormation(given)) == 0


@pytest.mark.parametrize(
    ("options", "client", "said"),
    [
        (["-c", "zzz=1"], None, "-c zzz is unknown"),  # before the account is asked
        ([], CloudFormation(None, "not authorized"), "The credentials need cloudformation:DescribeStacks"),
    ],
)
def test_deployment_is_refused_when_it_cannot_be_compared(
    files: Path, capsys: pytest.CaptureFixture[str], options: list[str], client: Any, said: str
) -> None:
    assert kept.main(["dev", *options], client) == 1
    assert said in capsys.readouterr().err
