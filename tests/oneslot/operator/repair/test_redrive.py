"""The pace of a redrive, and the entries that it sends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oneslot.operator.repair.redrive import Redrive, entry, redrive
from oneslot.operator.sending.pacing import Pacer
from oneslot.runtime.sqs.dead_letters import DeadLetter, HeldLetter
from oneslot.runtime.surroundings import Surroundings
from tests.kits.dead_letters import put_bookings
from tests.kits.moto_stack import MotoStack


def test_redrive_holds_its_rate(moto_stack: MotoStack) -> None:
    slept: list[float] = [0.0]
    target = replace(moto_stack.target, surroundings=Surroundings(steady=lambda: sum(slept), sleep=slept.append))
    one = Redrive(put_bookings(moto_stack, 25), 5.0, "run")
    redrive(target, one, lambda _: None)
    assert one.moved == 25
    assert slept[1:] == [2.0, 2.0]


def test_pacer_makes_up_for_one_second_after_a_stall() -> None:
    slept: list[float] = []
    stalled = 0.0
    pacer = Pacer(5.0, Surroundings(steady=lambda: sum(slept) + stalled, sleep=slept.append))
    pacer.wait(10)
    stalled = 60.0
    for _ in range(4):
        pacer.wait(10)
    assert slept == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("fifo", [True, False])
def test_entry_has_an_id_of_the_run_on_fifo_only(fifo: bool) -> None:
    letter = HeldLetter(DeadLetter("s-1", None, "r", "d", None, 0), "receipt", "body", {}, {"MessageGroupId": "A81001"})

    made = entry(letter, run="run", fifo=fifo)

    assert made.parameters["MessageGroupId"] == "A81001"
    assert made.parameters.get("MessageDeduplicationId") == ("run-s-1" if fifo else None)
    assert made.ordered == ("A81001" if fifo else None)


def test_held_letter_does_not_show_its_body() -> None:
    letter = HeldLetter(
        DeadLetter("s-1", None, "r", "d", None, 0), "receipt", "secret", {}, {"MessageGroupId": "A81001"}
    )

    assert "secret" not in repr(letter)
