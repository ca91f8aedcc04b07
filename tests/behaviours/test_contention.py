"""Contention of real handler processes on the embedded AWS: the real template and real HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from demo.declared import CONSUMER
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import read_mapping
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.handler_pool import HandlerPool
from oneslot.local.mapping.handler_process import Answered
from oneslot.local.mapping.installation import Installation, install
from oneslot.runtime.sqs.batch_response import Split, judge
from oneslot.runtime.sqs.lambda_event import event
from tests.kits.consumer import booking
from tests.kits.local_mapping import wait_for
from tests.kits.real_stack import Stack, deliveries, deployed_shortened

pytestmark = pytest.mark.embedded_aws


@pytest.fixture
def stack(synthesised: SynthesisedStack, account: Connection) -> Iterator[Stack]:
    """The real template in an account of the test's own. Nothing waits for the end of a lease, which is five minutes."""
    with deployed_shortened(synthesised, account, 300) as made:
        yield made


@pytest.mark.slow
def test_m_32_consumers_book_each_slot_once(stack: Stack, tmp_path: Path) -> None:
    consumers, slots, requests = 32, 50, 80
    stack.seed(slots)
    bodies = [booking(f"r-{number}") for number in range(requests)]
    sent = stack.send([*bodies, *bodies])
    pool, queue = _warm(stack, tmp_path, consumers)
    sqs = stack.sqs
    together = Barrier(consumers)

    def consume(_number: int) -> None:
        """Receive five messages, so that all 32 consumers hold some, then invoke at the same moment."""
        messages = _receive(sqs, queue.url, 2 * requests // consumers)
        together.wait(300)
        outcome = pool.invoke(event(messages, queue_arn=queue.arn, region=queue.region))
        assert isinstance(outcome, Answered), outcome
        split = judge(outcome.answer, [message["MessageId"] for message in messages], reports_failures=True)
        assert isinstance(split, Split)
        for message in messages:
            if message["MessageId"] in split.succeeded:
                sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])
            else:  # return it now rather than at the latest end of the lease
                sqs.change_message_visibility(
                    QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )

    with ThreadPoolExecutor(consumers) as threads:
        list(threads.map(consume, range(consumers)))
    pool.close()
    mapping = stack.outputs["EventSourceMappingId"]
    with EventSourceMapping(stack.connection, mapping, folder=tmp_path, processes=1):
        # One process, so that no copy is busy and hidden for minutes.
        wait_for(lambda: stack.depth() == 0, seconds=300, what="the queue is empty")
    assert stack.statuses("slots") == Counter(busy=slots)
    assert stack.statuses("appointments") == Counter(booked=slots, waitlist=requests - slots)
    assert stack.statuses("ledger") == Counter(COMPLETE=requests)
    assert CONSUMER.check(stack.evidence(sent, [tmp_path / "consumer.jsonl"])) == []
    outcomes = Counter(line["outcome"] for line in deliveries([tmp_path / "consumer.jsonl"]))
    assert (outcomes["booked"], outcomes["waitlist"]) == (slots, requests - slots)
    assert outcomes["duplicate"] == requests
    assert stack.dead_letters() == []


def _receive(sqs: Any, url: str, count: int) -> list[Any]:
    messages: list[Any] = []
    while len(messages) < count:
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=count - len(messages),
            WaitTimeSeconds=1,
            VisibilityTimeout=900,
            MessageSystemAttributeNames=["All"],
        )
        messages += answer.get("Messages", [])
    return messages


def _warm(stack: Stack, folder: Path, processes: int) -> tuple[HandlerPool, Any]:
    """Start handler processes without a poller, so that the test invokes them."""
    functions = stack.connection.functions()
    functions.update_event_source_mapping(UUID=stack.outputs["EventSourceMappingId"], Enabled=False)
    configuration = read_mapping(stack.outputs["EventSourceMappingId"], functions=functions, sqs=stack.sqs)
    functions.close()
    pool = HandlerPool(
        Installation(
            function=configuration.function,
            code=install(configuration.function.code_url, folder / "function", stack.connection),
            connection=stack.connection,
            log_file=folder / "consumer.jsonl",
            error_file=folder / "handler.stderr.log",
        ),
        size=processes,
    )
    assert pool.warm(processes) is None
    return pool, configuration.queue
