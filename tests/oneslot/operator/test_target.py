"""Opening a stack: its folder, its clients, and the errors."""

from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber

from demo.declared import CONSUMER
from oneslot.errors import AwsUnusable, NoRegion, StackNotFound, WrongConsumer
from oneslot.operator.target import Outputs, home_folder, local_target, open_target
from tests.kits.moto_stack import MotoStack, document, invoke


def test_home_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONESLOT_HOME", raising=False)
    assert home_folder() == Path(__file__).resolve().parents[3] / ".oneslot"
    monkeypatch.setenv("ONESLOT_HOME", "/elsewhere")
    assert home_folder() == Path("/elsewhere")


def test_identity_differs_when_the_process_restarted(moto_stack: MotoStack) -> None:
    state = moto_stack.target.local
    assert state is not None
    later = local_target(replace(state, supervisor_start=state.supervisor_start + 1), moto_stack.home)
    assert later.identity != moto_stack.target.identity


def test_target_creates_a_client_once(moto_stack: MotoStack) -> None:
    assert moto_stack.target.sqs is moto_stack.target.sqs


def test_outputs_are_refused_when_one_is_missing() -> None:
    with pytest.raises(WrongConsumer, match="QueueUrl, DeadLetterQueueUrl, LedgerTableName"):
        Outputs.of("Other", {}, CONSUMER)


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Stubber:
    """Return a CloudFormation client with scripted answers."""
    session = boto3.Session("AKIDEXAMPLE", "none", region_name="eu-west-2")
    client = session.client("cloudformation")
    monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
    return Stubber(client)


def test_open_target_names_the_region_of_a_missing_stack(cloudformation: Stubber) -> None:
    cloudformation.add_client_error("describe_stacks", "ValidationError")
    with cloudformation, pytest.raises(StackNotFound, match="eu-west-2"):
        open_target("Oneslot-prod")


def test_status_asks_for_a_region_when_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name, value in (("ACCESS_KEY_ID", "1"), ("SECRET_ACCESS_KEY", "2"), ("DEFAULT_REGION", "")):
        monkeypatch.setenv(f"AWS_{name}", value)
    assert document(invoke("status", "--stack", "Oneslot-prod", "--json"), 1)["code"] == NoRegion.code
    in_no_region = invoke("status", "--stack", "Oneslot-prod", "--json", AWS_DEFAULT_REGION="eu west")
    assert document(in_no_region, 1)["code"] == AwsUnusable.code
