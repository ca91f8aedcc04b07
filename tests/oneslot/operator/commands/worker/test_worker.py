"""`oneslot worker` runs the declared handler as the function is configured, for the queue that it polls."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import boto3
import pytest

from oneslot.declaration.reading import choosing, read_declaration
from oneslot.errors import InvalidArguments
from oneslot.operator.commands.worker.handler import load_handler, open_consumer
from tests.kits.moto_stack import Functions, MotoStack

ENVIRONMENT = {
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_TABLE_SLOTS": "slots",
    "ONESLOT_TABLE_APPOINTMENTS": "appointments",
    "ONESLOT_QUEUE_URL": "https://sqs/of-the-stack",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://sqs/dead-letters",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "2592000",
    "BATCH_CONCURRENCY": "10",
    "CANDIDATE_SLOTS": "16",
    "CONTENT_BASED_DEDUPLICATION": "false",
}
ROOT = Path(__file__).resolve().parents[5]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what the worker sets in this process."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(sys, "stdout", sys.stdout)


@pytest.mark.parametrize("configured", ["by a stack", "by oneslot env", "by hand"])
@pytest.mark.parametrize("named", [None, "https://sqs/another"])
def test_worker_defers_in_the_queue_that_it_polls(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, environment: None, named: str | None, configured: str
) -> None:
    log, of_a_stack = moto_stack.home / "consumer.jsonl", configured == "by a stack"
    if of_a_stack:
        monkeypatch.setattr("oneslot.local.aws.connection.Connection.functions", lambda _: Functions(ENVIRONMENT))
        monkeypatch.setattr("oneslot.local.aws.connection.Connection.sqs", lambda *_: moto_stack.bench.sqs)
    else:
        os.environ.update(ENVIRONMENT | {"AWS_DEFAULT_REGION": "eu-west-2"})
    if configured == "by oneslot env":
        os.environ["ONESLOT_DELIVERY_LOG"] = str(log)
    monkeypatch.delitem(sys.modules, "handler", raising=False)
    opened = open_consumer(None, named, 3)
    consumer = sys.modules.pop("handler").consumer
    assert opened.queue_url == consumer.queues.queue_url == (named or ENVIRONMENT["ONESLOT_QUEUE_URL"])
    assert consumer.queues.dead_letter_queue_url == "https://sqs/dead-letters"
    assert consumer.ledger.tables == {"ledger": "ledger", "slots": "slots", "appointments": "appointments"}
    actual = consumer.ledger.client.meta.config  # the function's: a retry must come before the lease ends
    assert (actual.connect_timeout, actual.read_timeout, actual.max_pool_connections) == (1, 3, 11)
    assert opened.limit_seconds == (30 if of_a_stack else None)
    sys.stdout.write("of the handler\n")
    found = log.read_text() if log.exists() else ""
    assert found == "of the handler\n" * (configured != "by hand"), "where check and inspect read"


def test_worker_runs_the_handler_of_any_declared_consumer(environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ.update(ENVIRONMENT | {"AWS_DEFAULT_REGION": "eu-west-2", "ONESLOT_TABLE_STOCK": "stock"})
    os.environ.update(AWS_ACCESS_KEY_ID="1", AWS_SECRET_ACCESS_KEY="1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the environment of its first use
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("app", "decision"):  # another test's modules may have these names
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    with choosing(read_declaration(ROOT / "oneslot/starter/oneslot.toml")):
        opened = open_consumer(None, "https://sqs/another", 5)
    consumer: Any = opened.handler
    assert opened.queue_url == consumer.queues.queue_url == "https://sqs/another"
    assert (consumer.ledger.tables["stock"], consumer.ledger.client.meta.config.max_pool_connections) == ("stock", 6)


def test_worker_says_which_variable_is_missing_when_nothing_names_a_queue(environment: None) -> None:
    os.environ.update({name: text for name, text in ENVIRONMENT.items() if name != "ONESLOT_QUEUE_URL"})
    with pytest.raises(
        InvalidArguments, match=r"appointments has no queue\. Give --queue-url, or set ONESLOT_QUEUE_URL"
    ):
        open_consumer(None, None, 1)


def test_load_takes_slashes_as_lambda_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"source_{tmp_path.name}" / "orders"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text("handle = print\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    assert load_handler(f"{folder.parent.name}/orders/app:handle") is print


def test_image_of_the_page_has_what_the_worker_imports(tmp_path: Path) -> None:
    page = (ROOT / "docs/do/run-a-worker.md").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", page, re.MULTILINE) for name in line.split()]
    for name in copied:
        (tmp_path / name).symlink_to(ROOT / name)
    # -S: the packages are found, and this repository, which is installed beside them, is not.
    path = os.pathsep.join(map(str, [tmp_path, tmp_path / "lambda_src", sysconfig.get_path("purelib")]))
    worker = [sys.executable, "-S", "-P", "-c", "import oneslot.__main__, oneslot.operator.cli, booking.consumer"]
    environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run(worker, env=environment, capture_output=True, text=True, check=False).stderr == ""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert {f'"{each}"' for each in asked} <= set(re.findall(r'"[a-z0-9-]+[=>][^"]+"', page))
