"""The appointments template: relations between its resources, without copied numbers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from appointments.allocation import FREE_SLOTS_INDEX
from oneslot.runtime.lambda_consumer import FOREVER
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


def test_message_stays_hidden_for_the_lambda_timeout(stage: Stage) -> None:
    function = stage.of_output("ConsumerFunctionName")
    hidden = stage.of_output("QueueUrl")["VisibilityTimeout"]
    assert hidden == function["Timeout"] * stage.settings.visibility_multiplier
    assert hidden >= function["Timeout"]


def test_mapping_feeds_the_consumer_with_partial_responses(stage: Stage) -> None:
    mapping = stage.of_output("EventSourceMappingId")
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": [stage.logical_id("QueueUrl"), "Arn"]}
    function = stage.logical_id("ConsumerFunctionName")
    alias = list(stage.resources("AWS::Lambda::Alias"))
    assert re.findall(r'"Ref": "(\w+)"', json.dumps(mapping["FunctionName"])) == (alias or [function])
    assert bool(alias) == stage.settings.gradual_deployment
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": stage.settings.max_concurrency}
    assert mapping["BatchSize"] == stage.settings.batch_size
    assert mapping.get("MaximumBatchingWindowInSeconds", 0) == stage.settings.batching_window_seconds
    assert mapping.get("Enabled", True)


def test_dead_letter_queue_keeps_failed_messages_longer(stage: Stage) -> None:
    queue, dead = stage.of_output("QueueUrl"), stage.of_output("DeadLetterQueueUrl")
    redrive = queue["RedrivePolicy"]
    assert redrive["deadLetterTargetArn"] == {"Fn::GetAtt": [stage.logical_id("DeadLetterQueueUrl"), "Arn"]}
    assert redrive["maxReceiveCount"] == stage.settings.max_receive_count
    assert dead["MessageRetentionPeriod"] > queue["MessageRetentionPeriod"]
    assert dead["MaximumMessageSize"] > queue["MaximumMessageSize"]
    assert "RedrivePolicy" not in dead


def test_dead_letter_queue_serves_the_request_queue_alone(stage: Stage) -> None:
    allowed = stage.of_output("DeadLetterQueueUrl")["RedriveAllowPolicy"]
    assert allowed["redrivePermission"] == "byQueue"
    (source,) = allowed["sourceQueueArns"]
    partition, service, region, _, account, _, name = [part for part in source["Fn::Join"][1] if part != "arn:"]
    assert [partition, service, region, account] == [
        {"Ref": "AWS::Partition"},
        ":sqs:",
        {"Ref": "AWS::Region"},
        {"Ref": "AWS::AccountId"},
    ]
    assert name == stage.of_output("QueueUrl")["QueueName"]


def test_queues_are_standard_encrypted_and_refuse_plain_text(stage: Stage) -> None:
    protected = {}
    for policy in stage.resources("AWS::SQS::QueuePolicy").values():
        for queue in policy["Properties"]["Queues"]:
            protected[queue["Ref"]] = policy["Properties"]["PolicyDocument"]["Statement"]
    queues = stage.resources("AWS::SQS::Queue")
    assert protected.keys() == queues.keys()
    for name, queue in queues.items():
        assert queue["Properties"]["SqsManagedSseEnabled"] is True
        assert "FifoQueue" not in queue["Properties"]
        (denial,) = protected[name]
        assert denial == {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "sqs:*",
            "Resource": {"Fn::GetAtt": [name, "Arn"]},
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }


def test_rows_expire_in_the_ledger_alone(stage: Stage) -> None:
    expiring = {output: stage.of_output(output).get("TimeToLiveSpecification") for output in TABLES}
    assert expiring == {
        "LedgerTableName": {"AttributeName": "expires_at", "Enabled": True},
        "SlotsTableName": None,
        "AppointmentsTableName": None,
    }


def test_ledger_keeps_rows_when_retention_is_forever(keys: Stage) -> None:
    variables = keys.of_output("ConsumerFunctionName")["Environment"]["Variables"]
    assert variables["ONESLOT_LEDGER_RETENTION_SECONDS"] == FOREVER
    # Disabled rather than left out: CloudFormation leaves on what a template stops to mention.
    assert keys.of_output("LedgerTableName")["TimeToLiveSpecification"] == {
        "AttributeName": "expires_at",
        "Enabled": False,
    }
    assert "TimeToLiveSpecification" not in keys.of_output("SlotsTableName")
    assert variables["LEDGER_FORGOTTEN_BEFORE"] == "2026-11-23T14:00:00Z"


def test_ledger_row_outlives_every_copy_of_its_message(stage: Stage) -> None:
    kept = int(stage.of_output("ConsumerFunctionName")["Environment"]["Variables"]["ONESLOT_LEDGER_RETENTION_SECONDS"])
    queue, dead = stage.of_output("QueueUrl"), stage.of_output("DeadLetterQueueUrl")
    # A copy that is redriven on its last day waits in the queue a second time: the move resets its age.
    assert kept >= 2 * queue["MessageRetentionPeriod"] + dead["MessageRetentionPeriod"]
    assert dead["MessageRetentionPeriod"] > queue["MessageRetentionPeriod"], "its age continues there"
    assert stage.of_output("LedgerTableName")["TimeToLiveSpecification"] == {
        "AttributeName": "expires_at",
        "Enabled": True,
    }
    assert stage.properties("AWS::Logs::LogGroup")["RetentionInDays"] * 86_400 >= kept


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


def test_tables_are_on_demand_encrypted_and_restorable(stage: Stage) -> None:
    for output in TABLES:
        table = stage.of_output(output)
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["SSESpecification"]["SSEEnabled"] is True
        (replica,) = table["Replicas"]
        assert replica["Region"] == {"Ref": "AWS::Region"}
        assert replica["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_data_keeps_its_logical_ids(stage: Stage) -> None:
    """CloudFormation would replace a resource whose id changed, and with it a deployed stage's data."""
    kinds = ("AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue", "AWS::Logs::LogGroup", "AWS::Lambda::EventSourceMapping")
    assert {name for kind in kinds for name in stage.resources(kind)} == {
        "TablesLedgerF9806C8B",
        "TablesSlots5E065B42",
        "TablesAppointments81B9B062",
        "RequestsDeadLetterQueueC49B2D5E",
        "RequestsQueue8243F882",
        "ConsumerLogGroup43100DBC",
        "EventSourceMapping71C72703",
    }
    assert stage.logical_id("ConsumerFunctionName") == "ConsumerFunction1B019A9B"


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


