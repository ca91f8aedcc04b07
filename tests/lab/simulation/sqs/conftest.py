"""The fixture of the SQS contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest
from moto import mock_aws

from lab.simulation.sqs.service import SQSService
from tests.kits.consumer import session
from tests.lab.simulation.sqs.sqs_clients import DIVERGENCES, Queues
from tests.oneslot.explorer.port_clients import EVERYWHERE, MOTO, PORT, Clock


@pytest.fixture(params=EVERYWHERE)
def queues(request: pytest.FixtureRequest) -> Iterator[Queues]:
    """The queues in each client. A client that is known to differ must fail the test."""
    test = request.node.name.replace(f"[{request.param}]", "").replace(f"[{request.param}-", "[")
    reason = DIVERGENCES.get(test, {}).get(request.param)
    if reason is not None:
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    if request.param == PORT:
        yield Queues(SQSService(Clock(), Random(1)))
    elif request.param == MOTO:
        with mock_aws():
            yield Queues(session().client("sqs"))
    else:
        with closing(request.getfixturevalue("account").sqs()) as client:
            yield Queues(client)
