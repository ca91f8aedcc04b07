"""The heartbeat: extending, losing and releasing messages, on a virtual clock."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from oneslot.local.aws.connection import Connection
from oneslot.runtime.releases import Releases
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker.job import InHand, Job, State
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
            cast("Any", self.queue),
            "url",
            in_hand=self.in_hand,
            settings=settings,
            log=self.log,
            surroundings=self.surroundings,
        )
        answer = self.queue.receive_message(MaxNumberOfMessages=10, VisibilityTimeout=40)
        self.jobs = [
            Job(message, 40.0, 900.0, 0.0, Releases(self.surroundings), state=state) for message in answer["Messages"]
        ]
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
    heart.in_hand.add(
        Job({"ReceiptHandle": "deleted", "MessageId": "k"}, 40.0, 900.0, 0.0, Releases(heart.surroundings))
    )

    heart.beat_at(30)

    assert [len(entries) for entries in heart.queue.requests("change")] == [10, 1]


@pytest.mark.parametrize("failure", [no_answer, throttled])
def test_heartbeat_retries_when_an_extension_fails(failure: Any) -> None:
    heart = Heart("a")
    heart.queue.fail["change"] = first(2, failure)

    for second in (30, 31, 32):
        heart.beat_at(second)

    assert (heart.jobs[0].visible_at, heart.jobs[0].lost) == (72, False)
    assert heart.log.counts["extended"] == 1


@pytest.mark.parametrize("failure", [no_answer, throttled])
def test_release_and_deferral_retry_when_they_fail(failure: Any) -> None:
    heart, deferral = Heart("a"), Deferral()
    for each in (heart, deferral.heart):
        each.queue.fail["change"] = first(1, failure)

    assert heart.visibility.release(heart.jobs) == 1
    assert deferral(60_000) == 60


def test_message_is_lost_when_sqs_refuses_the_extension() -> None:
    heart = Heart("a")
    heart.queue.messages.clear()  # another consumer has received and deleted it

    heart.beat_at(30)
    heart.beat_at(31)

    assert heart.jobs[0].lost
    assert heart.queue.count("change") == 1
    assert heart.log.counts["leases_lost"] == 1


def test_message_is_lost_when_no_extension_arrived_in_time() -> None:
    heart = Heart("a")
    heart.queue.fail["change"] = no_answer

    heart.beat_at(30)
    heart.beat_at(40)

    assert heart.jobs[0].lost
    assert heart.queue.count("change") == 1


def test_message_is_not_lost_when_its_own_deletion_crosses() -> None:
    heart = Heart("a", state=State.ACKNOWLEDGING)
    heart.queue.messages.clear()

    heart.beat_at(30)

    assert heart.queue.count("change") == 1
    assert not heart.jobs[0].lost


class Deferral:
    """The seconds for which a message is hidden that is busy at second 5. With so few receives no wait is short."""

    def __init__(self, *, jitter: float = 0.0, max_receive_count: int = 3, **settings: Any) -> None:
        numbers = WorkerSettings(max_receive_count=max_receive_count, **settings)
        self.heart = Heart("a", jitter=jitter, settings=numbers)

    def __call__(self, milliseconds: int) -> float:
        self.heart.clock.now = 5.0
        self.heart.visibility.defer(self.heart.jobs[0], milliseconds)
        return float(self.heart.queue.messages[0]["visible_at"]) - 5.0


@pytest.mark.parametrize(("max_receive_count", "seconds"), [(3, 450), (4, 1), (10, 1)])
def test_first_deferral_is_short_when_receives_are_left(max_receive_count: int, seconds: int) -> None:
    assert Deferral(max_receive_count=max_receive_count)(450_000) == seconds


@pytest.mark.parametrize(("retry_delay", "hidden"), [(0, 35), (1, 1), (60, 2)])
def test_failed_message_is_delayed_when_the_settings_say_so(retry_delay: int, hidden: int) -> None:
    deferral = Deferral(jitter=1.0, retry_delay_seconds=retry_delay)
    deferral.heart.clock.now = 5.0

    deferral.heart.visibility.delay(deferral.heart.jobs[0])

    assert deferral.heart.queue.messages[0]["visible_at"] - 5.0 == hidden


def test_failed_message_waits_as_long_as_its_handler_asks() -> None:
    deferral = Deferral(max_receive_count=10, retry_delay_seconds=60)
    deferral.heart.clock.now = 5.0

    deferral.heart.visibility.delay(deferral.heart.jobs[0], 30_000)

    assert deferral.heart.queue.messages[0]["visible_at"] - 5.0 == 30


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, 861), (0.9, 863)])
def test_deferral_hides_a_message_for_its_wait_and_jitter(jitter: float, seconds: int) -> None:
    deferral = Deferral(jitter=jitter)

    assert deferral(860_500) == seconds

    assert deferral.heart.log.counts == {"deferred": 1}


@pytest.mark.parametrize(("limit_seconds", "longest"), [(60, 900), (900, 900), (7_200, 7_200), (43_160, 43_155)])
def test_deferral_never_outlasts_the_longest_lease(limit_seconds: int, longest: int) -> None:
    """That of the hard limit or of Lambda, and never SQS's 12 hours, of which 5 + 40 seconds have passed."""
    deferral = Deferral(limit_seconds=limit_seconds)

    assert deferral(10**9) == longest


def test_deferral_leaves_a_lost_message_alone() -> None:
    deferral = Deferral()
    deferral.heart.jobs[0].lost = True

    deferral(60_000)

    assert deferral.heart.queue.count("change") == 0


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


def received(heart: Heart, second: float) -> list[Job]:
    """The messages of the heart, received by a call that was made at second 0 and answered at this one."""
    heart.clock.now = second
    return heart.visibility.ensure_hidden(heart.jobs)


def test_received_message_is_begun_when_sqs_hides_it_long_enough() -> None:
    heart = Heart("a")

    assert received(heart, 34.9) == heart.jobs

    assert heart.queue.count("change") == 0


@pytest.mark.parametrize("second", [35, 39, 41])
def test_received_message_is_extended_first_when_its_answer_was_slow(second: float) -> None:
    heart = Heart("a")

    assert received(heart, second) == heart.jobs

    assert heart.jobs[0].visible_at == heart.queue.messages[0]["visible_at"] == second + 40


@pytest.mark.parametrize("failure", [no_answer, throttled])
def test_received_message_is_dropped_when_it_is_not_extended(failure: Any) -> None:
    heart = Heart("a", "b")
    heart.queue.fail["change"] = failure

    assert received(heart, 41) == []

    assert heart.log.counts["received_too_late"] == 2


def test_received_message_is_dropped_when_another_consumer_has_it() -> None:
    heart = Heart("a", "b")
    heart.queue.messages.pop(0)

    assert received(heart, 41) == heart.jobs[1:]


def test_received_message_is_dropped_when_its_extensions_are_slow_too() -> None:
    heart = Heart("a")
    heart.queue.fail["change"] = lambda _: heart.clock.__setattr__("now", heart.clock.now + 39.0)

    assert received(heart, 41) == []


def test_received_message_is_begun_when_its_second_extension_succeeds() -> None:
    heart = Heart("a")
    heart.queue.fail["change"] = first(1, throttled)

    assert received(heart, 39) == heart.jobs


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
