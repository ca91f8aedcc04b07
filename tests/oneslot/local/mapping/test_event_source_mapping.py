"""The poller against the embedded AWS: one test per rule of Lambda's event source mapping for SQS."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from oneslot.errors import UnsupportedMapping
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.processes import start_ticks
from tests.kits.local_mapping import Workshop, zipped

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
                while "until" in order and not os.path.exists(order["until"]):
                    time.sleep(0.02)
                if "raise" in order:
                    raise RuntimeError(order["raise"])
                if "answer" in order:
                    return order["answer"]
        failed = [each for each, order in orders.items() if first and order.get("fail")]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}
    """


@pytest.fixture
def workshop(account: Connection, tmp_path: Path) -> Workshop:
    return Workshop(account, tmp_path)


def test_named_failure_is_redelivered_and_success_deleted(workshop: Workshop) -> None:
    source = workshop.source(OBEDIENT, visibility=600)
    good, bad = source.send("{}", '{"fail": true}')
    with source.poller() as poller:
        source.until(poller, lambda now: now.deleted == now.failed == 1)
        (receipt,) = [
            receipt
            for note in source.notes()
            for each, receipt in zip(note["ids"], note["receipts"], strict=True)
            if each == bad
        ]
        with closing(workshop.connection.sqs()) as sqs:
            sqs.change_message_visibility(QueueUrl=source.queue_url, ReceiptHandle=receipt, VisibilityTimeout=0)
        source.until(poller, lambda now: now.deleted == 2)
    assert source.left() == 0
    deliveries = [
        (message, count) for note in source.notes() for message, count in zip(note["ids"], note["counts"], strict=True)
    ]
    assert sorted(deliveries) == sorted([(good, 1), (bad, 1), (bad, 2)])
    assert (poller.statistics.failed, poller.statistics.function_errors) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "timeout"),
    [
        ({"raise": "why"}, 30),
        ({"sleep": 600}, 5),
        ({"answer": {"batchItemFailures": [{"messageId": "x"}]}}, 30),
    ],
    ids=["exception", "timeout", "invalid answer"],
)
def test_failed_batch_is_redelivered_whole(workshop: Workshop, order: dict[str, object], timeout: int) -> None:
    source = workshop.source(OBEDIENT, timeout=timeout, visibility=2)
    sent = set(source.send("{}", json.dumps(order), "{}"))
    with source.poller() as poller:
        source.until(poller, lambda now: now.deleted == 3)
    assert source.left() == 0
    batches = [note for note in source.notes() if "ids" in note]
    first = set(batches[0]["ids"])
    again = {message for batch in batches[1:] for message in batch["ids"]}
    assert len(first) == 3, "the three were one batch"
    assert first == again == sent
    assert poller.statistics.function_errors >= 1
    assert poller.statistics.failed >= 3


@pytest.mark.slow
def test_stale_receipt_is_not_fatal(workshop: Workshop, tmp_path: Path) -> None:
    # The visibility timeout is below the function's, so SQS redelivers the message while the first handler works.
    overtaken = tmp_path / "overtaken"
    source = workshop.source(OBEDIENT, visibility=3, timeout=120)
    source.send(json.dumps({"until": str(overtaken)}))
    with source.poller(processes=2) as poller:
        source.until(poller, lambda now: now.deleted == 1)
        overtaken.touch()
        source.until(poller, lambda now: now.records >= 2 and now.in_flight == 0)
        source.send("{}")
        source.until(poller, lambda now: now.deleted == 2)
    assert source.left() == 0
    assert poller.statistics.delete_refused >= 1


@pytest.mark.slow
def test_stop_finishes_batches_and_start_continues(workshop: Workshop) -> None:
    source = workshop.source(OBEDIENT, BatchSize=1, timeout=10)
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
def test_start_reads_the_configuration_again(workshop: Workshop) -> None:
    source = workshop.source(OBEDIENT, BatchSize=3)
    poller = source.poller(processes=4)
    with poller:
        assert (poller.configuration.batch_size, poller.configuration.function.timeout_seconds) == (3, 30)
    functions, sqs = workshop.connection.functions(), workshop.connection.sqs()
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


def test_start_rejects_filter_criteria(workshop: Workshop) -> None:
    source = workshop.source(OBEDIENT, FilterCriteria={"Filters": [{"Pattern": '{"body": {"a": [1]}}'}]})
    with pytest.raises(UnsupportedMapping, match="FilterCriteria"):
        source.poller().start()


# A handler that takes records in order and stops at a failure. The very first record fails once.
ORDERED = """
    import json
    def handle(event, context):
        failed = []
        for record in event["Records"]:
            order = json.loads(record["body"])
            first = record["attributes"]["ApproximateReceiveCount"] == "1"
            if failed or (order["number"] == 0 and first):
                failed.append({"itemIdentifier": record["messageId"]})
            else:
                print(json.dumps({"done": order["number"]}))
        return {"batchItemFailures": failed}
    """


@pytest.mark.slow
def test_carried_message_does_not_overtake_its_group(workshop: Workshop) -> None:
    source = workshop.source(ORDERED, visibility=10, fifo=True)
    large = "x" * 900_000  # seven fill an invocation's payload
    source.send(*(json.dumps({"number": number, "filling": large}) for number in range(9)), group="g")
    with source.poller(processes=2) as poller:
        source.until(poller, lambda now: now.deleted == 9)
    done = [note["done"] for note in source.notes()]
    assert list(dict.fromkeys(done)) == list(range(9))
    assert (source.left(), poller.statistics.failed > 1) == (0, True)


@pytest.mark.slow
def test_poller_stops_when_the_queue_is_unreachable(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path / "aws") as aws:
        source = Workshop(aws.connection(), tmp_path).source(OBEDIENT)
        poller = source.poller()
        poller.start()
        aws.stop()
        source.until(poller, lambda now: now.last_error in ("EndpointConnectionError", "ConnectionClosedError"))
        poller.stop()
    assert poller.statistics.in_flight == 0
