"""Backups of the tables that nothing else can rebuild, in a vault of their own: they outlive a deleted table."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_backup as backup
from aws_cdk import aws_events as events
from constructs import Construct

from oneslot.cdk.resources import removal_policy
from oneslot.cdk.rules import accept
from stacks.shared.keys import customer_managed_key

TABLES = ("ledger", "appointments")
"""The slots can be opened again: the appointments say which are taken."""


class TableBackup(Construct):
    """A backup each night, kept for `days`. Point-in-time recovery covers faults of the last 35 days without it."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: str, table_arns: Mapping[str, str], days: int, retain: bool
    ) -> None:
        super().__init__(scope, construct_id)
        key = customer_managed_key(self, "Key", description=f"Oneslot {stage}: backups of its tables", retain=retain)
        vault = backup.BackupVault(
            self,
            "Vault",
            encryption_key=key,
            block_recovery_point_deletion=retain,
            removal_policy=removal_policy(retain=retain),
        )
        rule = backup.BackupPlanRule(
            backup_vault=vault,
            delete_after=Duration.days(days),
            schedule_expression=events.Schedule.cron(hour="2", minute="0"),
        )
        plan = backup.BackupPlan(self, "Plan", backup_plan_rules=[rule])
        selection = plan.add_selection(
            "Tables", resources=[backup.BackupResource.from_arn(table_arns[name]) for name in TABLES]
        )
        accept(
            selection,
            {
                "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
                "AWSBackupServiceRolePolicyForBackup]": "AWS Backup names this policy for its role, and keeps it to its needs"
            },
        )
