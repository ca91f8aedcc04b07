"""A send and its relay, every schedule of two copies and one fault: out at least once, under one id, after its commit.

`python -m lab.mutants relay` marks the row before the send, and the law breaks.
"""

from __future__ import annotations

import pytest

from lab.explore.sends.exploration import explored

pytestmark = pytest.mark.slow


def test_message_goes_out_when_any_process_dies() -> None:
    result = explored()

    assert (result.holds, result.complete) == (True, True), result.verdict
