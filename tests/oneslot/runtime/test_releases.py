"""Claims that are registered with their message, and released with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oneslot.runtime import powertools
from oneslot.runtime.attempt import attempt
from oneslot.runtime.effects import Effects
from oneslot.runtime.handlers import make_handler_idempotent
from oneslot.runtime.protocol import JsonMessage
from oneslot.runtime.releases import Releases, current, on_release
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.surroundings import Surroundings

LATER = 1_000_000
MESSAGE = JsonMessage("m-1", "digest")
SURROUNDINGS = Surroundings(now_ms=lambda: 1_000)


@pytest.fixture
def releases() -> Iterator[Releases]:
    """The claims of a message that a worker has in work."""
    made = Releases(SURROUNDINGS)
    token = current.set(made)
    yield made
    current.reset(token)


def lease_of(ledger: MemoryLedger) -> int:
    return int(ledger.rows["m-1"]["lease_until"])


@pytest.mark.parametrize("make_attempt", [attempt, powertools.attempt])
def test_attempts_claim_is_released_with_its_message(releases: Releases, make_attempt: Any) -> None:
    ledger, leases = MemoryLedger(surroundings=SURROUNDINGS), list[int]()

    def decide(_: JsonMessage) -> Effects:
        leases.append(lease_of(ledger))
        assert releases.call() == []
        leases.append(lease_of(ledger))
        return Effects({})

    make_attempt(ledger, MESSAGE, decide, LATER)

    assert leases == [LATER, 0]


@pytest.mark.parametrize(("options", "lease"), [({}, 31_000), ({"may_overlap": True}, 0)])
def test_handlers_lock_is_released_when_it_may_overlap(releases: Releases, options: dict[str, Any], lease: int) -> None:
    ledger, leases = MemoryLedger(surroundings=SURROUNDINGS), list[int]()
    wrap: Any = make_handler_idempotent

    def work(_: JsonMessage, __: str) -> None:
        releases.call()
        leases.append(lease_of(ledger))

    handle = wrap(work, lambda message: message.message_id, ledger, 30, **options)
    handle(MESSAGE)
    handle(MESSAGE)  # a duplicate has no lock to release

    assert leases == [lease]


def test_claim_is_released_at_once_when_its_message_was_released_before(releases: Releases) -> None:
    released: list[str] = []

    on_release(lambda: released.append("early"))
    releases.call()
    on_release(lambda: released.append("late"))

    assert released == ["early", "late"]


def test_claims_are_all_released_when_one_fails(releases: Releases) -> None:
    released: list[str] = []
    error = ConnectionError()

    def fail() -> None:
        raise error

    on_release(fail)
    on_release(lambda: released.append("second"))

    assert releases.call() == [error]
    assert released == ["second"]


def test_nothing_is_released_outside_a_worker() -> None:
    on_release(lambda: pytest.fail("released"))
