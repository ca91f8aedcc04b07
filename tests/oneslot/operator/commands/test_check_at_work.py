"""`oneslot check` while the consumer works: a request between two writes is not a breach, and a real breach is."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from oneslot.operator.commands import check as check_module
from oneslot.operator.evidence.gathering import Gathered, gather
from oneslot.target import Target
from tests.kits.consumer import BEFORE, booking, record
from tests.kits.moto_stack import MotoStack, document, invoke

NAMES = [f"m-{number}" for number in range(3)]


@pytest.fixture
def looks(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The requests that each look misses in the ledger; none after the last entry."""
    moto_stack.bench.deliver(*[record(booking(name)) for name in NAMES])
    moto_stack.write_log()
    between: list[list[str]] = []
    at = count()

    def torn(target: Target) -> Gathered:
        # As of the bench's clock, which stands still: by the real one rows may have been due to expire.
        gathered = gather(target, lambda: BEFORE)
        number = next(at)
        missed = between[number] if number < len(between) else []
        ledger = {name: row for name, row in gathered.evidence.ledger.items() if name not in missed}
        return replace(gathered, evidence=replace(gathered.evidence, ledger=ledger))

    monkeypatch.setattr(check_module, "gather", torn)
    return between


@pytest.mark.parametrize("missed", [[], [["m-0"]], [["m-0"], ["m-1", "m-2"]]])
def test_check_holds_when_a_request_is_broken_in_one_look(looks: list[list[str]], missed: list[list[str]]) -> None:
    looks += missed
    assert document(invoke("check", "--json"))["kind"] == "holds"


def test_check_is_broken_when_two_looks_agree(looks: list[list[str]]) -> None:
    looks += [["m-0", "m-1"], ["m-1", "m-2"]]
    judged = document(invoke("check", "--json"), exit_code=1)
    assert judged["kind"] == "broken"
    assert {breach["subject"] for breach in judged["breaches"]} == {"m-1"}


def test_check_is_unfinished_when_every_look_differs(looks: list[list[str]]) -> None:
    looks += [[name] for name in NAMES]
    judged = document(invoke("check", "--json"), exit_code=1)
    assert (judged["kind"], judged["breaches"]) == ("unfinished", [])
    assert (judged["counts"]["lost"], judged["counts"]["double_booked"]) == (None, None)
