"""The appointments template beside the code that runs in it, and what protects a stage's data."""

import json
from typing import Any

from appointments.allocation import FREE_SLOTS_INDEX
from booking.consumer import appointments_consumer
from tests.kits.stacks import Stage

KEPT = {
    *("TablesLedgerF9806C8B", "TablesSlots5E065B42", "TablesAppointments81B9B062"),
    *("RequestsQueue8243F882", "RequestsDeadLetterQueueC49B2D5E", "ConsumerLogGroup43100DBC"),
}
"""The logical ids of what has data: add a new one. If one changes, CloudFormation makes a new, empty resource."""


def test_runtime_reads_the_environment_and_the_index(stage: Stage) -> None:
    variables = stage.of_output("ConsumerFunctionName")["Environment"]["Variables"]
    environment = {name: value if isinstance(value, str) else value["Ref"] for name, value in variables.items()}
    consumer: Any = appointments_consumer(environment, lambda delivery: None, dynamodb=object(), sqs=object())
    slots, ledger, settings = consumer.decide.__self__, consumer.ledger, stage.settings
    assert consumer.executor._max_workers == 10
    assert slots.candidate_slots == settings.candidate_slots
    assert ledger._retention_seconds == settings.ledger_retention_seconds
    assert consumer.content_based is settings.content_based_deduplication
    assert (consumer.group is not None) is settings.group_commit
    (index,) = stage.of_output("SlotsTableName")["LocalSecondaryIndexes"]
    assert index["IndexName"] == FREE_SLOTS_INDEX


def test_data_keeps_its_logical_ids_and_production_its_stacks(stages: dict[str, Stage], with_audit: Stage) -> None:
    kinds = ("AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue", "AWS::Logs::LogGroup")
    protected = set()
    for stage in (*stages.values(), with_audit):
        assert {name for kind in kinds for name in stage.resources(kind)} == KEPT
        artifacts = json.loads((stage.folder / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
        protected |= {
            name for name, each in artifacts.items() if each.get("properties", {}).get("terminationProtection")
        }
    assert protected == {"Oneslot-prod", "Oneslot-prod-audit"}
