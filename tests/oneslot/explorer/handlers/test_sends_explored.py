"""Sends and their relay, every schedule of two copies and one fault: out at least once, under one id, after their commit.

`python -m lab.mutants relay` marks a row before it sends, among others, and the law breaks.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.explore.sends.exploration import IN_ORDER, THIRTY, explored, many_explored
from oneslot import Send

pytestmark = pytest.mark.slow


def test_message_goes_out_when_any_process_dies() -> None:
    result = explored()

    assert (result.holds, result.complete) == (True, True), result.verdict


@pytest.mark.parametrize("sends", [THIRTY, IN_ORDER], ids=["thirty", "a FIFO group"])
def test_messages_go_out_when_a_target_is_dead_and_any_process_dies(sends: Sequence[Send]) -> None:
    result = many_explored(sends)

    assert (result.holds, result.complete) == (True, True), result.verdict
