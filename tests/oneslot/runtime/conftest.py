"""One Valkey or Redis server for the session."""

from collections.abc import Iterator

import pytest
import redis

from tests.kits.valkey_server import ValkeyServer


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Started when the first test asks for it."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def valkey(valkey_server: ValkeyServer) -> Iterator[redis.Redis]:
    """A client of an empty server."""
    client = valkey_server.client()
    client.flushall()
    yield client
    client.close()
