"""Fixtures of the explorer's tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from moto import mock_aws

from oneslot.explorer.services.dynamodb import InMemoryDynamoDB
from tests.kits.consumer import create_tables, session
from tests.oneslot.explorer.port_clients import MOTO, PORT, Clock


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A DynamoDB client with the three tables, empty."""
    if request.param == PORT:
        port = InMemoryDynamoDB(Clock())
        create_tables(port)
        yield port
    elif request.param == MOTO:
        with mock_aws():
            made = session().client("dynamodb")
            create_tables(made)
            yield made
    else:
        with closing(request.getfixturevalue("account").dynamodb()) as made:
            create_tables(made)
            yield made
