"""Queries that are asked together are answered as the client answers them, or left to it: over real connections."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from zlib import crc32

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from urllib3.util import wait_for_read

from booking.queries_together import QueriesTogether
from oneslot.explorer.scenario import free_slots
from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment
from oneslot.local.aws.synthesis import synthesise
from tests.behaviours.conftest import running_stack

pytestmark = pytest.mark.embedded_aws  # what opens sockets on loopback; most of these have a server of their own

CREDENTIALS = Credentials("AKIDEXAMPLE", "secret", "token")


class Server:
    """Answers each query with its own practice; `faults` says by practice what goes wrong, once each."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.faults: dict[str, str] = {}
        self.seen: list[tuple[Mapping[str, str], bytes]] = []
        self.connections: set[tuple[str, int]] = set()
        self.ended = Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.connections.add(self.client_address)
                server.seen.append((dict(self.headers), body))
                practice = json.loads(body)["ExpressionAttributeValues"][":practice"]["S"]
                server.answer(self, practice, server.faults.pop(practice, ""))

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Listener(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A client that went away, or does not trust this server, is what these tests are about."""

        self.http = Listener(("127.0.0.1", 0), Handler)
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.http.server_port}"

    def answer(self, request: BaseHTTPRequestHandler, practice: str, fault: str) -> None:
        body = json.dumps({"Items": [{"free_key": {"S": practice}}], "Count": 1}).encode()
        if fault == "closed":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault == "silent":
            self.ended.wait(30)
            return
        if fault == "no JSON":
            body = b"<html>"
        if fault == "refused":
            body = json.dumps({"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException"}).encode()
        request.send_response({"refused": 400, "broken": 500}.get(fault, 200))
        request.send_header("Content-Length", str(len(body) + (10 if fault == "cut" else 0)))
        request.send_header("x-amz-crc32", str(crc32(body) + (fault == "spoilt")))
        request.end_headers()
        request.wfile.write(body)
        if fault in ("cut", "last"):  # `last`: a whole answer, and then this side hangs up, as after an idle time
            request.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Server())


def serving(server: Server) -> Iterator[Server]:
    thread = Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.ended.set()
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def together(server: Server, connections: int = 3, read_timeout: float = 20, **options: Any) -> QueriesTogether:
    config = Config(connect_timeout=20, read_timeout=read_timeout, user_agent="Oneslot Botocore/0")
    session: Any = boto3.Session("unused", "unused", region_name="eu-west-2")
    client = session.client("dynamodb", endpoint_url=server.url, config=config)
    return QueriesTogether(client, CREDENTIALS, connections, **options)


def query(practice: str) -> dict[str, Any]:
    return {
        "TableName": "slots",
        "KeyConditionExpression": "practice = :practice",
        "ExpressionAttributeValues": {":practice": {"S": practice}},
    }


def answered(answers: Sequence[Mapping[str, Any] | None]) -> list[str | None]:
    return [None if answer is None else answer["Items"][0]["free_key"]["S"] for answer in answers]


@pytest.mark.parametrize("threads", [0, 3])
def test_each_query_has_its_own_answer_and_connections_are_kept(server: Server, threads: int) -> None:
    """Also where there are more queries than connections."""
    executor = ThreadPoolExecutor(threads) if threads else None
    ask = together(server, executor=executor)
    for _ in range(2):
        assert answered(ask([query(name) for name in "abcdefgh"])) == list("abcdefgh")
        assert answered(ask([query("i")])) == ["i"]
        assert ask([]) == []
    assert len(server.connections) == 3
    if executor:
        executor.shutdown()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("closed", "RemoteDisconnected"),
        ("cut", "IncompleteRead"),
        ("no JSON", "JSONDecodeError"),
        ("spoilt", "ValueError"),
        ("refused", "HTTP 400"),
        ("broken", "HTTP 500"),
    ],
)
def test_what_has_no_whole_answer_is_left_to_the_client(
    server: Server, caplog: pytest.LogCaptureFixture, fault: str, said: str
) -> None:
    """The others are answered, the cause is told without what was asked, and the next time all is well."""
    ask = together(server)
    server.faults["b"] = fault
    assert answered(ask([query(name) for name in "abc"])) == ["a", None, "c"]
    assert caplog.messages == [f"1 of 3 queries are left to the client: {said}"]
    assert answered(ask([query(name) for name in "cba"])) == ["c", "b", "a"]
    assert len(caplog.messages) == 1


def test_one_that_never_answers_keeps_no_later_one_waiting(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share the time that the client gives one; and what comes after it is taken by nobody."""
    ask = together(server, read_timeout=0.2)
    waited: list[float] = []

    class Noted(socket.socket):
        def settimeout(self, value: float | None) -> None:
            waited.append(value or 0)
            super().settimeout(value)

    server.faults |= dict.fromkeys("abc", "silent")
    clock = iter([0.0, 0.0, 0.15, 5.0])
    monkeypatch.setattr("booking.queries_together.time.monotonic", lambda: next(clock))
    for connection in ask._connections:
        connection.connect()
        connection.sock = Noted(fileno=connection.sock.detach())
    assert ask([query(name) for name in "abc"]) == [None, None, None]
    assert waited == pytest.approx([0.2, 0.2, 0.2, 0.2, 0.05, 0.001]), "opened three, and waited for three"
    assert caplog.messages == ["3 of 3 queries are left to the client: TimeoutError"]
    monkeypatch.undo()
    server.ended.set()
    assert answered(together(server)([query(name) for name in "def"])) == list("def")


def test_an_answer_that_nobody_took_is_not_taken_for_another_ones(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an interrupt between asking and reading."""
    ask = together(server)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ask, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ask([query(name) for name in "abc"])
    for _ in range(2):
        for name, found in zip("def", answered(ask([query(name) for name in "def"])), strict=True):
            assert found in (name, None)
    assert answered(ask([query(name) for name in "ghi"])) == list("ghi")


def test_a_connection_that_was_hung_up_meanwhile_is_opened_again(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Lambda stops an environment between two batches, and DynamoDB does not wait for it."""
    ask = together(server)
    server.faults |= dict.fromkeys("abc", "last")
    assert answered(ask([query(name) for name in "abc"])) == list("abc")
    for connection in ask._connections:
        assert wait_for_read(connection.sock, timeout=20)
    assert answered(ask([query(name) for name in "def"])) == list("def")
    assert caplog.messages == []


def test_what_an_interrupt_left_of_a_connection_is_opened_anew(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """As in the midst of a TLS handshake, whose socket has no descriptor any more."""
    ask = together(server)
    assert answered(ask([query("a")])) == ["a"]
    socket.socket(fileno=ask._connections[0].sock.detach()).close()
    assert answered(ask([query("b")])) == ["b"]
    assert caplog.messages == []


def test_where_nobody_listens_all_is_left_to_the_client_at_once(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried again one after the other, ten that time out would take most of a function's time."""
    connect, tried = HTTPConnection.connect, list[HTTPConnection]()

    def noted(connection: HTTPConnection) -> None:
        tried.append(connection)
        connect(connection)

    monkeypatch.setattr(HTTPConnection, "connect", noted)
    with ThreadPoolExecutor(2) as executor:
        ask = together(server, executor=executor)
        server.http.shutdown()
        server.http.server_close()
        assert ask([query(name) for name in "ab"]) == [None, None]
    assert caplog.messages == ["2 of 2 queries are left to the client: ConnectionRefusedError"]
    assert len(tried) == len(set(tried)) == 2


def test_each_query_is_signed_for_the_credentials_of_the_moment(server: Server) -> None:
    """What arrives bears the signature that botocore makes for just that."""
    ask = together(server)
    for credentials in (CREDENTIALS, Credentials("AKIDOTHER", "other", None)):
        ask._credentials = credentials
        server.seen.clear()
        assert answered(ask([query(name) for name in "ab"])) == ["a", "b"]
        for headers, body in server.seen:
            signed = headers["Authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
            assert {"host", "x-amz-date", "x-amz-target"} <= set(signed)
            assert ("x-amz-security-token" in signed) is (credentials.token is not None)
            given = {name: value for name, value in headers.items() if name.lower() in signed}
            again = AWSRequest("POST", f"{server.url}/", given, body)
            again.context["timestamp"] = headers["X-Amz-Date"]
            signer = SigV4Auth(credentials, "dynamodb", "eu-west-2")
            text = signer.string_to_sign(again, signer.canonical_request(again))
            assert headers["Authorization"].endswith(f"Signature={signer.signature(text, again)}")
            assert headers["Authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/")
            assert headers["X-Amz-Target"] == "DynamoDB_20120810.Query"
            assert headers["Content-Type"] == "application/x-amz-json-1.0"
            assert headers["User-Agent"].startswith("Oneslot Botocore/0")


def certificate(folder: Path) -> ssl.SSLContext:
    """A server's context with a certificate that signs itself, in `certificate.pem` there."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    signed = built.add_extension(names, critical=False).sign(key, hashes.SHA256())
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("trusted", [True, False])
def test_only_a_server_that_is_trusted_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, trusted: bool, threads: int
) -> None:
    """By botocore's certificates, or those that the client is told to trust."""
    server = Server(certificate(tmp_path))
    if trusted:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "certificate.pem"))
    executor = ThreadPoolExecutor(threads) if threads else None
    for _ in serving(server):
        found = answered(together(server, executor=executor)([query(name) for name in "ab"]))
    if executor:
        executor.shutdown()
    assert found == (["a", "b"] if trusted else [None, None])
    assert len(server.seen) == (2 if trusted else 0)
    assert caplog.messages == ([] if trusted else ["2 of 2 queries are left to the client: SSLCertVerificationError"])


def test_the_answers_are_the_clients(deployed: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    """On the embedded AWS, by the real table and its index."""
    connection = deployed.connection
    client: Any = connection.client("dynamodb")
    practices = ["Z90001", "Z90002", "Z90003"]
    for practice in practices[:2]:
        for slot in free_slots(3):
            item = {**slot, "practice": practice}
            client.put_item(
                TableName=deployed.outputs["SlotsTableName"],
                Item={name: {"S": value} for name, value in item.items() if isinstance(value, str)},
            )
    queries = [
        {
            "TableName": deployed.outputs["SlotsTableName"],
            "IndexName": "free_slots",
            "ConsistentRead": True,
            "KeyConditionExpression": "practice = :practice AND free_key BETWEEN :first AND :last",
            "ExpressionAttributeValues": {":practice": {"S": practice}, ":first": {"S": "A"}, ":last": {"S": "Z"}},
            "ProjectionExpression": "free_key",
            "Limit": 2,
        }
        for practice in practices
    ]
    credentials = Credentials(connection.access_key_id, connection.secret_access_key)
    found = QueriesTogether(client, credentials, 10)(queries)
    assert caplog.messages == []
    assert [answer and answer["Count"] for answer in found] == [2, 2, 0]
    for answer, one in zip(found, queries, strict=True):
        expected = client.query(**one)
        assert answer is not None
        assert {name: answer.get(name) for name in ("Items", "Count", "ScannedCount", "LastEvaluatedKey")} == {
            name: expected.get(name) for name in ("Items", "Count", "ScannedCount", "LastEvaluatedKey")
        }


def test_a_whole_stack_asks_together(account: Connection, tmp_path: Path) -> None:
    """With groups and on one core: every request is answered once, and the client is not asked for every group."""
    context = {"stage": "dev", "group_commit": "true", "queries_together": "true", "one_core": "true"}
    stack = read_stack(synthesise(tmp_path / "assembly", context=context), "Oneslot-dev")
    with running_stack(account, stack, tmp_path / "home") as (poller, terminal):
        terminal.json("seed", "--slots", "300", "--practice-count", "12")
        terminal.json("send", "--count", "60", "--duplicates", "0", "--seed", "7")
        assert terminal.json("watch", "--until-drained", "--timeout", "300")["drained"]
        check = terminal.json("check")
        assert check["holds"]
        assert check["counts"]["requests"] == 60
        invocations = Counter(
            line["function_request_id"]
            for line in map(json.loads, poller.log_file.read_text().splitlines())
            if "function_request_id" in line
        )
        groups = sum(records > 1 for records in invocations.values())
    # Lambda has warnings in the log. A machine that is slow just then may make one; each group would, if it never worked.
    warnings = (tmp_path / "home" / "handler.stderr.log").read_text()
    assert warnings.count("left to the client") + warnings.count("one by one") < groups
