"""The appointments template: relations between its resources, without copied numbers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from appointments.allocation import FREE_SLOTS_INDEX
from tests.kits.stacks import Stage

KEPT = {
    *("TablesLedgerF9806C8B", "TablesSlots5E065B42", "TablesAppointments81B9B062"),
    *("RequestsQueue8243F882", "RequestsDeadLetterQueueC49B2D5E", "ConsumerLogGroup43100DBC"),
}
"""The logical ids of what has data, as the first deployed stacks have them."""

TABLES = ("LedgerTableName", "SlotsTableName", "AppointmentsTableName")


def keys(table: dict[str, Any]) -> dict[str, str]:
    """{"HASH": ..., "RANGE": ...} of a table or index."""
    return {key["KeyType"]: key["AttributeName"] for key in table["KeySchema"]}


def test_tables_have_the_runtimes_keys(stage: Stage) -> None:
    assert {output: keys(stage.of_output(output)) for output in TABLES} == {
        "LedgerTableName": {"HASH": "message_id"},
        "SlotsTableName": {"HASH": "practice", "RANGE": "slot_id"},
        "AppointmentsTableName": {"HASH": "appointment_id"},
    }
    (index,) = stage.of_output("SlotsTableName")["LocalSecondaryIndexes"]
    assert index["IndexName"] == FREE_SLOTS_INDEX
    assert keys(index) == {"HASH": "practice", "RANGE": "free_key"}
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}


@pytest.mark.parametrize(("name", "policy", "protected"), [("dev", "Delete", False), ("prod", "Retain", True)])
def test_production_outlives_its_stack(stages: dict[str, Stage], name: str, policy: str, protected: bool) -> None:
    stage = stages[name]
    kinds = ("AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue", "AWS::Logs::LogGroup")
    holding_data = [resource for kind in kinds for resource in stage.resources(kind).values()]
    assert {(found["DeletionPolicy"], found["UpdateReplacePolicy"]) for found in holding_data} == {(policy, policy)}
    for output in TABLES:
        assert stage.of_output(output)["Replicas"][0]["DeletionProtectionEnabled"] is protected
    manifest = json.loads((stage.folder / "manifest.json").read_text(encoding="utf-8"))
    stack = manifest["artifacts"][f"Oneslot-{name}"]["properties"]
    assert stack.get("terminationProtection", False) is protected


def test_runtime_reads_the_environment(stage: Stage) -> None:
    from booking.consumer import appointments_consumer

    variables = stage.of_output("ConsumerFunctionName")["Environment"]["Variables"]
    environment = {name: value if isinstance(value, str) else value["Ref"] for name, value in variables.items()}
    consumer: Any = appointments_consumer(environment, lambda delivery: None, dynamodb=object(), sqs=object())
    slots, ledger, settings = consumer.decide.__self__, consumer.ledger, stage.settings
    assert consumer.executor is not None
    assert consumer.executor._max_workers == 10
    assert slots.candidate_slots == settings.candidate_slots
    assert ledger._retention_seconds == settings.ledger_retention_seconds
    assert consumer.content_based is settings.content_based_deduplication
    assert (consumer.group is not None) is settings.group_commit


def test_template_fits_any_account_and_region(stage: Stage) -> None:
    assert re.findall(r"\b\d{12}\b", stage.template_text) == []
    assert re.findall(r"\b[a-z]{2}-(?:[a-z]+-)+\d\b", stage.template_text) == []
    assert re.findall(r"arn:aws:", stage.template_text) == []
    for name, resource in stage.template["Resources"].items():
        for key, value in resource.get("Properties", {}).items():
            if key in {"QueueName", "TableName", "FunctionName", "RoleName", "LogGroupName"}:
                assert not isinstance(value, str), f"{name} has the fixed {key} {value}"
    # The one name that is given holds the stack's own id.
    assert '"Ref": "AWS::StackId"' in stage.template_text
    assert stage.template.keys() <= {"Description", "Resources", "Outputs"}


def test_rollback_role_does_not_wait_for_the_alias(stages: dict[str, Stage]) -> None:
    """The alias waits for the group and the group for the role: CloudFormation refuses a circle."""
    stage = stages["prod"]
    (alias,) = stage.resources("AWS::Lambda::Alias")
    (role,) = [role for name, role in stage.resources("AWS::IAM::Role").items() if "Deployment" in name]
    assert alias not in json.dumps(role)
    assert ":live" in json.dumps(role)


def test_stateful_resources_keep_their_logical_ids(stages: dict[str, Stage]) -> None:
    """With another one CloudFormation would make a new, empty resource."""
    kinds = ("AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue", "AWS::Logs::LogGroup")
    for stage in stages.values():
        found = {name for kind in kinds for name in stage.resources(kind)}
        assert found == KEPT
