"""The shop on the embedded AWS: 150 orders, a fifth of them twice, a killed worker, and what the tools say of it."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from examples.shop.stack import build
from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.stream_mapping import stream_mapping
from oneslot.local.state import DELIVERY_LOG, LocalState
from oneslot.runtime.values import from_attributes, to_attributes
from tests.kits.local_mapping import wait_for
from tests.kits.moto_stack import document, invoke

pytestmark = [pytest.mark.embedded_aws, pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
DECLARATION = str(ROOT / "examples" / "shop" / "oneslot.toml")
PIECES = {"teapot": 70, "mug": 40}
ORDERS = [
    {
        "message_id": f"order-{number}",
        "article": "mug" if number % 5 == 0 else "teapot",
        "customer": "bob" if number < 10 else f"customer-{number % 7}",
    }
    for number in range(150)
]
MESSAGES = [*ORDERS, *ORDERS[::5]]


@pytest.fixture
def shop(account: Connection, tmp_path: Path) -> Iterator[tuple[Deployment, dict[str, Any]]]:
    """The deployed shop with its stock and customers, and clients."""
    build(str(tmp_path / "cdk.out")).synth()
    deployment = deploy(read_stack(tmp_path / "cdk.out", "Shop"), account)
    with ExitStack() as stack:
        names = ("sqs", "sns", "dynamodb")
        clients = {name: stack.enter_context(closing(account.client(name))) for name in names}
        found: dict[str, list[dict[str, Any]]] = {
            "Stock": [{"article": name, "left": pieces, "first": pieces} for name, pieces in PIECES.items()],
            "Customers": [{"id": f"customer-{number}", "status": "active"} for number in range(7)],
            "Baskets": [{"customer": f"customer-{number}", "articles": ["teapot"]} for number in range(7)],
        }
        for table, items in found.items():
            for row in items:
                clients["dynamodb"].put_item(TableName=deployment.outputs[f"{table}TableName"], Item=to_attributes(row))
        yield deployment, clients


def rows(clients: dict[str, Any], deployment: Deployment, table: str) -> list[dict[str, Any]]:
    pages = clients["dynamodb"].get_paginator("scan").paginate(TableName=deployment.outputs[f"{table}TableName"])
    return [from_attributes(item) for page in pages for item in page["Items"]]


def listen(clients: dict[str, Any], deployment: Deployment) -> str:
    """Return the URL of a queue that gets what the shop announces."""
    (topic,) = [
        deployment.resources[name]
        for name, resource in deployment.template["Resources"].items()
        if resource["Type"] == "AWS::SNS::Topic"
    ]
    url: str = clients["sqs"].create_queue(QueueName="listener")["QueueUrl"]
    arn = clients["sqs"].get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    clients["sns"].subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return url


def announced(clients: dict[str, Any], url: str) -> set[str]:
    found: set[str] = set()
    while (
        batch := clients["sqs"]
        .receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600)
        .get("Messages")
    ):
        found |= {json.loads(json.loads(message["Body"])["Message"])["order"] for message in batch}
    return found


def kill_one(poller: EventSourceMapping) -> bool:
    """Kill a worker as soon as a part of the messages is done."""
    if poller.statistics.deleted < len(MESSAGES) // 5:
        return False
    os.kill(poller.handler_pids()[0], signal.SIGKILL)
    return True


@pytest.mark.timeout(1200)
def test_each_order_counts_once_and_is_announced_when_a_worker_is_killed(
    account: Connection,
    shop: tuple[Deployment, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployment, clients = shop
    monkeypatch.setenv("ONESLOT_HOME", str(tmp_path))
    LocalState.of(deployment, tmp_path / DELIVERY_LOG).write(tmp_path)
    url = listen(clients, deployment)
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(order) + "\n" for order in MESSAGES))
    mapping = deployment.outputs["EventSourceMappingId"]
    with (
        EventSourceMapping(account, mapping, folder=tmp_path, processes=3) as poller,
        stream_mapping(account, deployment.outputs["RelayFunctionName"], folder=tmp_path),
    ):
        sent = invoke("send", "--file", str(tmp_path / "orders.jsonl"), "--consumer", DECLARATION)
        assert sent.exit_code == 0, sent.output
        wait_for(lambda: kill_one(poller), seconds=300, what="a part is done")
        wait_for(lambda: poller.statistics.deleted >= len(MESSAGES), seconds=600, what="the queue is empty")
        wait_for(lambda: not any("unsent" in row for row in rows(clients, deployment, "Ledger")), seconds=300)

    orders = rows(clients, deployment, "Orders")
    taken = Counter(order["article"] for order in orders)
    assert taken == {"teapot": PIECES["teapot"], "mug": sum(order["article"] == "mug" for order in ORDERS[10:])}
    assert {row["article"]: row["left"] for row in rows(clients, deployment, "Stock")} == {
        article: pieces - taken[article] for article, pieces in PIECES.items()
    }
    assert rows(clients, deployment, "Baskets") == []
    assert announced(clients, url) == {order["number"] for order in orders}
    checked = document(invoke("check", "--consumer", DECLARATION, "--json"))
    assert checked["kind"] == "holds"
    assert checked["counts"]["verdicts"] == {"taken": len(orders), "sold_out": 150 - len(orders) - 10, "unknown": 10}
    history, audit = str(tmp_path / "history"), str(tmp_path / "audit")
    assert invoke("export", "--output", history, "--consumer", DECLARATION).exit_code == 0
    # A process of its own, because Spark leaves its connections to the exit.
    command = [sys.executable, "-m", "oneslot", "audit", "--history", history, "--output", audit, "--json"]
    done = subprocess.run([*command, "--consumer", DECLARATION], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    audited = json.loads(done.stdout)
    assert (audited["sound"], audited["verdicts"]["taken"]) == (True, len(orders))