def test_function_runs_the_handler_on_arm_with_json_logs(stage: Stage) -> None:
    function = stage.of_output("ConsumerFunctionName")
    assert function["Handler"] == "handler.lambda_handler"
    assert (stage.asset / "handler.py").read_text(encoding="utf-8").count("def lambda_handler(") == 1
    assert function["Architectures"] == ["arm64"]
    assert function["MemorySize"] == stage.settings.lambda_memory_mb
    assert function["LoggingConfig"] == {
        "LogFormat": "JSON",
        "ApplicationLogLevel": "INFO",
        "SystemLogLevel": "INFO",
        "LogGroup": {"Ref": stage.logical_id("ConsumerLogGroupName")},
    }
    assert "ReservedConcurrentExecutions" not in function
    assert "TracingConfig" not in function
    assert "Layers" not in function


def test_function_runs_the_newest_python_of_cdk(stage: Stage) -> None:
    from aws_cdk import aws_lambda as lambda_

    versions = [re.fullmatch(r"PYTHON_(\d+)_(\d+)", name) for name in dir(lambda_.Runtime)]
    newest = max((int(found[1]), int(found[2])) for found in versions if found)
    assert stage.of_output("ConsumerFunctionName")["Runtime"] == "python{}.{}".format(*newest)


def test_environment_is_the_settings_and_the_resources(stage: Stage) -> None:
    settings = stage.settings
    assert stage.of_output("ConsumerFunctionName")["Environment"]["Variables"] == {
        "ONESLOT_LEDGER_TABLE": {"Ref": stage.logical_id("LedgerTableName")},
        "ONESLOT_TABLE_SLOTS": {"Ref": stage.logical_id("SlotsTableName")},
        "ONESLOT_TABLE_APPOINTMENTS": {"Ref": stage.logical_id("AppointmentsTableName")},
        "ONESLOT_QUEUE_URL": {"Ref": stage.logical_id("QueueUrl")},
        "ONESLOT_DEAD_LETTER_QUEUE_URL": {"Ref": stage.logical_id("DeadLetterQueueUrl")},
        "ONESLOT_LEDGER_RETENTION_SECONDS": str(settings.ledger_retention_seconds),
        "ONESLOT_MAX_RECEIVE_COUNT": str(settings.max_receive_count),
        "ONESLOT_LONGEST_LEASE_SECONDS": str(settings.longest_lease_seconds),
        "ONESLOT_LONGEST_RETRY_DELAY_SECONDS": str(settings.longest_retry_delay_seconds),
        "BATCH_CONCURRENCY": str(settings.batch_concurrency),
        "CANDIDATE_SLOTS": str(settings.candidate_slots),
        "CONTENT_BASED_DEDUPLICATION": "true" if settings.content_based_deduplication else "false",
        "GROUP_COMMIT": "true" if settings.group_commit else "false",
        "POWERTOOLS_SERVICE_NAME": "appointments",
        "POWERTOOLS_METRICS_NAMESPACE": f"Oneslot/{settings.stage}",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }


def test_runtime_reads_the_environment(stage: Stage) -> None:
    from booking.consumer import appointments_consumer

    variables = stage.of_output("ConsumerFunctionName")["Environment"]["Variables"]
    environment = {name: value if isinstance(value, str) else value["Ref"] for name, value in variables.items()}
    consumer: Any = appointments_consumer(environment, lambda delivery: None, dynamodb=object(), sqs=object())
    slots, ledger, settings = consumer.decide.__self__, consumer.ledger, stage.settings
    assert consumer.executor is not None
    assert consumer.executor._max_workers == settings.batch_concurrency
    assert slots.candidate_slots == settings.candidate_slots
    assert ledger._retention_seconds == settings.ledger_retention_seconds
    assert consumer.content_based is settings.content_based_deduplication
    assert (consumer.group is not None) is settings.group_commit


