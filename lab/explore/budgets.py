"""The budgets of the explorations: short for `make test`, full for `make -C lab explore`."""

from __future__ import annotations

from dataclasses import replace

from lab.explore import group_scenarios, scenarios
from oneslot.explorer.scenario import Scenario


def _sized(scenario: Scenario, faults: int, expiries: int, *deliveries: tuple[int, ...]) -> Scenario:
    return replace(scenario, faults=faults, expiries=expiries, deliveries=deliveries or scenario.deliveries)


SHORT = (
    *scenarios.ALONE,
    _sized(scenarios.ONE_REQUEST, 1, 1, (0,), (0,), (0,)),
    scenarios.DOMAIN_EXCEPTION,
    scenarios.RELEASED,
    scenarios.OTHER_CONTENT,
    scenarios.UNKNOWN_PRACTICE,
    scenarios.FORGOTTEN,
    scenarios.FORGOTTEN_AND_LATE,
    _sized(scenarios.FORGOTTEN_OTHER, 1, 0),
    _sized(scenarios.FORGOTTEN_OTHER_AND_LATE, 1, 0),
    _sized(scenarios.FORGOTTEN_CANCELLATION, 1, 0),
    _sized(scenarios.TOO_LATE, 1, 1),
    scenarios.SAME_SLOT,
    _sized(scenarios.LAST_SLOT, 1, 0),
    _sized(scenarios.BOOK_AND_CANCEL, 1, 0),
    _sized(scenarios.CANCEL_TWICE, 0, 1),
    scenarios.CANCEL_WAITING,
    scenarios.SENT_TWICE,
    _sized(scenarios.BATCH, 1, 0),
    _sized(scenarios.BATCH_SIDE_BY_SIDE, 0, 0),
)
"""Less than a minute: `make test`."""

FULL = (
    *scenarios.ALONE,
    _sized(scenarios.ONE_REQUEST, 2, 2, (0,), (0,), (0,)),
    _sized(scenarios.ONE_REQUEST, 1, 1, (0,), (0,), (0,), (0,)),
    _sized(scenarios.DOMAIN_EXCEPTION, 2, 2, (0,), (0,), (0,)),
    scenarios.RELEASED,
    _sized(scenarios.OTHER_CONTENT, 2, 1),
    _sized(scenarios.UNKNOWN_PRACTICE, 2, 1),
    _sized(scenarios.FORGOTTEN, 2, 1),
    _sized(scenarios.FORGOTTEN_AND_LATE, 2, 1),
    _sized(scenarios.FORGOTTEN_OTHER, 2, 1),
    _sized(scenarios.FORGOTTEN_OTHER_AND_LATE, 2, 1),
    _sized(scenarios.FORGOTTEN_CANCELLATION, 1, 1),
    _sized(scenarios.TOO_LATE, 1, 2),
    _sized(scenarios.SAME_SLOT, 1, 1),
    _sized(scenarios.LAST_SLOT, 2, 1),
    _sized(scenarios.BOOK_AND_CANCEL, 2, 1),
    _sized(scenarios.CANCEL_TWICE, 1, 1),
    _sized(scenarios.CANCEL_WAITING, 2, 0),
    _sized(scenarios.SENT_TWICE, 1, 1),
    _sized(scenarios.BATCH, 2, 1),
    _sized(scenarios.BATCH_SIDE_BY_SIDE, 1, 0),
    _sized(scenarios.APART, 2, 1),
    _sized(scenarios.LAST_SLOT_APART, 1, 1),
    _sized(scenarios.BOOK_AND_CANCEL_APART, 1, 1),
)
"""Minutes: `make -C lab explore`."""

GROUPS_SHORT = (
    _sized(group_scenarios.GROUP_BY_ITSELF, 1, 0),
    _sized(group_scenarios.BATCH_IN_GROUP, 1, 0),
    _sized(group_scenarios.GROUP, 1, 0),
    _sized(group_scenarios.GROUP, 0, 1),
    _sized(group_scenarios.GROUP_TWICE, 0, 0),
    _sized(group_scenarios.GROUP_LAST_SLOT, 0, 0),
    _sized(group_scenarios.GROUP_CANCELLED, 0, 1),
    _sized(group_scenarios.GROUP_OTHER_CONTENT, 0, 0),
    _sized(group_scenarios.GROUP_FORGOTTEN, 0, 0),
    _sized(group_scenarios.GROUP_FORGOTTEN_OTHER, 0, 0),
    _sized(group_scenarios.GROUP_RAISING, 1, 0),
    _sized(group_scenarios.GROUP_UNKNOWN, 0, 0),
    _sized(group_scenarios.SENT_TWICE_IN_GROUP, 1, 0),
    _sized(group_scenarios.GROUP_BESIDE_ITSELF, 0, 0),
    _sized(group_scenarios.GROUP_CANCELLED_SIDE_BY_SIDE, 0, 0),
)
"""Half a minute: `make test`."""

GROUPS_FULL = (
    _sized(group_scenarios.GROUP_BY_ITSELF, 1, 0),
    _sized(group_scenarios.BATCH_IN_GROUP, 1, 1),
    _sized(group_scenarios.GROUP, 1, 1),
    _sized(group_scenarios.GROUP_TWICE, 1, 0),
    _sized(group_scenarios.GROUP_TWICE, 1, 2),
    _sized(group_scenarios.GROUP_LAST_SLOT, 1, 0),
    _sized(group_scenarios.GROUP_CANCELLED, 1, 1),
    _sized(group_scenarios.GROUP_OTHER_CONTENT, 1, 0),
    _sized(group_scenarios.GROUP_FORGOTTEN, 1, 1),
    _sized(group_scenarios.GROUP_FORGOTTEN_OTHER, 1, 1),
    _sized(group_scenarios.GROUP_RAISING, 1, 1),
    _sized(group_scenarios.GROUP_UNKNOWN, 1, 0),
    _sized(group_scenarios.SENT_TWICE_IN_GROUP, 1, 1),
    _sized(group_scenarios.GROUP_SIDE_BY_SIDE, 1, 0),
    _sized(group_scenarios.GROUP_BESIDE_ITSELF, 1, 0),
    _sized(group_scenarios.GROUP_CANCELLED_SIDE_BY_SIDE, 1, 0),
)
"""Minutes: `make -C lab explore`."""


BY_NAME = {scenario.name: scenario for scenario in (*FULL, *GROUPS_FULL)}
