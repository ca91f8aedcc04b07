"""The fixture of the SQS tests."""

from __future__ import annotations

from random import Random

import pytest

from lab.simulation.sqs.service import SQSService
from tests.lab.simulation.sqs.sqs_clients import Queues
from tests.oneslot.explorer.port_clients import Clock


@pytest.fixture
def queues() -> Queues:
    """The queues in the stand-in."""
    return Queues(SQSService(Clock(), Random(1)))
