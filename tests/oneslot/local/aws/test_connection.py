"""The clients of the local stack, made from one session, each for its own account."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.loaders import JSONFileLoader

from oneslot.local.aws import connection
from oneslot.local.aws.connection import Connection


class Body(BytesIO):
    """A response's body with the interface of urllib3."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        """Yield the whole body."""
        yield self.read()


def request_of(client: Any) -> AWSPreparedRequest:
    """Return the request of this SQS client, which gets an empty answer."""
    sent: list[AWSPreparedRequest] = []

    def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        sent.append(request)
        return AWSResponse(request.url, 200, HTTPHeaders(), Body(b"{}"))

    client.meta.events.register("before-send", answer)
    client.list_queues()
    (request,) = sent
    return request


def test_clients_made_in_threads_keep_their_own_account() -> None:
    connections = [
        Connection(f"http://127.0.0.1:{number}", f"{number:012}", region=("eu-west-2", "eu-west-1")[number % 2])
        for number in range(1, 17)
    ]
    with ThreadPoolExecutor(max_workers=16) as threads:
        clients = list(threads.map(lambda own: own.sqs(), connections))
    for own, client in zip(connections, clients, strict=True):
        request = request_of(client)
        assert request.url == f"{own.endpoint_url}/"
        authorization: Any = request.headers["Authorization"]
        credential = authorization.decode().partition("Credential=")[2].split("/")
        assert (credential[0], credential[2]) == (own.account, own.region)
        client.close()


def test_clients_share_one_parse_of_the_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parse takes a tenth of a second of CPU, and every command makes two clients or more."""
    read: list[str] = []
    really = JSONFileLoader.load_file

    def noted(self: JSONFileLoader, path: str) -> Any:
        content = really(self, path)
        if content is not None:  # None for a folder of AWS_DATA_PATH without the file
            read.append(path)
        return content

    monkeypatch.setattr(JSONFileLoader, "load_file", noted)
    connection._session.cache_clear()  # as in a new process
    for account in ("000000000001", "000000000002"):
        for make in (Connection.sqs, Connection.dynamodb):
            make(Connection("http://127.0.0.1:1", account)).close()
    assert len([path for path in read if path.endswith("endpoints")]) == 1


def test_client_ignores_the_users_aws_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_PROFILE names a missing profile, as in a shell that was configured for another project."""
    (configuration := tmp_path / "config").write_text("[default]\nretry_mode = adaptive\n[profile broken\n")
    given = {
        "AWS_PROFILE": "work",
        "AWS_CONFIG_FILE": str(configuration),
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_RETRY_MODE": "adaptive",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    connection._session.cache_clear()  # as in a new process
    own = Connection("http://127.0.0.1:1")
    client: Any = own.sqs()
    assert client.meta.endpoint_url == own.endpoint_url
    assert client.meta.config.retries["mode"] != "adaptive"
    assert client.meta.config.retries["total_max_attempts"] > 1
    assert client.meta.config.proxies == {}
    assert request_of(client).url == f"{own.endpoint_url}/"
    client.close()
