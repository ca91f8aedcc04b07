"""A redrive's own pace, and how it divides and words what it sends."""

from __future__ import annotations

from dataclasses import replace

from oneslot.repair.journal import begin_journal, open_journal
from oneslot.repair.redrive import entry, parts, redrive
from oneslot.runtime.sqs.dead_letters import DeadLetter, HeldLetter
from oneslot.sending.pacing import Pacer, Timetable
from tests.kits.moto_stack import MotoStack
from tests.oneslot.commands.test_dlq import planned


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


def test_a_journal_says_what_was_refused_and_is_of_its_own_stack_only(moto_stack: MotoStack) -> None:
    """A stack that was deleted and made again has the same name, and none of the messages that its journal speaks of."""
    target = moto_stack.target
    begin_journal(target, frozenset({"s-1", "s-2"}), 5.0, {}).note_refused("s-1", "InvalidMessageContents")
    read = open_journal(target)
    assert read is not None
    assert (read.refused, read.left) == ({"s-1": "InvalidMessageContents"}, frozenset({"s-2"}))
    path = read.path
    path.write_text(path.read_text().replace(target.identity, "another stack"))
    assert open_journal(target) is None


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
    assert [len(part) for part in parts([replace(letters[0], body="x")] * 11)] == [10, 1]
    assert "x" not in repr(letters[0]).replace("x=", "")
    made = entry(letters[0], 0, run="run", fifo=True)
    assert (made["MessageGroupId"], made["MessageDeduplicationId"]) == ("A81001", "run-s-0")
    assert "MessageDeduplicationId" not in entry(letters[0], 0, run="run", fifo=False)
