"""What each policy for an unknown outcome promises, in every schedule with one fault and two deliveries."""

from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.faults import LATER, Choice
from oneslot.explorer.handlers import exploration
from oneslot.explorer.handlers.aws import handler_faults
from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.laws import View
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.world import ApiCall

WAYS = ["handler", "consumer"]


def explored(handler: str, law: Any) -> Result:
    result = explore(
        f"payments.{handler}",
        messages=[{"message_id": "o-1"}],
        tables={"ledger": "message_id", "payments": ("order", "number")},
        law=law,
        path=Path(__file__).parent,
        budget=300,
    )
    assert result.kind in ("holds", "breaks")
    return result


def letters(world: View) -> int:
    return sum("letters" in effect["target"] for effect in world.effects)


def paid_once(world: View) -> bool:
    """one payment"""
    return len(world["payments"]) == 1


def paid_at_least_once(world: View) -> bool:
    """a payment"""
    return bool(world["payments"])


def paid_at_most_once_and_reported(world: View) -> bool:
    """at most one payment; none only with a dead letter"""
    return len(world["payments"]) <= 1 and (len(world["payments"]) + letters(world)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("policy", "law"), [("again", paid_at_least_once), ("set_aside", paid_at_most_once_and_reported)]
)
def test_policy_keeps_what_it_promises(way: str, policy: str, law: Any) -> None:
    assert explored(f"{way}_{policy}", law).holds


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("policy", "law"), [("again", paid_once), ("set_aside", paid_at_least_once)])
def test_policy_breaks_what_it_does_not_promise_when_an_attempt_dies(way: str, policy: str, law: Any) -> None:
    result = explored(f"{way}_{policy}", law)

    assert (result.holds, result.level) == (False, "one fault, then again")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_ask_pays_once_when_nothing_lands_late(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def truthful(request: ApiCall, **more: Any) -> tuple[Choice, ...]:
        pays = "put_item" in request.text
        return tuple(choice for choice in handler_faults(request, **more) if not (pays and choice.performed == LATER))

    monkeypatch.setattr(exploration, "handler_faults", truthful)

    assert explored(f"{way}_ask", lambda world: paid_once(world) and not letters(world)).holds


@pytest.mark.parametrize("way", WAYS)
def test_ask_pays_twice_when_a_payment_lands_late(way: str) -> None:
    result = explored(f"{way}_ask", paid_once)

    assert not result.holds
    assert "on its way" in result.counterexample
