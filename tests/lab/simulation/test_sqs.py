"""The in-memory SQS as moto in random calls; and where moto differs or has no clock: time, choices, receipts and groups."""

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
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from tests.kits.consumer import Clock, moto_client, refusal

SECOND, DAY = 1000, 86_400_000
TOKEN: dict[str, Any] = {"MessageGroupId": "a", "MessageDeduplicationId": "token"}


class Queues:
    """A standard and a FIFO queue, each with a dead-letter queue after two receives, in one client."""

    def __init__(self, client: Any, prefix: str = "") -> None:
        self.client = client
        self.prefix = prefix
        self.dead = self._create("dead")
        self.url = self._create("requests", dead=self.dead)
        self.fifo_dead = self._create("dead.fifo")
        self.fifo = self._create("requests.fifo", dead=self.fifo_dead, ContentBasedDeduplication="true")

    def _create(self, name: str, *, dead: str | None = None, **attributes: str) -> str:
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        if dead is not None:
            policy = {"deadLetterTargetArn": self.arn(dead), "maxReceiveCount": 2}
            attributes["RedrivePolicy"] = json.dumps(policy)
        return str(self.client.create_queue(QueueName=f"{self.prefix}{name}", Attributes=attributes)["QueueUrl"])

    def arn(self, url: str) -> str:
        """Return the ARN of a queue."""
        answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def send(self, *bodies: str, url: str = "", **more: Any) -> list[str]:
        """Send messages; return their ids."""
        sent = [self.client.send_message(QueueUrl=url or self.url, MessageBody=body, **more) for body in bodies]
        return [answer["MessageId"] for answer in sent]

    def receive(self, count: int = 10, url: str = "", **more: Any) -> list[dict[str, Any]]:
        """Receive up to `count` messages, with all attributes."""
        names: dict[str, Any] = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
        answer = self.client.receive_message(QueueUrl=url or self.url, MaxNumberOfMessages=count, **{**names, **more})
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def bodies(self, count: int = 10, url: str = "", **more: Any) -> list[str]:
        """Receive, and return the bodies."""
        return [message["Body"] for message in self.receive(count, url, **more)]

    def show(self, message: dict[str, Any], url: str = "", seconds: int = 0) -> None:
        """Change a received message's visibility timeout: by default, make it visible."""
        handle = message["ReceiptHandle"]
        self.client.change_message_visibility(QueueUrl=url or self.url, ReceiptHandle=handle, VisibilityTimeout=seconds)

    def delete(self, message: dict[str, Any], url: str = "") -> str:
        """Delete a received message; return the code of a refusal."""
        entry = {"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}
        answer = self.client.delete_message_batch(QueueUrl=url or self.url, Entries=[entry])
        return str(answer["Failed"][0]["Code"]) if answer.get("Failed") else ""


class Timed(Queues):
    """The queues, with a clock."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = Clock()
        self.service = SQSService(self.clock, Random(seed))
        super().__init__(self.service)


@pytest.fixture
def queues() -> Timed:
    return Timed()


def code(call: Any) -> str:
    return str(refusal(call)["Error"]["Code"])


def send(queues: Timed, group: str, *bodies: str) -> list[str]:
    return queues.send(*bodies, url=queues.fifo, MessageGroupId=group)


def receive_twice(queues: Timed) -> tuple[dict[str, Any], dict[str, Any]]:
    queues.send("body", url=queues.dead)
    (first,) = queues.receive(url=queues.dead, VisibilityTimeout=0)
    (second,) = queues.receive(url=queues.dead)
    return first, second


def test_message_returns_when_its_timeout_ends(queues: Timed) -> None:
    queues.send("body")
    queues.receive()
    assert queues.service.queue(queues.url).next_visible_ms() == queues.clock.now + 30 * SECOND
    queues.clock.now += 15 * SECOND
    assert queues.receive() == []
    queues.clock.now += 15 * SECOND
    (message,) = queues.receive(VisibilityTimeout=7)
    queues.show(message, seconds=60)
    assert queues.service.queue(queues.url).next_visible_ms() == queues.clock.now + 60 * SECOND


def test_visibility_is_refused_when_it_ends_twelve_hours_after_the_receive(queues: Timed) -> None:
    queues.send("body")
    (message,) = queues.receive()
    queues.clock.now += SECOND
    assert code(lambda: queues.show(message, seconds=43_200)) == "InvalidParameterValue"
    queues.show(message, seconds=43_199)


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        ("show", "AWS.SimpleQueueService.MessageNotInflight"),
        ("delete", "InvalidParameterValue"),
    ],
)
def test_visibility_is_refused_when_the_message_is_not_in_flight(queues: Timed, end: str, wanted: str) -> None:
    queues.send("body")
    (message,) = queues.receive()
    getattr(queues, end)(message)
    assert code(lambda: queues.show(message)) == wanted


def test_receipt_is_refused_when_it_is_unknown(queues: Timed) -> None:
    unknown = {"ReceiptHandle": "unknown"}
    assert queues.delete(unknown) == code(lambda: queues.show(unknown)) == "ReceiptHandleIsInvalid"


def test_parameter_is_refused_when_it_is_unknown(queues: Timed) -> None:
    with pytest.raises(UnsupportedRequest):
        queues.client.send_message(QueueUrl=queues.url, MessageBody="body", DelaySeconds=1)


def test_message_expires_when_its_retention_ends(queues: Timed) -> None:
    queues.send("early")
    queues.clock.now += DAY
    queues.send("late")
    queues.clock.now += 3 * DAY
    assert queues.bodies() == ["late"]


@pytest.mark.parametrize(("fifo", "left"), [(False, 3 * DAY), (True, 4 * DAY)])
def test_retention_of_a_dead_letter_starts_again_when_it_is_in_a_fifo_queue(
    queues: Timed, fifo: bool, left: int
) -> None:
    url, dead = (queues.fifo, queues.fifo_dead) if fifo else (queues.url, queues.dead)
    queues.send("body", url=url, **({"MessageGroupId": "a"} if fifo else {}))
    queues.clock.now += DAY
    for _ in range(2):
        queues.show(queues.receive(url=url)[0], url)
    assert queues.receive(url=url) == []
    queues.clock.now += left - 1
    (letter,) = queues.service.messages(dead)
    assert letter.source_arn == queues.arn(url)
    assert letter.deduplication_id == (letter.message_id if fifo else None)
    queues.clock.now += 1
    assert queues.service.messages(dead) == []


def test_old_receipt_deletes_or_changes_by_chance() -> None:
    deleted, shown = set(), set()
    for seed in range(60):
        queues = Timed(seed)
        first, _ = receive_twice(queues)
        deleted.add((queues.delete(first, queues.dead), len(queues.service.messages(queues.dead))))
        queues = Timed(seed)
        first, second = receive_twice(queues)
        try:
            queues.show(first, queues.dead)
        except Exception:
            queues.delete(second, queues.dead)  # the newest receipt always deletes
        shown.add(len(queues.service.messages(queues.dead)))
    assert deleted == {("", 0), ("", 1), ("InvalidParameterValue", 1)}
    assert shown == {0, 1}


def test_copy_is_delivered_when_a_message_in_flight_is_shown(queues: Timed) -> None:
    (message_id,) = queues.send("body")
    (first,) = queues.receive()
    assert queues.service.queue(queues.url).deliver_again() == message_id
    (second,) = queues.receive()
    assert second["MessageId"] == message_id
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert queues.service.queue(queues.fifo).deliver_again() is None


def test_deleted_message_returns_when_it_is_undeleted(queues: Timed) -> None:
    (message_id,) = queues.send("body")
    queues.delete(queues.receive()[0])
    assert queues.service.queue(queues.url).undelete() == message_id
    assert queues.service.queue(queues.url).undelete() is None
    (again,) = queues.receive()
    assert (again["MessageId"], again["Attributes"]["ApproximateReceiveCount"]) == (message_id, "2")


def test_short_poll_misses_messages_when_it_samples(queues: Timed) -> None:
    queues.send(*"abcdef", url=queues.dead)
    queues.service.missing = 0.5
    sizes = {len(queues.receive(url=queues.dead, VisibilityTimeout=0)) for _ in range(60)}
    assert sizes >= {1, 2, 3, 4, 5}
    assert len(queues.receive(url=queues.dead, WaitTimeSeconds=1)) == 6


def test_group_waits_when_one_of_it_is_in_flight(queues: Timed) -> None:
    send(queues, "a", "a1", "a2", "a3")
    send(queues, "b", "b1")
    first, second = queues.receive(2, queues.fifo)
    assert (first["Body"], second["Body"]) == ("a1", "a2")
    assert queues.bodies(url=queues.fifo) == ["b1"]
    queues.show(second, queues.fifo)
    assert queues.bodies(url=queues.fifo) == []
    queues.show(first, queues.fifo)
    assert queues.bodies(url=queues.fifo) == ["a1", "a2", "a3"]


def test_groups_take_turns(queues: Timed) -> None:
    for body in ("a1", "a2", "b1", "c1"):
        send(queues, body[0], body)
    handed = []
    for _ in range(4):
        (message,) = queues.receive(1, queues.fifo)
        handed.append(message["Body"])
        queues.delete(message, queues.fifo)
    assert handed == ["a1", "b1", "c1", "a2"]


def test_second_send_is_dropped_when_it_has_the_same_token_within_five_minutes(queues: Timed) -> None:
    (first,) = queues.send("body", url=queues.fifo, **TOKEN)
    queues.clock.now += 300 * SECOND - 1
    assert queues.send("other body", url=queues.fifo, **TOKEN) == [first]
    queues.clock.now += 1
    assert queues.send("body", url=queues.fifo, **TOKEN) != [first]


def test_repeated_attempt_returns_the_same_and_hides_it_again(queues: Timed) -> None:
    send(queues, "a", "body")
    attempt: dict[str, Any] = {"url": queues.fifo, "ReceiveRequestAttemptId": "attempt"}
    first = queues.receive(**attempt)
    queues.clock.now += 29 * SECOND
    assert queues.receive(**attempt) == first
    queues.clock.now += 29 * SECOND
    assert queues.receive(url=queues.fifo) == []
    queues.clock.now += SECOND
    assert queues.receive(**attempt) != first


def test_repeated_attempt_is_new_when_a_message_was_deleted(queues: Timed) -> None:
    send(queues, "a", "a1")
    send(queues, "b", "b1")
    (first,) = queues.receive(1, queues.fifo, ReceiveRequestAttemptId="attempt")
    queues.delete(first, queues.fifo)
    assert queues.bodies(1, queues.fifo, ReceiveRequestAttemptId="attempt") == ["b1"]


@pytest.mark.parametrize("received_again", [False, True])
def test_fifo_receipt_is_refused_when_it_has_expired(queues: Timed, received_again: bool) -> None:
    send(queues, "a", "body")
    (message,) = queues.receive(url=queues.fifo)
    queues.show(message, queues.fifo)
    if received_again:
        queues.receive(url=queues.fifo)
    assert queues.delete(message, queues.fifo) == "InvalidParameterValue"
    assert code(lambda: queues.show(message, queues.fifo)) == "InvalidParameterValue"


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
