"""The poller against the embedded AWS: one test per rule of Lambda's event source mapping for SQS."""

import io
import textwrap
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oneslot.errors import UnsupportedMapping
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.mapping.event_source_mapping import ASKED, PAUSED_AT, RESTART, STARTED
from oneslot.local.state import start_ticks
from tests.kits.local_mapping import Source

pytestmark = pytest.mark.embedded_aws

# A handler that prints a line for each batch, and obeys the JSON object in each body.
OBEDIENT = """
    import json, os, time
    def handle(event, context):
        orders = {record["messageId"]: json.loads(record["body"]) for record in event["Records"]}
        print(json.dumps({
            "ids": list(orders), "request": context.aws_request_id, "pid": os.getpid(),
            "receipts": [record["receiptHandle"] for record in event["Records"]],
            "counts": [int(record["attributes"]["ApproximateReceiveCount"]) for record in event["Records"]],
        }))
        first = all(record["attributes"]["ApproximateReceiveCount"] == "1" for record in event["Records"])
        for order in orders.values():
            if first:
                time.sleep(order.get("sleep", 0))
        failed = [each for each, order in orders.items() if first and order.get("fail")]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}
    """


def zipped(source: str) -> bytes:
    """Return a function's zip with this source as `fake.py`."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("fake.py", textwrap.dedent(source))
    return content.getvalue()


def mapped(connection: Connection, folder: Path, *, timeout: int = 30, visibility: int = 30, **mapping: Any) -> Source:
    """Make a queue and the obedient function, and map them."""
    with closing(connection.sqs()) as sqs, closing(connection.functions()) as functions:
        attributes: Any = {"VisibilityTimeout": str(visibility)}
        url = sqs.create_queue(QueueName="source", Attributes=attributes)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        functions.create_function(
            FunctionName="fake",
            Runtime="python3.13",
            Role="arn:aws:iam::000000000000:role/any",
            Handler="fake.handle",
            Code={"ZipFile": zipped(OBEDIENT)},
            Timeout=timeout,
            MemorySize=256,
        )
        mapping_id = functions.create_event_source_mapping(
            FunctionName="fake",
            EventSourceArn=arn,
            Enabled=False,
            FunctionResponseTypes=["ReportBatchItemFailures"],
            **mapping,
        )["UUID"]
    return Source(connection, url, mapping_id, folder)


def test_named_failure_is_redelivered_and_success_deleted(account: Connection, tmp_path: Path) -> None:
    source = mapped(account, tmp_path, visibility=600)
    good, bad = source.send("{}", '{"fail": true}')
    with source.poller() as poller:
        source.until(poller, lambda now: now.deleted == now.failed == 1)
        (receipt,) = [
            receipt
            for note in source.notes()
            for each, receipt in zip(note["ids"], note["receipts"], strict=True)
            if each == bad
        ]
        with closing(account.sqs()) as sqs:
            sqs.change_message_visibility(QueueUrl=source.queue_url, ReceiptHandle=receipt, VisibilityTimeout=0)
        source.until(poller, lambda now: now.deleted == 2)
    assert source.left() == 0
    deliveries = [
        (message, count) for note in source.notes() for message, count in zip(note["ids"], note["counts"], strict=True)
    ]
    assert sorted(deliveries) == sorted([(good, 1), (bad, 1), (bad, 2)])
    assert (poller.statistics.failed, poller.statistics.function_errors) == (1, 0)


@pytest.mark.slow
def test_stop_finishes_batches_and_start_continues(account: Connection, tmp_path: Path) -> None:
    source = mapped(account, tmp_path, BatchSize=1, timeout=10)
    source.send(*['{"sleep": 1}'] * 2)
    poller = source.poller()
    poller.start()
    source.until(poller, lambda now: now.records >= 1)
    pids = poller.handler_pids()
    poller.stop()
    assert poller.statistics.in_flight == 0
    assert poller.statistics.deleted == poller.statistics.records == len(source.notes())
    assert source.left() == 2 - poller.statistics.deleted
    assert [start_ticks(pid) for pid in pids] == [None]
    assert not poller.running
    poller.start()
    source.until(poller, lambda now: now.deleted == 2)
    poller.stop()
    poller.stop()
    assert source.left() == 0


@pytest.mark.slow
def test_start_reads_the_configuration_again(account: Connection, tmp_path: Path) -> None:
    source = mapped(account, tmp_path, BatchSize=3)
    poller = source.poller(processes=4)
    with poller:
        assert (poller.configuration.batch_size, poller.configuration.function.timeout_seconds) == (3, 30)
    functions, sqs = account.functions(), account.sqs()
    functions.update_event_source_mapping(UUID=source.mapping_id, BatchSize=7, ScalingConfig={"MaximumConcurrency": 9})
    functions.update_function_configuration(
        FunctionName="fake", Timeout=8, MemorySize=777, Environment={"Variables": {"A": "b"}}
    )
    functions.put_function_concurrency(FunctionName="fake", ReservedConcurrentExecutions=2)
    functions.update_function_code(
        FunctionName="fake", ZipFile=zipped("def handle(event, context): print('{\"new\": true}')")
    )
    sqs.set_queue_attributes(QueueUrl=source.queue_url, Attributes={"VisibilityTimeout": "77"})
    functions.close()
    sqs.close()
    source.send("{}")
    with poller:
        now = poller.configuration
        source.until(poller, lambda numbers: numbers.deleted == 1)
        assert len(poller.handler_pids()) <= 2
    assert (now.batch_size, now.maximum_concurrency, now.function.timeout_seconds) == (7, 9, 8)
    assert (now.function.memory_mb, now.function.reserved_concurrency) == (777, 2)
    assert (now.queue.visibility_timeout_seconds, now.function.environment) == (77, {"A": "b"})
    assert source.notes() == [{"new": True}]


def test_follow_says_why_an_update_or_a_resume_does_not_start(account: Connection, tmp_path: Path) -> None:
    edits: list[Any] = [{"Filters": [{"Pattern": '{"body": {"a": [1]}}'}]}, {}]
    source, said = mapped(account, tmp_path), list[object]()
    with source.poller() as poller, closing(account.functions()) as functions:
        for criteria in edits:
            about = functions.update_event_source_mapping(UUID=source.mapping_id, FilterCriteria=criteria)
            functions.tag_resource(Resource=(arn := about["EventSourceMappingArn"]), Tags={RESTART: ASKED})
            poller.follow(lambda: said.append("also"))
            said.append((functions.list_tags(Resource=arn)["Tags"][RESTART], poller.running))
        for criteria in edits:
            functions.tag_resource(Resource=arn, Tags={PAUSED_AT: "now"})
            poller.follow(lambda: None)
            functions.update_event_source_mapping(UUID=source.mapping_id, FilterCriteria=criteria)
            functions.untag_resource(Resource=arn, TagKeys=[PAUSED_AT])
            poller.follow(lambda: None)
            said.append((functions.list_tags(Resource=arn)["Tags"][RESTART], poller.running))
    refusal = f"The local poller does not apply FilterCriteria; remove those of mapping {source.mapping_id}"
    assert said == [(refusal, False), "also", (STARTED, True), (refusal, False), (STARTED, True)]
    assert poller.statistics.last_error == UnsupportedMapping.__name__


@pytest.mark.slow
def test_poller_stops_when_the_queue_is_unreachable(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path / "aws") as aws:
        source = mapped(aws.connection(), tmp_path)
        poller = source.poller()
        poller.start()
        aws.stop()
        source.until(poller, lambda now: now.last_error in ("EndpointConnectionError", "ConnectionClosedError"))
        poller.stop()
    assert poller.statistics.in_flight == 0
