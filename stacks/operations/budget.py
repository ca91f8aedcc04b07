"""A budget for a stage: a notice when its bill of a month nears an amount."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_budgets as budgets
from constructs import Construct

STACK_TAG = "aws:cloudformation:stack-name"
"""AWS sets it on every resource of a stack. The account must activate it for cost allocation."""
NOTICES = (("ACTUAL", 80), ("FORECASTED", 100))
"""Notify when this part of the amount, in percent, is spent or forecast."""


class StageBudget(Construct):
    """Notifies a mailbox or a topic. The topic's policy must let `budgets.amazonaws.com` publish."""

    def __init__(
        self, scope: Construct, construct_id: str, *, dollars: int, mail: str, topic_arn: str, stacks: Sequence[str]
    ) -> None:
        super().__init__(scope, construct_id)
        subscriber = {
            "subscriptionType": "EMAIL" if mail else "SNS",
            "address": mail or topic_arn,
        }
        threshold = {"comparisonOperator": "GREATER_THAN", "thresholdType": "PERCENTAGE"}
        budgets.CfnBudget(
            self,
            "Budget",
            budget={
                "budgetType": "COST",
                "timeUnit": "MONTHLY",
                "budgetLimit": {"amount": dollars, "unit": "USD"},
                "costFilters": {"TagKeyValue": [f"{STACK_TAG}${stack}" for stack in stacks]},
            },
            notifications_with_subscribers=[
                {
                    "notification": {**threshold, "notificationType": kind, "threshold": percent},
                    "subscribers": [subscriber],
                }
                for kind, percent in NOTICES
            ],
        )
