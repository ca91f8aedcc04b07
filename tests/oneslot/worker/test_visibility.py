"""The heartbeat: extending, losing and releasing messages, on a virtual clock."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from oneslot.local.aws.connection import Connection
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker.job import InHand, Job, Shift, State
from oneslot.worker.log import WorkerLog
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.visibility import Visibility, configuration
from tests.oneslot.worker.kit import Clock, Entries, FakeQueue, first, no_answer, refused, throttled

SETTINGS = WorkerSettings(visibility_seconds=30, buffer_seconds=10, max_receive_count=3)


class Heart:
    """A heartbeat over messages that were received at second 0 and are hidden for 40 seconds."""

    def __init__(
        self,
        *bodies: str,
        state: State = State.RUNNING,
        jitter: float = 0.0,
        settings: WorkerSettings = SETTINGS,
    ) -> None:
        self.clock = Clock()
        self.queue = FakeQueue(list(bodies), self.clock)
        self.surroundings = Surroundings(steady=self.clock, jitter=lambda: jitter)
        self.in_hand = InHand(self.surroundings)
        self.log = WorkerLog(lambda _: None)
        self.visibility = Visibility(
            Shift(
                client=cast("Any", None),
                queue_url="url",
                settings=settings,
                in_hand=self.in_hand,
                log=self.log,
                surroundings=self.surroundings,
                stopping=threading.Event(),
            ),
            cast("Any", self.queue),
        )
        answer = self.queue.receive_message(MaxNumberOfMessages=10, VisibilityTimeout=40)
        self.jobs = [Job(message, 40.0, 900.0, 0.0, self.surroundings, state=state) for message in answer["Messages"]]
        for job in self.jobs:
            self.in_hand.add(job)

    def beat_at(self, second: float) -> None:
        self.clock.now = second
        self.visibility.beat()


def test_heartbeat_extends_when_only_the_buffer_is_left() -> None:
    heart = Heart("a")

    heart.beat_at(29)
    assert heart.queue.count("change") == 0
    heart.beat_at(30)

    assert heart.jobs[0].visible_at == heart.queue.messages[0]["visible_at"] == 70
    assert heart.log.counts == {"extended": 1}


def test_heartbeat_extends_in_batches_of_ten() -> None:
    heart = Heart(*"abcdefghij")
    heart.in_hand.add(Job({"ReceiptHandle": "deleted", "MessageId": "k"}, 40.0, 900.0, 0.0, heart.surroundings))

    heart.beat_at(30)

    assert [len(entries) for entries in heart.queue.requests("change")] == [10, 1]


def gone(heart: Heart) -> None:
    """Another consumer has received and deleted every message."""
    heart.queue.messages.clear()


def unreachable(heart: Heart) -> None:
    heart.queue.fail["change"] = no_answer


@pytest.mark.parametrize(
    ("happens", "state", "beats", "lost"),
    [
        (gone, State.RUNNING, (30, 31), True),
        (unreachable, State.RUNNING, (30, 40), True),
        (gone, State.ACKNOWLEDGING, (30,), False),
    ],
    ids=["refused", "too late", "its own deletion crosses"],
)
def test_message_is_lost_when_it_may_be_another_consumers(
    happens: Callable[[Heart], None], state: State, beats: Sequence[float], lost: bool
) -> None:
    heart = Heart("a", state=state)
    happens(heart)

    for second in beats:
        heart.beat_at(second)

    assert (heart.jobs[0].lost, heart.log.counts.get("leases_lost", 0)) == (lost, int(lost))
    assert heart.queue.count("change") == 1


def hidden_for(heart: Heart, act: str, *arguments: Any) -> float:
    """Return for how long the message is hidden by an act at second 5."""
    heart.clock.now = 5.0
    getattr(heart.visibility, act)(heart.jobs[0], *arguments)
    return float(heart.queue.messages[0]["visible_at"]) - 5.0


@pytest.mark.parametrize(
    ("act", "milliseconds", "settings", "seconds"),
    [
        ("defer", 860_500, {}, 862),
        ("defer", 450_000, {"max_receive_count": 4}, 2),
        ("defer", 10**9, {"limit_seconds": 60}, 901),
        ("defer", 10**9, {"limit_seconds": 7_200}, 7_201),
        ("defer", 10**9, {"limit_seconds": 43_160}, 43_155),
        ("delay", None, {}, 35),
        ("delay", None, {"retry_delay_seconds": 60}, 2),
        ("delay", 30_000, {"retry_delay_seconds": 60, "max_receive_count": 10}, 31),
    ],
)
def test_message_is_hidden_by_the_queues_deferral(
    act: str, milliseconds: int | None, settings: dict[str, int], seconds: int
) -> None:
    """With half of the jitter, never past SQS's 12 hours, of which 5 + 40 seconds have passed; else for 40 as received."""
    heart = Heart("a", jitter=0.5, settings=WorkerSettings(**{"max_receive_count": 3, **settings}))  # type: ignore[arg-type]

    assert hidden_for(heart, act, milliseconds) == seconds

    assert heart.log.counts == ({} if seconds == 35 else {"deferred": 1})


