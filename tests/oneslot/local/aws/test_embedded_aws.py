"""The process of the embedded AWS: its listeners, its environment and its end."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oneslot.errors import EmbeddedAwsFailed
from oneslot.local.aws import embedded_aws as module
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.state import start_ticks
from tests.kits.browser import opened
from tests.kits.local_mapping import wait_for

pytestmark = pytest.mark.embedded_aws


def test_embedded_aws_listens_on_loopback_and_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOG_LEVEL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "HTTPS_PROXY", "DOCKER_HOST", "BIND_HOST"):
        monkeypatch.setenv(name, "leaked")
    with EmbeddedAws(tmp_path) as aws:
        sqs = aws.connection().sqs()
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        assert url.startswith(f"{aws.endpoint_url}/")
        assert aws.endpoint_url.startswith("http://127.0.0.1:")
        if Path("/proc/net/tcp").exists():
            assert listening(aws.pid) == {"0100007F"}, "127.0.0.1 and nothing else"
            assert b"leaked" not in Path(f"/proc/{aws.pid}/environ").read_bytes()
        sqs.close()
        pid = aws.pid
        assert pid is not None
        assert aws.alive
    assert start_ticks(pid) is None
    assert not aws.alive
    aws.stop()


def listening(pid: int | None) -> set[str]:
    """Return the addresses (hexadecimal, as the kernel writes them) on which a process listens, in IPv4 and IPv6."""
    descriptors = [path.readlink().name for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    inodes = {name[len("socket:[") : -1] for name in descriptors if name.startswith("socket:[")}
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        if Path(f"/proc/net/{table}").exists()
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


def test_accounts_are_isolated(embedded_aws: EmbeddedAws) -> None:
    one, other = embedded_aws.connection("111111111111").sqs(), embedded_aws.connection("222222222222").sqs()
    assert "/111111111111/" in one.create_queue(QueueName="mine")["QueueUrl"]
    assert other.list_queues().get("QueueUrls", []) == []
    one.close()
    other.close()


def test_start_quotes_a_failing_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit('no room on this machine')")
    monkeypatch.setattr(module, "SERVER", program)
    aws = EmbeddedAws(tmp_path)
    with pytest.raises(EmbeddedAwsFailed, match="no room on this machine"):
        aws.start()
    assert aws.pid is None


def test_start_fails_when_the_emulator_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "hangs.py"
    program.write_text("import time; print('thinking', flush=True); time.sleep(600)")
    monkeypatch.setattr(module, "SERVER", program)
    monkeypatch.setattr(module, "START_SECONDS", 0.5)
    aws = EmbeddedAws(tmp_path)

    def no_answer(*_: object, **__: object) -> int:
        wait_for(lambda: "thinking" in aws.log_file.read_text())
        raise OSError("connection refused")

    monkeypatch.setattr("http.client.HTTPConnection.request", no_answer)
    with pytest.raises(EmbeddedAwsFailed, match=r"did not answer within.*\n.*thinking"):
        aws.start()


NOBODY = 65534
# What a stranger sends: the account's key id, which anybody can guess, and no token.
CREATE = """
import sys, urllib.error, urllib.request
headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=" + sys.argv[2] + "/20260101/eu-west-2/sqs/aws4_request"}
try:
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"Action=CreateQueue&QueueName=theirs", headers))
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def test_another_user_of_the_machine_is_refused(account: Connection) -> None:
    as_another: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
    run = subprocess.run(
        ["/usr/bin/env", "python3", "-c", CREATE, account.endpoint_url, account.account],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        **as_another,
    )
    assert run.stdout.startswith("403 ")
    assert "InvalidClientTokenId" in run.stdout
    assert queues(account) == []


@pytest.mark.parametrize("service", ["sqs", "dynamodb", "lambda", "s3", "cloudformation"])
def test_client_without_the_token_is_refused_by_each_protocol(account: Connection, service: str) -> None:
    listing = {
        "sqs": "list_queues",
        "dynamodb": "list_tables",
        "lambda": "list_functions",
        "s3": "list_buckets",
        "cloudformation": "describe_stacks",
    }
    stranger = Connection(account.endpoint_url, account.access_key_id, session_token="guessed").client(service)
    with pytest.raises(ClientError, match=r"InvalidClientTokenId.*oneslot env"):
        getattr(stranger, listing[service])()
    stranger.close()


@pytest.mark.browser
@pytest.mark.parametrize("knows_the_token", [False, True])
def test_web_page_is_refused(account: Connection, tmp_path: Path, knows_the_token: bool) -> None:
    query = f"?X-Amz-Security-Token={account.session_token}" if knows_the_token else ""
    credential = f"{account.account}/20260101/eu-west-2/sqs/aws4_request"
    page = tmp_path / "page.html"
    page.write_text(
        f"""<p id=said></p><script>
        fetch("{account.endpoint_url}/{query}", {{method: "POST", mode: "no-cors", body: new URLSearchParams(
          {{Action: "CreateQueue", QueueName: "theirs", "X-Amz-Credential": "{credential}"}})}})
          .then(answer => {{ document.getElementById("said").textContent = "the answer is " + answer.type }})
        </script>"""
    )
    assert "the answer is opaque" in opened(
        page, tmp_path, "--dump-dom", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    )
    assert queues(account) == []
    assert queues(Connection(account.endpoint_url, session_token=account.session_token), "theirs") == []


def queues(account: Connection, prefix: str = "") -> list[str]:
    """Return the addresses of the account's queues."""
    sqs = account.sqs()
    found: list[str] = sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
    sqs.close()
    return found
