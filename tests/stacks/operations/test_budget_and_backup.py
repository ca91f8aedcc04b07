"""A stage's budget, and the backups of its tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oneslot.cdk.numbers import ContradictorySettings
from stacks.settings import Settings
from tests.kits.stacks import Stage
from tests.stacks.conftest import TOPIC


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