def test_outputs_are_these(stage: Stage) -> None:
    kinds = {
        "QueueUrl": ("AWS::SQS::Queue", "Ref"),
        "QueueArn": ("AWS::SQS::Queue", "Fn::GetAtt"),
        "QueueName": ("AWS::SQS::Queue", "Fn::GetAtt"),
        "DeadLetterQueueUrl": ("AWS::SQS::Queue", "Ref"),
        "DeadLetterQueueArn": ("AWS::SQS::Queue", "Fn::GetAtt"),
        "DeadLetterQueueName": ("AWS::SQS::Queue", "Fn::GetAtt"),
        "LedgerTableName": ("AWS::DynamoDB::GlobalTable", "Ref"),
        "SlotsTableName": ("AWS::DynamoDB::GlobalTable", "Ref"),
        "AppointmentsTableName": ("AWS::DynamoDB::GlobalTable", "Ref"),
        "ConsumerFunctionName": ("AWS::Lambda::Function", "Ref"),
        "ConsumerLogGroupName": ("AWS::Logs::LogGroup", "Ref"),
        "EventSourceMappingId": ("AWS::Lambda::EventSourceMapping", "Ref"),
    }
    outputs = stage.template["Outputs"]
    resources = stage.template["Resources"]
    assert {
        name: (resources[stage.logical_id(name)]["Type"], *output["Value"]) for name, output in outputs.items()
    } == kinds


def test_given_settings_are_an_output(fifo: Stage) -> None:
    assert fifo.template["Outputs"]["GivenSettings"]["Value"] == "-c queue=fifo -c audit=true"


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


def test_queue_invokes_the_alias_when_snap_start_is_on(rush: Stage, stages: dict[str, Stage]) -> None:
    assert rush.of_output("ConsumerFunctionName")["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    ((alias, properties),) = rush.resources("AWS::Lambda::Alias").items()
    ((version, _),) = rush.resources("AWS::Lambda::Version").items()
    assert properties["Properties"]["FunctionVersion"] == {"Fn::GetAtt": [version, "Version"]}
    invoked = json.dumps(rush.properties("AWS::Lambda::EventSourceMapping")["FunctionName"])
    assert json.dumps({"Ref": alias}) in invoked
    assert ":live" in invoked
    plain = stages["dev"]
    assert "SnapStart" not in plain.of_output("ConsumerFunctionName")
    assert not plain.resources("AWS::Lambda::Alias")
    assert not plain.resources("AWS::Lambda::Version")


def test_production_deploys_gradually(stages: dict[str, Stage]) -> None:
    stage = stages["prod"]
    group = stage.properties("AWS::CodeDeploy::DeploymentGroup")
    assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
    alarms = stage.resources("AWS::CloudWatch::Alarm")
    assert {name for name in alarms if name in json.dumps(group["AlarmConfiguration"])} == set(alarms) != set()
    assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
    (alias,) = stage.resources("AWS::Lambda::Alias").values()
    assert "CodeDeployLambdaAliasUpdate" in alias["UpdatePolicy"]
    assert stages["dev"].resources("AWS::CodeDeploy::DeploymentGroup") == {}


def test_rollback_alarms_watch_the_new_version_in_the_stages_namespace(stages: dict[str, Stage]) -> None:
    watched = [
        alarm["Properties"]["Metrics"][0]["MetricStat"]["Metric"]
        for alarm in stages["prod"].resources("AWS::CloudWatch::Alarm").values()
    ]
    metrics = {metric["MetricName"]: metric for metric in watched}
    assert set(metrics) == {"Errors", "DeliveriesFailedByVersion"}
    assert metrics["DeliveriesFailedByVersion"]["Namespace"] == "Oneslot/prod"
    (version,) = stages["prod"].resources("AWS::Lambda::Version")
    assert all(version in json.dumps(metric["Dimensions"]) for metric in watched)


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


def test_pollers_take_the_place_of_the_maximum(rush: Stage) -> None:
    mapping = rush.of_output("EventSourceMappingId")
    assert mapping["ProvisionedPollerConfig"] == {"MinimumPollers": 20, "MaximumPollers": 100}
    assert "ScalingConfig" not in mapping


def test_tables_take_their_throughput_from_the_settings(rush: Stage, stages: dict[str, Stage]) -> None:
    tables = [table["Properties"] for table in rush.resources("AWS::DynamoDB::GlobalTable").values()]
    assert len(tables) == 3
    for table in tables:
        assert table["WarmThroughput"] == {"WriteUnitsPerSecond": 40_000}
        assert table["WriteOnDemandThroughputSettings"] == {"MaxWriteRequestUnits": 41_000}
    for table in stages["dev"].resources("AWS::DynamoDB::GlobalTable").values():
        assert not {"WarmThroughput", "WriteOnDemandThroughputSettings"} & set(table["Properties"])
