"""A stage's budget, and the backups of its tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oneslot.cdk.numbers import ContradictorySettings
from stacks.settings import Settings
from tests.kits.stacks import Stage, resolve
from tests.stacks.conftest import TOPIC


@pytest.fixture
def operations(rush: Stage) -> Stage:
    """The operations stack of a stage with both."""
    return replace(rush, part="-operations")


def test_budget_counts_the_stages_stacks(operations: Stage) -> None:
    budget = operations.properties("AWS::Budgets::Budget")

    assert budget["Budget"]["BudgetLimit"] == {"Amount": 200, "Unit": "USD"}
    names = ("Oneslot-dev", "Oneslot-dev-operations", "Oneslot-dev-audit")
    tags = [f"aws:cloudformation:stack-name${name}" for name in names]
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": tags}


def test_budget_notifies_the_mailbox_before_the_amount(operations: Stage) -> None:
    notices = operations.properties("AWS::Budgets::Budget")["NotificationsWithSubscribers"]

    assert [(each["Notification"]["NotificationType"], each["Notification"]["Threshold"]) for each in notices] == [
        ("ACTUAL", 80),
        ("FORECASTED", 100),
    ]
    for each in notices:
        assert each["Subscribers"] == [{"Address": operations.settings.budget_mail, "SubscriptionType": "EMAIL"}]


def test_backup_has_the_tables_that_cannot_be_rebuilt(operations: Stage) -> None:
    selection = resolve(operations.properties("AWS::Backup::BackupSelection")["BackupSelection"])

    assert [arn.rpartition("/")[2] for arn in selection["Resources"]] == [
        "<LedgerTableName>",
        "<AppointmentsTableName>",
    ]


def test_backups_are_kept_in_a_vault_with_a_key(keys: Stage) -> None:
    operations = replace(keys, part="-operations")
    vault = operations.properties("AWS::Backup::BackupVault")
    (rule,) = operations.properties("AWS::Backup::BackupPlan")["BackupPlan"]["BackupPlanRule"]

    assert resolve(vault["EncryptionKeyArn"]).endswith(".Arn>")
    assert vault["AccessPolicy"]["Statement"][0]["Effect"] == "Deny"
    assert (rule["Lifecycle"], rule["ScheduleExpression"]) == ({"DeleteAfterDays": 90}, "cron(0 2 * * ? *)")
    (resource,) = operations.resources("AWS::Backup::BackupVault").values()
    assert resource["DeletionPolicy"] == "Retain"


def test_stage_has_neither_unless_asked(stages: dict[str, Stage]) -> None:
    for stage in stages.values():
        found = replace(stage, part="-operations").template["Resources"].values()
        assert not [each for each in found if each["Type"].startswith(("AWS::Budgets", "AWS::Backup"))]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"monthly_budget_dollars": 100}, "no one would be notified; set budget_mail or alarm_topic_arn"),
        ({"monthly_budget_dollars": 100, "budget_mail": "oncall"}, "budget_mail is 'oncall', not the address"),
        ({"monthly_budget_dollars": -1}, "monthly_budget_dollars is -1"),
        ({"backup": True, "backup_days": 0}, "backup_days is 0"),
    ],
)
def test_setting_is_refused_when_it_cannot_work(given: dict[str, object], said: str) -> None:
    with pytest.raises(ContradictorySettings, match=said):
        Settings(stage="dev", **given)  # type: ignore[arg-type]


def test_budget_may_notify_the_topic() -> None:
    assert Settings(stage="dev", monthly_budget_dollars=100, alarm_topic_arn=TOPIC).budget_mail == ""
