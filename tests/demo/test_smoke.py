"""`oneslot smoke`: passes on a stack that books once, fails on one that does not, and cleans up either way."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from demo.commands import smoke as verb
from demo.commands.smoke import Smoke
from demo.errors import SmokeFailed
from oneslot.operator.target import Target
from tests.kits.consumer import PRACTICE
from tests.kits.moto_stack import MotoStack, invoke


def smoke(stack: MotoStack, consume: Callable[[], None]) -> Smoke:
    """A smoke test of this stack; while it waits, messages are consumed."""
    return Smoke(stack.target, 60.0, sleep=lambda _: consume())


def slots(stack: MotoStack) -> list[dict[str, Any]]:
    return [row for row in stack.bench.rows("slots") if row["practice"] != PRACTICE]


def test_smoke_passes_on_a_working_stack_and_cleans_up(moto_stack: MotoStack) -> None:
    test = smoke(moto_stack, moto_stack.consume)
    test.check()
    assert test.clean_up() == "cancelled, and the slot is free again"
    assert slots(moto_stack) == []
    (appointment,) = moto_stack.bench.rows("appointments")
    assert (appointment["appointment_id"], appointment["status"]) == (test.message_id, "cancelled")
    assert appointment["nhs_number"].startswith("999"), "of the range that is kept for tests"
    assert {row["message_id"] for row in moto_stack.bench.rows("ledger")} == {
        test.message_id,
        f"{test.message_id}-cancel",
    }
    assert invoke("check").exit_code == 0, "and the invariants hold"


def test_smoke_fails_and_stops_a_late_booking_when_idle(moto_stack: MotoStack) -> None:
    test = smoke(moto_stack, lambda: None)
    test.timeout = 0.01
    with pytest.raises(SmokeFailed, match=r"Not within 0\.01 s: smoke-[0-9a-f]+ is complete"):
        test.check()
    with pytest.raises(SmokeFailed, match="cancel is complete"):
        test.clean_up()
    moto_stack.consume()  # now it wakes up, too late
    assert slots(moto_stack)[0]["status"] == "free"
    test.clean_up()
    assert slots(moto_stack) == []


def test_smoke_fails_when_a_copy_is_booked_twice(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    test = smoke(moto_stack, moto_stack.consume)
    monkeypatch.setattr(Smoke, "_outcomes", lambda *_: ["booked", "booked"])
    with pytest.raises(SmokeFailed, match="Two copies ended as booked, booked"):
        test.check()
    moto_stack.consume()
    test.clean_up()
    assert slots(moto_stack) == []


def test_smoke_fails_when_the_cancellation_frees_no_slot(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = smoke(moto_stack, moto_stack.consume)
    test.check()
    monkeypatch.setattr(Smoke, "_send", lambda *_: "an id")
    monkeypatch.setattr(Smoke, "_wait_until_complete", lambda *_: None)
    with pytest.raises(SmokeFailed, match="did not free the slot"):
        test.clean_up()
    assert slots(moto_stack)[0]["status"] == "busy"


@pytest.mark.parametrize(
    ("interruption", "status", "expected"),
    [
        (ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "FilterLogEvents"), 1, "FilterLogEvents"),
        (KeyboardInterrupt(), 130, "Interrupted"),
    ],
)
def test_smoke_cleans_up_whatever_stops_it(
    moto_stack: MotoStack,
    monkeypatch: pytest.MonkeyPatch,
    interruption: BaseException,
    status: int,
    expected: str,
) -> None:
    def stop(*_: object) -> None:
        raise interruption

    def consuming(target: Target, timeout: float) -> Smoke:
        return Smoke(target, timeout, sleep=lambda _: moto_stack.consume())

    monkeypatch.setattr(Smoke, "_outcomes", stop)
    monkeypatch.setattr(verb, "Smoke", consuming)
    result = invoke("smoke")
    assert result.exit_code == status
    assert expected in result.output
    (appointment,) = moto_stack.bench.rows("appointments")
    assert appointment["status"] == "cancelled"
    assert appointment["appointment_id"] in result.output
    assert slots(moto_stack) == []
