"""What an operator declares forgotten, such as requests of before a restore of all tables, is not compared (I7)."""

from __future__ import annotations

import pytest

from oneslot.laws.evidence import Evidence, breaches_of
from oneslot.laws.ledger import LEDGER_LAWS

(SAME_ANSWER,) = (law for law in LEDGER_LAWS if law.name == "I7")


@pytest.mark.parametrize(("forgotten_before", "broken"), [(0, True), (100, True), (200, False)])
def test_answers_are_compared_unless_the_first_was_forgotten(forgotten_before: int, broken: bool) -> None:
    """The request was sent and answered at 100, undone by a restore, and answered again after 200."""
    lines = [
        {"message_id": "m-1", "outcome": "complete", "answer": answer, "sent": sent, "finished": sent + 1}
        for sent, answer in ((100, "first"), (300, "second"))
    ]
    row = {"message_id": "m-1", "status": "COMPLETE", "consumption_count": 1, "updated": 301}
    evidence = Evidence(ledger={"m-1": row}, deliveries=lines, forgotten_before=forgotten_before, now=400)

    assert bool(list(breaches_of(SAME_ANSWER, evidence))) == broken
