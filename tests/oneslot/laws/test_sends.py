"""Law I13: what a commit left to send is sent within an hour; a row without such messages is never late."""

from __future__ import annotations

from typing import Any

import pytest

from oneslot.laws.evidence import Evidence
from oneslot.laws.groups import judge
from oneslot.laws.ledger import LEDGER_LAWS, SENT_WITHIN_MS

NOW = 10 * SENT_WITHIN_MS
(SENDS_FOLLOW,) = (law for law in LEDGER_LAWS if law.name == "I13")


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ({"unsent": 2, "updated": NOW - SENT_WITHIN_MS - 1}, True),
        ({"unsent": 2, "updated": NOW - SENT_WITHIN_MS}, False),
        ({"updated": 0}, False),
    ],
)
def test_row_breaks_the_law_when_its_messages_wait_for_over_an_hour(row: dict[str, Any], broken: bool) -> None:
    usual = {"message_id": "m", "status": "COMPLETE", "consumption_count": 1, "result": '{"outcome":"taken"}'}

    found = judge(Evidence(ledger={"m": {**usual, **row}}, now=NOW), [SENDS_FOLLOW])

    assert [(each.invariant, each.subject) for each in found] == ([("I13", "m")] if broken else [])
    assert all("2 of its messages are not marked as sent" in each.detail for each in found)
