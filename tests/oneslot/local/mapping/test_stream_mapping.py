"""A send end to end on the embedded AWS: the construct's template, the real consumer and the real relay, which is killed."""

import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oneslot.cdk import ExactlyOnceConsumer
from oneslot.declaration.reading import choosing
from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.stream_mapping import stream_mapping
from oneslot.local.stack import local_stack
from oneslot.runtime.values import from_attributes
from tests.kits.local_mapping import wait_for

from aws_cdk import App, CfnOutput, Stack  # isort: skip - after the package that chooses the Node.js for it
from aws_cdk import aws_sqs as sqs_  # isort: skip

pytestmark = [pytest.mark.embedded_aws, pytest.mark.slow]

ORDERS = 6
CONSUMER = """
from oneslot import Effects, Send, consumer_from_environment

def take(order):
    about = {"order": order.message_id}
    return Effects({"outcome": "taken"}, sends=[Send("mails", about), Send("lines", about, group="all")])

handler = consumer_from_environment(take)
"""


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "app.py").write_text(CONSUMER, encoding="utf-8")
    app = App(outdir=str(tmp_path / "cdk.out"))
    stack = Stack(app, "Shop")
    queues = {"mails": sqs_.Queue(stack, "Mails"), "lines": sqs_.Queue(stack, "Lines", fifo=True)}
    consumer = ExactlyOnceConsumer(
        stack, "Orders", entry=tmp_path / "orders", handler="app.handler", tables={}, sends=queues, retain_data=False
    )
    consumer.add_outputs()
    for name, queue in queues.items():
        CfnOutput(stack, f"{name.capitalize()}Url", value=queue.queue_url)
    app.synth()
    return tmp_path / "cdk.out"


@pytest.fixture
def shop(account: Connection, assembly: Path) -> Deployment:
    return deploy(read_stack(assembly, "Shop"), account)


def received(sqs: Any, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while batch := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], VisibilityTimeout=600
    ).get("Messages"):
        found += batch
    return found


def test_each_message_goes_out_under_one_id_when_the_relay_is_killed(
    account: Connection, shop: Deployment, tmp_path: Path
) -> None:
    outputs, names = shop.outputs, [f"o-{number}" for number in range(ORDERS)]
    with closing(account.sqs()) as sqs, closing(account.dynamodb()) as dynamodb:
        for name in names * 2:
            sqs.send_message(QueueUrl=outputs["QueueUrl"], MessageBody=json.dumps({"message_id": name}))
        with EventSourceMapping(account, outputs["EventSourceMappingId"], folder=tmp_path, processes=2) as poller:
            wait_for(lambda: poller.statistics.deleted == 2 * ORDERS, seconds=120)

        def unsent() -> int:
            rows = dynamodb.scan(TableName=outputs["LedgerTableName"])["Items"]
            return sum("unsent" in from_attributes(row) for row in rows)

        assert unsent() == ORDERS
        killed = 0
        with stream_mapping(account, outputs["RelayFunctionName"], folder=tmp_path) as relay:

            def kill_until_it_is_done() -> bool:
                nonlocal killed
                if killed < 3 and unsent() < ORDERS - killed:
                    for pid in relay.pids():
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                return unsent() == 0

            wait_for(kill_until_it_is_done, seconds=120)
        mails, lines = received(sqs, outputs["MailsUrl"]), received(sqs, outputs["LinesUrl"])
    assert killed
    by_id: dict[str, set[str]] = {}
    for mail in mails:
        by_id.setdefault(mail["MessageAttributes"]["MessageDeduplicationId"]["StringValue"], set()).add(mail["Body"])
    assert sorted(body for bodies in by_id.values() for body in bodies) == [f'{{"order":"{name}"}}' for name in names]
    assert sorted(line["Body"] for line in lines) == [f'{{"order":"{name}"}}' for name in names], "SQS drops repeats"


def test_local_stack_relays_when_its_consumer_sends(assembly: Path, tmp_path: Path) -> None:
    declaration = tmp_path / "oneslot.toml"
    declaration.write_text('name = "orders"\nhandler = "app.handler"\nstack = "Shop"\n', encoding="utf-8")
    with choosing(declaration), local_stack(tmp_path / "home", progress=print, processes=1, assembly=assembly) as local:
        local.start()
        with closing(local.state.connection.sqs()) as sqs:
            outputs = local.state.outputs
            sqs.send_message(QueueUrl=outputs["QueueUrl"], MessageBody='{"message_id": "o-1"}')
            found: list[dict[str, Any]] = []

            def arrived() -> bool:
                found.extend(received(sqs, outputs["MailsUrl"]))
                return bool(found)

            wait_for(arrived, seconds=120)
    assert [each["Body"] for each in found] == ['{"order":"o-1"}']
