"""The in-memory SQS hands out, hides, deletes and moves messages as moto does, in random sequences of calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from lab.simulation.sqs.service import SQSService
from tests.kits.consumer import moto_client
from tests.lab.simulation.sqs.sqs_clients import Queues
from tests.oneslot.dynamodb_in_memory.clock import Clock

NAMES = ("url", "dead", "fifo", "fifo_dead")
_runs = count()

bodies = st.sampled_from("abcdef")


def steps(name: str, dead: str) -> st.SearchStrategy[list[tuple[str, str, Any]]]:
    """Make calls of one queue and its dead-letter queue: most receive, or return what was received."""
    here, both, at = st.just(name), st.sampled_from([name, name, dead]), st.integers(0, 3)
    receive = st.tuples(st.just("receive"), both, st.integers(1, 3))
    return st.lists(
        st.one_of(
            st.tuples(st.just("send"), here, bodies),
            st.tuples(st.just("send batch"), here, st.lists(bodies, min_size=1, max_size=4)),
            *(receive, receive),
            *(st.tuples(st.just(step), both, at) for step in ("show", "delete")),
        ),
        min_size=10,
        max_size=30,
    )


class Pair:
    """The queues in both, and the messages in flight, each as both handed it out."""

    def __init__(self, moto: Any) -> None:
        prefix = f"run-{next(_runs)}-"
        self.both = (Queues(SQSService(Clock(), Random(1)), prefix), Queues(moto, prefix))
        self.sent = 0
        self.in_flight: dict[str, list[tuple[Any, Any]]] = {name: [] for name in NAMES}

    def take(self, step: str, name: str, what: Any) -> None:
        match step:
            case "send":
                self.send(name, [what], batch=False)
            case "send batch":
                self.send(name, what, batch=True)
            case "receive":
                self.receive(name, what)
            case _ if self.in_flight[name]:
                self.end(step, name, self.in_flight[name].pop(what % len(self.in_flight[name])))

    def send(self, name: str, some: list[str], *, batch: bool) -> None:
        if self.sent + len(some) > 10:  # as many as one receive returns
            return
        self.sent += len(some)
        # One group: SQS may hand out several in any order. A group's own order is what it promises.
        group = {"MessageGroupId": "g"} if "fifo" in name else {}
        entries = [{"MessageBody": f"{body} {self.sent - at}", **group} for at, body in enumerate(some)]
        for queues in self.both:
            url = getattr(queues, name)
            if batch:
                numbered = [{"Id": str(at), **entry} for at, entry in enumerate(entries)]
                answer = queues.client.send_message_batch(QueueUrl=url, Entries=numbered)
                assert [each["Id"] for each in answer["Successful"]] == [each["Id"] for each in numbered]
            else:
                assert queues.client.send_message(QueueUrl=url, **entries[0])["MD5OfMessageBody"]

    def receive(self, name: str, number: int) -> None:
        fifo = "fifo" in name
        ours, moto = (
            queues.receive(number if fifo else 10, getattr(queues, name), VisibilityTimeout=3_600)
            for queues in self.both
        )
        if not fifo:  # it hands out its messages in any order, so all of them are asked for
            ours, moto = sorted(ours, key=shown), sorted(moto, key=shown)
        assert list(map(shown, ours)) == list(map(shown, moto))
        self.in_flight[name] += zip(ours, moto, strict=True)

    def end(self, step: str, name: str, pair: tuple[Any, Any]) -> None:
        for queues, message in zip(self.both, pair, strict=True):
            url = getattr(queues, name)
            if step == "show":
                queues.show(message, url)
            else:
                for _ in range(2):  # a second deletion succeeds
                    assert queues.delete(message, url) == ""

    def depths(self, queues: Queues) -> list[dict[str, str]]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        return [
            queues.client.get_queue_attributes(QueueUrl=getattr(queues, name), AttributeNames=names)["Attributes"]
            for name in NAMES
        ]


def shown(message: dict[str, Any]) -> tuple[str, str, str]:
    """Return what both say of a message."""
    system = message["Attributes"]
    return message["Body"], system["ApproximateReceiveCount"], system.get("MessageGroupId", "")


@pytest.fixture(scope="module")
def moto() -> Iterator[Any]:
    with mock_aws():
        yield moto_client("sqs")


@given(steps("url", "dead") | steps("fifo", "fifo_dead"))
@settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
def test_in_memory_queues_do_as_moto_does(moto: Any, calls: list[tuple[str, str, Any]]) -> None:
    pair = Pair(moto)
    for step in calls:
        pair.take(*step)
    ours, theirs = map(pair.depths, pair.both)
    assert ours == theirs, json.dumps(calls)
