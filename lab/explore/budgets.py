"""The budgets of the explorations: short for `make test`, full for `make -C lab explore`."""

from __future__ import annotations

from dataclasses import replace

from lab.explore.group_scenarios import (
    BATCH_IN_GROUP,
    GROUP,
    GROUP_BESIDE_ITSELF,
    GROUP_BY_ITSELF,
    GROUP_CANCELLED,
    GROUP_CANCELLED_SIDE_BY_SIDE,
    GROUP_FORGOTTEN,
    GROUP_FORGOTTEN_OTHER,
    GROUP_LAST_SLOT,
    GROUP_OTHER_CONTENT,
    GROUP_RAISING,
    GROUP_SIDE_BY_SIDE,
    GROUP_TWICE,
    GROUP_UNKNOWN,
    SENT_TWICE_IN_GROUP,
)
from lab.explore.scenarios import (
    ALONE,
    APART,
    BATCH,
    BATCH_SIDE_BY_SIDE,
    BOOK_AND_CANCEL,
    BOOK_AND_CANCEL_APART,
    CANCEL_TWICE,
    CANCEL_WAITING,
    DOMAIN_EXCEPTION,
    FORGOTTEN,
    FORGOTTEN_AND_LATE,
    FORGOTTEN_CANCELLATION,
    FORGOTTEN_OTHER,
    FORGOTTEN_OTHER_AND_LATE,
    LAST_SLOT,
    LAST_SLOT_APART,
    ONE_REQUEST,
    OTHER_CONTENT,
    RELEASED,
    SAME_SLOT,
    SENT_TWICE,
    TOO_LATE,
    UNKNOWN_PRACTICE,
)
from oneslot.explorer.scenario import Scenario


def _sized(scenario: Scenario, faults: int, expiries: int, *deliveries: tuple[int, ...]) -> Scenario:
    return replace(scenario, faults=faults, expiries=expiries, deliveries=deliveries or scenario.deliveries)


SHORT = (
    *ALONE,
    _sized(ONE_REQUEST, 1, 1, (0,), (0,), (0,)),
    DOMAIN_EXCEPTION,
    RELEASED,
    OTHER_CONTENT,
    UNKNOWN_PRACTICE,
    FORGOTTEN,
    FORGOTTEN_AND_LATE,
    _sized(FORGOTTEN_OTHER, 1, 0),
    _sized(FORGOTTEN_OTHER_AND_LATE, 1, 0),
    _sized(FORGOTTEN_CANCELLATION, 1, 0),
    _sized(TOO_LATE, 1, 1),
    SAME_SLOT,
    _sized(LAST_SLOT, 1, 0),
    _sized(BOOK_AND_CANCEL, 1, 0),
    _sized(CANCEL_TWICE, 0, 1),
    CANCEL_WAITING,
    SENT_TWICE,
    _sized(BATCH, 1, 0),
    _sized(BATCH_SIDE_BY_SIDE, 0, 0),
)
"""Less than a minute: `make test`."""

FULL = (
    *ALONE,
    _sized(ONE_REQUEST, 2, 2, (0,), (0,), (0,)),
    _sized(ONE_REQUEST, 1, 1, (0,), (0,), (0,), (0,)),
    _sized(DOMAIN_EXCEPTION, 2, 2, (0,), (0,), (0,)),
    RELEASED,
    _sized(OTHER_CONTENT, 2, 1),
    _sized(UNKNOWN_PRACTICE, 2, 1),
    _sized(FORGOTTEN, 2, 1),
    _sized(FORGOTTEN_AND_LATE, 2, 1),
    _sized(FORGOTTEN_OTHER, 2, 1),
    _sized(FORGOTTEN_OTHER_AND_LATE, 2, 1),
    _sized(FORGOTTEN_CANCELLATION, 1, 1),
    _sized(TOO_LATE, 1, 2),
    _sized(SAME_SLOT, 1, 1),
    _sized(LAST_SLOT, 2, 1),
    _sized(BOOK_AND_CANCEL, 2, 1),
    _sized(CANCEL_TWICE, 1, 1),
    _sized(CANCEL_WAITING, 2, 0),
    _sized(SENT_TWICE, 1, 1),
    _sized(BATCH, 2, 1),
    _sized(BATCH_SIDE_BY_SIDE, 1, 0),
    _sized(APART, 2, 1),
    _sized(LAST_SLOT_APART, 1, 1),
    _sized(BOOK_AND_CANCEL_APART, 1, 1),
)
"""Minutes: `make -C lab explore`."""

GROUPS_SHORT = (
    _sized(GROUP_BY_ITSELF, 1, 0),
    _sized(BATCH_IN_GROUP, 1, 0),
    _sized(GROUP, 1, 0),
    _sized(GROUP, 0, 1),
    _sized(GROUP_TWICE, 0, 0),
    _sized(GROUP_LAST_SLOT, 0, 0),
    _sized(GROUP_CANCELLED, 0, 1),
    _sized(GROUP_OTHER_CONTENT, 0, 0),
    _sized(GROUP_FORGOTTEN, 0, 0),
    _sized(GROUP_FORGOTTEN_OTHER, 0, 0),
    _sized(GROUP_RAISING, 1, 0),
    _sized(GROUP_UNKNOWN, 0, 0),
    _sized(SENT_TWICE_IN_GROUP, 1, 0),
    _sized(GROUP_BESIDE_ITSELF, 0, 0),
    _sized(GROUP_CANCELLED_SIDE_BY_SIDE, 0, 0),
)
"""Half a minute: `make test`."""

GROUPS_FULL = (
    _sized(GROUP_BY_ITSELF, 1, 0),
    _sized(BATCH_IN_GROUP, 1, 1),
    _sized(GROUP, 1, 1),
    _sized(GROUP_TWICE, 1, 0),
    _sized(GROUP_TWICE, 1, 2),
    _sized(GROUP_LAST_SLOT, 1, 0),
    _sized(GROUP_CANCELLED, 1, 1),
    _sized(GROUP_OTHER_CONTENT, 1, 0),
    _sized(GROUP_FORGOTTEN, 1, 1),
    _sized(GROUP_FORGOTTEN_OTHER, 1, 1),
    _sized(GROUP_RAISING, 1, 1),
    _sized(GROUP_UNKNOWN, 1, 0),
    _sized(SENT_TWICE_IN_GROUP, 1, 1),
    _sized(GROUP_SIDE_BY_SIDE, 1, 0),
    _sized(GROUP_BESIDE_ITSELF, 1, 0),
    _sized(GROUP_CANCELLED_SIDE_BY_SIDE, 1, 0),
)
"""Minutes: `make -C lab explore`."""


BY_NAME = {scenario.name: scenario for scenario in (*FULL, *GROUPS_FULL)}
