"""The deployed `handler.lambda_handler`, unmodified and on boto3's own clients, in the explorer of any handler."""

from __future__ import annotations

import pytest

from lab.handlers.__main__ import explored
from lab.handlers.subjects import OURS


@pytest.mark.slow
def test_deployed_handler_takes_effect_as_if_once() -> None:
    (appointments,) = (subject for subject in OURS if subject.handler == "handler.lambda_handler")

    found = explored(appointments)

    assert (found["holds"], found["complete"], found["outside"]) == (True, True, [])
    assert found["states"] > 1_000
