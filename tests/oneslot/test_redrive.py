"""A redrive's own pace, and how it divides and words what it sends."""

from __future__ import annotations

from oneslot.dead_letters import DeadLetter, HeldLetter
from oneslot.pacing import Pacer, Timetable
from oneslot.redrive import entry, parts, redrive
from oneslot.redrive_journal import begin_journal
from tests.oneslot.conftest import MotoStack
from tests.oneslot.test_dlq import planned


def test_the_rate_is_held() -> None:
    slept: list[float] = []
    pacer = Pacer(5.0, Timetable(lambda: sum(slept), slept.append))
    for _ in range(4):
        pacer.wait(10)
    assert slept == [2.0, 2.0, 2.0]


def test_a_redrive_holds_its_rate(moto_stack: MotoStack) -> None:
    slept: list[float] = [0.0]
    pacer = Pacer(5.0, Timetable(lambda: sum(slept), slept.append))
    journal = begin_journal(moto_stack.target, planned(moto_stack, 25), 500.0, {})
    assert redrive(moto_stack.target, journal, lambda _: None, pacer).moved == 25
    assert slept[1:] == [2.0, 2.0]


def test_after_a_stall_the_rate_is_held_again() -> None:
    """A queue that has just recovered does not get a minute's messages at once: of the minute one second is made up for."""
    slept: list[float] = []
    stalled = 0.0
    pacer = Pacer(5.0, Timetable(lambda: sum(slept) + stalled, slept.append))
    pacer.wait(10)
    stalled = 60.0
    for _ in range(4):
        pacer.wait(10)
    assert slept == [1.0, 2.0, 2.0]


def test_parts_fit_into_a_call_and_fifo_gets_an_id_of_the_run() -> None:
    letters = [
        HeldLetter(DeadLetter(f"s-{number}", None, "r", "d", None, 0), "receipt", "x" * 400_000, {}, "A81001")
        for number in range(5)
    ]
    assert [len(part) for part in parts(letters)] == [2, 2, 1]
    assert "x" not in repr(letters[0]).replace("x=", "")
    made = entry(letters[0], 0, run="run", fifo=True)
    assert (made["MessageGroupId"], made["MessageDeduplicationId"]) == ("A81001", "run-s-0")
    assert "MessageDeduplicationId" not in entry(letters[0], 0, run="run", fifo=False)
