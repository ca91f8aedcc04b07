"""The real template in the embedded AWS: every resource is created, and the poller follows the template."""

import copy
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from oneslot.errors import DeploymentFailed
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy

pytestmark = pytest.mark.embedded_aws


def test_deploy_creates_all_and_disables_the_emulators_mapping(
    deployed: Deployment, synthesised: SynthesisedStack
) -> None:
    assert set(deployed.resources) == set(synthesised.template["Resources"])
    assert set(deployed.outputs) == set(synthesised.template["Outputs"])
    with closing(deployed.connection.functions()) as functions:
        mapping = functions.get_event_source_mapping(UUID=deployed.outputs["EventSourceMappingId"])
    assert mapping["State"] == "Disabled"


def test_deploy_rejects_an_unknown_resource_type(account: Connection, synthesised: SynthesisedStack) -> None:
    template = {"Resources": {"Spark": {"Type": "AWS::EMRServerless::Application"}}}
    with pytest.raises(DeploymentFailed, match=r"AWS::EMRServerless::Application.*another stack"):
        deploy(replace(synthesised, template=template, assets=()), account)


def test_deploy_names_a_failed_resource_and_its_reason(account: Connection, synthesised: SynthesisedStack) -> None:
    bad = {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 43201}}
    template = {"Resources": {"Bad": bad}}
    with pytest.raises(DeploymentFailed, match=r"Bad \(AWS::SQS::Queue\)"):
        deploy(replace(synthesised, template=template, assets=()), account)


def test_deploy_names_what_is_not_ready(
    account: Connection, synthesised: SynthesisedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = {"ZipFile": "def handler(event, context): raise RuntimeError('it never answers')"}
    role = "arn:aws:iam::000000000000:role/any"
    function = {"Code": code, "Handler": "index.handler", "Role": role, "Runtime": "python3.13", "Timeout": 30}
    template = {
        "Resources": {
            "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
            "Silent": {"Type": "Custom::Silent", "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}}},
        }
    }
    monkeypatch.setattr("oneslot.local.aws.deployment.STACK_SECONDS", 1.0)
    with pytest.raises(DeploymentFailed, match=r"not ready within 1 s.*\nSilent \(Custom::Silent\)$"):
        deploy(replace(synthesised, template=template, assets=()), account)


def test_deploy_takes_a_stack_as_cdk_defines_it(account: Connection, synthesised: SynthesisedStack) -> None:
    version = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}
    queue = {"Type": "AWS::SQS::Queue", "Properties": {}}
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": [{"Id": "sum", "Expression": "a + b"}]}}
    template = {"Parameters": {"BootstrapVersion": version}, "Resources": {"Queue": queue, "Alarm": alarm}}
    deployment = deploy(replace(synthesised, template=template, assets=()), account)
    assert set(deployment.resources) == {"Queue"}, "the emulator has no metric math, and its alarms never ring"


def test_deploy_names_a_missing_asset(account: Connection, synthesised: SynthesisedStack, tmp_path: Path) -> None:
    gone = replace(synthesised.assets[0], source=tmp_path / "gone")
    with pytest.raises(DeploymentFailed, match="Synthesise again"):
        deploy(replace(synthesised, assets=(gone,)), account)


def edited(synthesised: SynthesisedStack, kind: str, **properties: object) -> tuple[str, SynthesisedStack]:
    """Return the first resource of this type, and the stack in which it has these properties."""
    template = copy.deepcopy(synthesised.template)
    name = next(name for name, each in template["Resources"].items() if each["Type"] == kind)
    template["Resources"][name]["Properties"] |= properties
    return name, replace(synthesised, template=template)


def test_update_changes_what_was_edited_and_keeps_the_rest(account: Connection, synthesised: SynthesisedStack) -> None:
    pattern = {"Filters": [{"Pattern": "{}"}]}
    mapping, filtered = edited(synthesised, "AWS::Lambda::EventSourceMapping", FilterCriteria=pattern)
    before = deploy(filtered, account)
    with closing(account.sqs()) as sqs:
        sqs.send_message(QueueUrl=before.outputs["QueueUrl"], MessageBody="kept")
    name, longer = edited(synthesised, "AWS::Lambda::Function", Timeout=77)

    updated, again = deploy(longer, account, update=True), deploy(longer, account, update=True)

    assert (updated.changed, again.changed, updated.resources) == ((name, mapping), (), before.resources)
    with closing(account.functions()) as functions, closing(account.sqs()) as sqs:
        assert functions.get_function_configuration(FunctionName=before.resources[name])["Timeout"] == 77
        assert "Filters" not in functions.get_event_source_mapping(UUID=before.resources[mapping])["FilterCriteria"]
        assert sqs.receive_message(QueueUrl=before.outputs["QueueUrl"])["Messages"][0]["Body"] == "kept"


def test_update_takes_a_revert_when_the_last_failed(account: Connection, synthesised: SynthesisedStack) -> None:
    deploy(synthesised, account)
    queue, bad = edited(synthesised, "AWS::SQS::Queue", VisibilityTimeout=43201)
    function, worse = edited(synthesised, "AWS::Lambda::Function", Layers=["arn:x"])
    for name, stack in ((queue, bad), (function, worse)):
        with pytest.raises(DeploymentFailed, match=rf"ended in UPDATE_ROLLBACK_COMPLETE.\n{name} \(.*$"):
            deploy(stack, account, update=True)
        assert deploy(synthesised, account, update=True).changed == ()


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("AWS::DynamoDB::GlobalTable", {"StreamSpecification": {"StreamViewType": "NEW_IMAGE"}}),
        ("AWS::SQS::Queue", {"FifoQueue": True}),
        ("AWS::SQS::Queue", {"QueueName": "another"}),
    ],
)
def test_update_is_refused_when_a_table_or_queue_would_lose_its_content(
    account: Connection, synthesised: SynthesisedStack, kind: str, properties: dict[str, object]
) -> None:
    deploy(synthesised, account)
    name, other = edited(synthesised, kind, **properties)
    gone = {each: about for each, about in other.template["Resources"].items() if each != name}
    for stack in (other, replace(other, template={**other.template, "Resources": gone})):
        with pytest.raises(DeploymentFailed, match=f"Nothing was updated, .*{name}"):
            deploy(stack, account, update=True)


@pytest.mark.slow
def test_deploy_takes_a_template_above_the_request_limit(account: Connection, synthesised: SynthesisedStack) -> None:
    template = {**copy.deepcopy(synthesised.template), "Metadata": {"padding": "x" * 60_000}}
    assert len(json.dumps(template)) > 51_200
    assert set(deploy(replace(synthesised, template=template), account).outputs) == set(template["Outputs"])
