"""Backups of the tables that nothing else can rebuild, in a vault of their own: they outlive a deleted table."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_backup as backup
from aws_cdk import aws_events as events
from constructs import Construct

from oneslot.cdk.resources import name_in_this_stack, removal_policy
from oneslot.cdk.rules import accept
from stacks.shared.resources import customer_managed_key

TABLES = ("ledger", "appointments")
"""The slots can be opened again: the appointments say which are taken."""


class TableBackup(Construct):
    """A backup each night, kept for `days`. Point-in-time recovery covers faults of the last 35 days without it.

    Vault and key outlive their stack in every stage, because AWS Backup deletes no vault that has backups.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: str, table_arns: Mapping[str, str], days: int, locked: bool
    ) -> None:
        """Define the plan. `locked`: no role may delete a backup before its time."""
        super().__init__(scope, construct_id)
        key = customer_managed_key(self, "Key", description=f"Oneslot {stage}: backups of its tables", retain=True)
        vault = backup.BackupVault(
            self,
            "Vault",
            encryption_key=key,
            block_recovery_point_deletion=locked,
            removal_policy=removal_policy(retain=True),
        )
        resource = vault.node.default_child
        if not isinstance(resource, backup.CfnBackupVault):
            raise TypeError("a vault's default child is its CloudFormation resource")
        # In the template itself: CDK takes no name that holds the stack's id, and its own one is the same in each stack.
        resource.add_property_override("BackupVaultName", name_in_this_stack("backup"))
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
