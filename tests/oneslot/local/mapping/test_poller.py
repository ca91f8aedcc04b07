"""The poller offers no message that SQS shows again, and deletes none of a failed batch."""

from typing import Any, cast

import pytest

from oneslot.local.mapping.configuration import FunctionConfiguration, MappingConfiguration, QueueConfiguration
from oneslot.local.mapping.handler_process import Answered, FunctionError, Outcome, Throttled
from oneslot.local.mapping.poller import Poller, Statistics, StatisticsCounter
from oneslot.runtime.surroundings import Surroundings
from tests.kits.local_mapping import wait_for

FUNCTION = FunctionConfiguration("fake", "arn", "1", "fake.handle", 10, 128, {}, "group", None, "")
QUEUE = QueueConfiguration("url", "arn:aws:sqs:eu-west-2:1:queue", "eu-west-2", visibility_timeout_seconds=30)
CONFIGURATION = MappingConfiguration("id", 10, 0, None, True, QUEUE, FUNCTION)


class World:
    """A queue of one message, a function, and the clock that both of them advance."""

    def __init__(self, receives: list[int], offers: list[int], outcome: Outcome = Answered("null")) -> None:  # noqa: B008
        self.now = 0.0
        self.outcome = outcome
        self.receives = receives  # seconds that each takes
        self.offers = offers  # seconds that each takes; a negative number for one that is throttled
        self.offered: list[float] = []
        self.receipt_is_stale = False

    def receive_message(self, **_: object) -> dict[str, Any]:
        if not self.receives:
            return {}
        self.now += self.receives.pop(0)
        return {"Messages": [{"MessageId": "m", "ReceiptHandle": "r", "Body": "{}", "MD5OfBody": "d"}]}

    def delete_message_batch(self, **_: object) -> dict[str, Any]:
        stale = {"Id": "0", "Code": "ReceiptHandleIsInvalid", "SenderFault": True}
        return {"Failed": [stale]} if self.receipt_is_stale else {"Successful": [{"Id": "0"}]}

    def invoke(self, event: dict[str, Any]) -> Outcome:
        assert event["Records"][0]["messageId"] == "m"
        self.offered.append(self.now)
        seconds = self.offers.pop(0)
        self.now += abs(seconds)
        return Throttled() if seconds < 0 else self.outcome


@pytest.mark.parametrize(
    ("receives", "offers", "offered"),
    [
        ([1], [5], [1]),
        ([10], [-12, -12], [10, 22]),
        ([31, 2], [5], [33]),
    ],
    ids=["calm", "throttled", "slow answer"],
)
def test_poller_offers_no_message_that_is_visible_again(
    receives: list[int], offers: list[int], offered: list[float]
) -> None:
    world = World(receives, offers)

    polled(world, len(receives))

    assert world.offered == offered


@pytest.mark.parametrize(
    ("outcome", "error"),
    [(FunctionError("crash", "Runtime.ExitError"), "Runtime.ExitError"), (Answered("[]"), "Invalid")],
    ids=["crash", "invalid answer"],
)
def test_poller_deletes_nothing_when_the_function_fails(outcome: Outcome, error: str) -> None:
    numbers = polled(World([1], [5], outcome), 1)

    assert (numbers.function_errors, numbers.failed, numbers.deleted, numbers.last_error) == (1, 1, 0, error)


def test_poller_counts_a_message_as_not_deleted_when_its_receipt_is_stale() -> None:
    world = World([1], [5])
    world.receipt_is_stale = True

    numbers = polled(world, 1)

    assert (numbers.deleted, numbers.delete_refused, numbers.function_errors) == (0, 1, 0)


def polled(world: World, batches: int) -> Statistics:
    """Poll until this many batches have ended."""

    def ended() -> int:
        now = counter.snapshot()
        return now.deleted + now.delete_refused + now.failed

    surroundings = Surroundings(steady=lambda: world.now)
    counter = StatisticsCounter(surroundings)
    poller = Poller(
        CONFIGURATION,
        invoke=world.invoke,
        sqs=cast("Any", world),
        threads=1,
        counter=counter,
        surroundings=surroundings,
    )
    poller.start()
    wait_for(lambda: ended() == batches)
    poller.finish()
    return counter.snapshot()
