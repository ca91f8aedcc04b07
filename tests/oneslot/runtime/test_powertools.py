"""Powertools' wrapping: what it may change (nothing), and what it must not be able to switch off."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemNotFoundError,
    IdempotencyKeyError,
    IdempotencyValidationError,
)
from botocore.exceptions import ClientError

from oneslot.runtime import powertools as idempotency
from oneslot.runtime.effects import Effects
from oneslot.runtime.powertools import LedgerPersistence, NoClaim, exactly_once
from oneslot.runtime.protocol import Answer
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from tests.kits.consumer import Bench, Intercepted, bench, raising, service_error, surroundings

LEASE = 30_000


@dataclass(frozen=True)
class Message:
    message_id: str = "m"
    payload_hash: str = "h"


@pytest.fixture
def made() -> Iterator[Bench]:
    with bench(slots=0) as made:
        yield made


def ledger(made: Bench, client: Any = None) -> DynamoDBLedger:
    tables = {"appointments": "appointments"}
    return DynamoDBLedger(
        client or made.dynamodb, "ledger", retention_seconds=100, tables=tables, surroundings=surroundings(made.clock)
    )


@pytest.mark.parametrize("kind", [SystemExit, LookupError])
def test_decision_keeps_its_error_when_the_release_fails(
    made: Bench, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    error = kind("the decision's own")

    def decide(_message: Message) -> Effects:
        raise error

    def refuse(*_: Any) -> bool:
        raise TimeoutError("the ledger is down")

    monkeypatch.setattr(DynamoDBLedger, "release", refuse)
    with pytest.raises(kind) as raised:
        exactly_once(ledger(made))(decide)(Message(), made.clock() + LEASE)
    assert raised.value is error
    assert error.__notes__ == ["TimeoutError while the claim was released: its lease lasts to its end"]


@pytest.mark.parametrize("error", [IdempotencyAlreadyInProgressError("inner"), IdempotencyValidationError("inner")])
def test_powertools_error_inside_a_decision_is_not_an_answer(made: Bench, error: Exception) -> None:
    """A decision may ask through a function of its own that Powertools guards. Taken for ours, it would lose the message."""

    def decide(_message: Message) -> Effects:
        raise error

    with pytest.raises(type(error), match="inner"):
        exactly_once(ledger(made))(decide)(Message(), made.clock() + LEASE)
    assert (made.row("m")["status"], made.row("m")["lease_until"]) == ("IN_PROGRESS", 0)


def test_an_error_of_the_service_is_raised_unwrapped(made: Bench) -> None:
    client = Intercepted(made.dynamodb, before={"update_item": raising(service_error("AccessDeniedException"))})
    decide = exactly_once(ledger(made, client))(lambda _message: Effects({}))
    with pytest.raises(ClientError, match="AccessDenied"):
        decide(Message(), made.clock() + LEASE)


@pytest.mark.parametrize("message", [Message(message_id=""), Message(payload_hash="")])
def test_a_missing_key_fails_closed(made: Bench, message: Message) -> None:
    ran: list[Message] = []

    def decide(message: Message) -> Effects:
        ran.append(message)
        return Effects({})

    with pytest.raises(IdempotencyKeyError):
        exactly_once(ledger(made))(decide)(message, made.clock() + LEASE)
    assert ran == []
    assert made.rows("ledger") == []


def test_switching_powertools_off_does_not_switch_protection_off(made: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Message] = []

    def decide(message: Message) -> Effects:
        ran.append(message)
        return Effects({})

    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", "true")
    with pytest.warns(UserWarning, match="Disabling idempotency"), pytest.raises(NoClaim):
        exactly_once(ledger(made))(decide)(Message(), made.clock() + LEASE)
    assert ran == []


def test_two_functions_on_one_ledger_keep_apart(made: Bench) -> None:
    shared = ledger(made)
    one = exactly_once(shared)(lambda _message: Effects({"by": "one"}))

    @exactly_once(shared)
    def two(message: Message) -> Effects:
        """Asks the other."""
        inner = one(Message("inner"), made.clock() + LEASE)
        assert isinstance(inner, Answer)
        return Effects({"by": "two", "inner": inner.result["by"], "of": message.message_id})

    outer = two(Message("outer"), made.clock() + LEASE)
    assert isinstance(outer, Answer)
    assert (outer.result, outer.duplicate) == ({"by": "two", "inner": "one", "of": "outer"}, False)
    assert two(Message("outer"), made.clock() + LEASE) == replace(outer, duplicate=True)
    assert two.__doc__ == "Asks the other."
    assert {row["status"] for row in made.rows("ledger")} == {"COMPLETE"}


def test_the_layer_reads_no_record(made: Bench) -> None:
    """A refused claim brings its row with it; Powertools learns that there is nothing else to read."""
    layer = LedgerPersistence(ledger(made), Message(), made.clock() + LEASE)
    with pytest.raises(IdempotencyItemNotFoundError):
        layer.get_record({"message_id": "m"})
    with pytest.raises(IdempotencyItemNotFoundError):
        layer._get_record("m")


def test_a_powertools_that_asks_for_no_claim_gets_no_answer(made: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the decision nor a claim: that must not look like a request that was answered."""
    monkeypatch.setattr(idempotency, "idempotent_function", lambda perform, **options: lambda **arguments: {})
    decide = exactly_once(ledger(made))(lambda _message: Effects({}))
    with pytest.raises(NoClaim):
        decide(Message(), made.clock() + LEASE)