@pytest.mark.parametrize("failure", [no_answer, throttled])
def test_message_is_deferred_when_the_first_call_fails(failure: Any) -> None:
    heart = Heart("a")
    heart.queue.fail["change"] = first(1, failure)

    assert hidden_for(heart, "defer", 60_000) == 60


def test_deferral_leaves_a_lost_message_alone() -> None:
    heart = Heart("a")
    heart.jobs[0].lost = True

    hidden_for(heart, "defer", 60_000)

    assert heart.queue.count("change") == 0


@pytest.mark.parametrize("act", ["release", "defer"])
def test_message_is_shown_or_deferred_after_an_extension_that_is_under_way(act: str) -> None:
    """An extension that lands later would hide it for its usual time again."""
    heart, asked, answer = Heart("a"), threading.Event(), threading.Event()

    def extend_slowly(entries: Entries) -> None:
        if entries[0]["VisibilityTimeout"] == SETTINGS.hidden_seconds:
            asked.set()
            answer.wait(60)

    heart.queue.fail["change"] = extend_slowly
    beat = threading.Thread(target=heart.beat_at, args=[30])
    beat.start()
    asked.wait(60)
    heart.in_hand.move(heart.jobs[0], State.RUNNING, State.RELEASED)
    call = [heart.jobs] if act == "release" else [heart.jobs[0], 60_000]
    other = threading.Thread(target=getattr(heart.visibility, act), args=call)
    other.start()
    other.join(0.1)
    answer.set()
    beat.join(60)
    other.join(60)

    assert heart.queue.messages[0]["visible_at"] == (30 if act == "release" else 90)


@pytest.mark.parametrize(
    ("second", "failure", "begun", "calls"),
    [
        (34.9, None, True, 0),
        (35, None, True, 1),
        (41, None, True, 1),
        (39, first(1, throttled), True, 2),
        (41, no_answer, False, 2),
        (41, throttled, False, 2),
    ],
    ids=["in time", "slow", "late", "throttled once", "no answer", "throttled"],
)
def test_received_message_is_begun_when_sqs_hides_it_long_enough(
    second: float, failure: Any, begun: bool, calls: int
) -> None:
    """It was received by a call that was made at second 0 and answered at this one."""
    heart = Heart("a")
    heart.clock.now = second
    if failure:
        heart.queue.fail["change"] = failure

    assert heart.visibility.ensure_hidden(heart.jobs) == (heart.jobs if begun else [])

    assert heart.queue.count("change") == calls
    assert heart.jobs[0].visible_at == (second + 40 if begun and calls else 40)
    assert heart.log.counts.get("received_too_late", 0) == (0 if begun else 1)


def test_received_message_is_dropped_when_another_consumer_has_it() -> None:
    heart = Heart("a", "b")
    heart.queue.messages.pop(0)
    heart.clock.now = 41

    assert heart.visibility.ensure_hidden(heart.jobs) == heart.jobs[1:]


def test_received_message_is_dropped_when_its_extensions_are_slow_too() -> None:
    heart = Heart("a")
    heart.queue.fail["change"] = lambda _: heart.clock.__setattr__("now", heart.clock.now + 39.0)
    heart.clock.now = 41

    assert heart.visibility.ensure_hidden(heart.jobs) == []


def test_release_makes_messages_visible_at_once() -> None:
    heart = Heart("a", "b")

    assert heart.visibility.release(heart.jobs) == 2

    assert heart.queue.visible() == ["a", "b"]


@pytest.mark.parametrize(("sender_fault", "asked"), [(True, [2]), (False, [2, 1])])
def test_release_counts_what_sqs_confirmed(sender_fault: bool, asked: list[int]) -> None:
    def refuse_last(entries: Entries) -> dict[str, Any]:
        failed = refused(entries[-1], sender_fault=sender_fault)
        return {"Successful": [{"Id": entry["Id"]} for entry in entries[:-1]], "Failed": [failed]}

    heart = Heart("a", "b")
    heart.queue.fail["change"] = refuse_last

    assert heart.visibility.release(heart.jobs) == 1

    assert [len(entries) for entries in heart.queue.requests("change")] == asked


@pytest.mark.parametrize(("buffer_seconds", "read_seconds"), [(1, 1.0), (4, 1.0), (10, 2.5), (60, 15.0)])
def test_client_leaves_time_for_more_beats_within_the_buffer(buffer_seconds: int, read_seconds: float) -> None:
    client = Connection("http://127.0.0.1:1").sqs(configuration(WorkerSettings(buffer_seconds=buffer_seconds)))
    made: Any = client.meta.config
    client.close()
    assert (made.connect_timeout, made.read_timeout) == (1.0, read_seconds)
    assert made.retries["total_max_attempts"] == 1
