"""Policies for an outside effect that may have happened: repeat it, set it aside, or ask."""

import asyncio
from typing import Any

import pytest

from oneslot.runtime.effects import Effects, Unprocessable
from oneslot.runtime.handlers import NOT_DONE, UNKNOWN, Done, again, ask, make_handler_idempotent, performing, set_aside
from oneslot.runtime.protocol import Answer, Busy, Conflict
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.typed import JsonMessage
from tests.kits.consumer import Clock, surroundings

MESSAGE = JsonMessage("m-1", "digest")
LEASE_MS = 30_000


class Bank:
    """An outside service that takes payments, and may fail after it took one."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.failures = 0
        self.clock = Clock()
        self.ledger = MemoryLedger(surroundings=surroundings(self.clock))

    def pay(self, message: JsonMessage, key: str = "") -> str:
        self.paid.append(key or message.message_id)
        if self.failures:
            self.failures -= 1
            raise TimeoutError("no answer")
        return "paid"

    def decide(self, message: JsonMessage) -> Effects:
        return Effects({"outcome": self.pay(message)})

    def attempt(self, if_unknown: Any, message: JsonMessage = MESSAGE) -> Any:
        return performing(if_unknown)(self.ledger, message, self.decide, self.clock() + LEASE_MS)

    def handle(self, if_unknown: Any) -> Any:
        return make_handler_idempotent(
            self.pay, lambda message: message.message_id, self.ledger, LEASE_MS / 1000, if_unknown=if_unknown
        )(MESSAGE)


@pytest.fixture
def bank() -> Bank:
    """A bank whose first payment is taken and not answered."""
    made = Bank()
    made.failures = 1
    with pytest.raises(TimeoutError):
        made.handle(again)
    return made


def test_first_attempt_is_performed_under_every_policy() -> None:
    for policy in (again, set_aside, ask(lambda message, key: UNKNOWN)):
        by_handler, by_attempt = Bank(), Bank()
        assert by_handler.handle(policy) == "paid"
        assert by_attempt.attempt(policy).result == {"outcome": "paid"}


@pytest.mark.parametrize("policy", [set_aside, ask(lambda message, key: UNKNOWN)])
def test_unknown_outcome_is_set_aside_at_every_delivery(bank: Bank, policy: Any) -> None:
    for _ in range(2):
        with pytest.raises(Unprocessable) as problem:
            bank.handle(policy)
        assert problem.value.reason == "outcome_unknown"
        assert "may have happened; find out" in problem.value.detail
    assert bank.paid == ["m-1"]
    assert bank.ledger.rows["m-1"]["lease_until"] == 0


def test_probe_is_asked_with_message_and_key(bank: Bank) -> None:
    asked: list[Any] = []

    def probe(message: Any, key: str) -> Done:
        asked.append((message, key))
        return Done("paid before")

    assert [bank.handle(ask(probe)) for _ in range(2)] == ["paid before"] * 2
    assert (asked, bank.paid) == ([(MESSAGE, "m-1")], ["m-1"])


def test_effect_is_performed_when_the_probe_says_not_done(bank: Bank) -> None:
    assert bank.handle(ask(lambda message, key: NOT_DONE)) == "paid"
    assert bank.paid == ["m-1", "m-1"]


def test_probe_is_asked_again_when_it_raises(bank: Bank) -> None:
    def unreachable(message: Any, key: str) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        bank.handle(ask(unreachable))
    assert bank.handle(ask(lambda message, key: Done("paid before"))) == "paid before"


def test_probe_is_refused_when_it_returns_something_else(bank: Bank) -> None:
    with pytest.raises(TypeError, match="bool"):
        bank.handle(ask(lambda message, key: True))  # type: ignore[arg-type, return-value]
    assert bank.paid == ["m-1"]


@pytest.mark.enable_socket
def test_coroutine_is_not_called_when_the_probe_says_done(bank: Bank) -> None:
    async def pay(message: JsonMessage, key: str) -> str:
        return bank.pay(message, key)

    handle = make_handler_idempotent(
        pay, lambda message: message.message_id, bank.ledger, 30, if_unknown=ask(lambda message, key: Done("before"))
    )

    async def call() -> Any:
        return await handle(MESSAGE)

    assert asyncio.run(call()) == "before"
    assert bank.paid == ["m-1"]


def test_may_overlap_is_refused_with_another_policy() -> None:
    with pytest.raises(ValueError, match="may_overlap"):
        make_handler_idempotent(
            lambda message, key: None, str, MemoryLedger(), 30, may_overlap=True, if_unknown=set_aside
        )


def test_attempt_takes_the_probes_answer_as_result(bank: Bank) -> None:
    policy = ask(lambda message, key: Done({"outcome": "paid"}))
    message = JsonMessage("m-1", "")  # the handler checked no content
    object.__setattr__(message, "payload_hash", "")

    assert bank.attempt(policy, message) == Answer({"outcome": "paid"}, False, 2, bank.ledger.rows["m-1"]["claimed_by"])
    assert bank.paid == ["m-1"]


def test_attempt_answers_a_duplicate_without_the_policy() -> None:
    bank = Bank()
    first, second = bank.attempt(set_aside), bank.attempt(set_aside)

    assert second == Answer(first.result, True, 1, first.claimed_by)


def test_attempt_passes_on_why_it_may_not_begin() -> None:
    bank = Bank()
    bank.ledger.claim("m-1", "digest", bank.clock() + LEASE_MS)

    assert bank.attempt(again) == Busy(LEASE_MS)
    assert bank.attempt(again, JsonMessage("m-1", "other")) == Conflict()
