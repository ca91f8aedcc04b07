"""The ledger at its limits, on the prover's in-memory port: the largest result, the most writes, the real clock."""

from __future__ import annotations

import time
from typing import cast

import pytest

from exactly_once.dynamodb import DynamoDB
from exactly_once.effects import Effects, Put
from exactly_once.ledger import (
    MAXIMUM_RESULT_BYTES,
    MAXIMUM_WRITES,
    Claim,
    Committed,
    InvalidEffects,
    Ledger,
    Surroundings,
)
from prover.dynamodb_port import InMemoryDynamoDB
from prover.world import TABLES

LEASE = 30_000


@pytest.fixture
def port() -> InMemoryDynamoDB:
    return InMemoryDynamoDB(lambda: 0, TABLES)


def ledger(port: InMemoryDynamoDB, surroundings: Surroundings | None = None) -> Ledger:
    return Ledger(
        cast("DynamoDB", port),
        "ledger",
        retention_seconds=100,
        tables={"appointments": "appointments"},
        surroundings=surroundings,
    )


def commit(port: InMemoryDynamoDB, effects: Effects) -> object:
    made = ledger(port, Surroundings(now_ms=lambda: 1_000, new_id=iter("abcdef").__next__))
    claim = made.claim("m", "h", 1_000 + LEASE)
    assert isinstance(claim, Claim)
    return made.commit(claim, effects)


def puts(number: int) -> Effects:
    return Effects(
        {}, tuple(Put("appointments", "appointment_id", {"appointment_id": f"a-{one}"}) for one in range(number))
    )


def result_of(size: int) -> Effects:
    return Effects({"text": "x" * (size - len('{"text":""}'))})


def test_the_largest_result_is_committed(port: InMemoryDynamoDB) -> None:
    effects = result_of(MAXIMUM_RESULT_BYTES)
    assert commit(port, effects) == Committed(effects.result)


def test_one_byte_more_is_refused(port: InMemoryDynamoDB) -> None:
    with pytest.raises(InvalidEffects):
        commit(port, result_of(MAXIMUM_RESULT_BYTES + 1))


def test_the_most_writes_are_committed(port: InMemoryDynamoDB) -> None:
    assert commit(port, puts(MAXIMUM_WRITES)) == Committed({})
    assert len(port.contents.tables["appointments"]) == MAXIMUM_WRITES


def test_one_write_more_is_refused(port: InMemoryDynamoDB) -> None:
    with pytest.raises(InvalidEffects):
        commit(port, puts(MAXIMUM_WRITES + 1))


def test_without_surroundings_it_lives_in_the_real_world(port: InMemoryDynamoDB) -> None:
    now = time.time_ns() // 1_000_000
    made = ledger(port)
    claims = [made.claim(message_id, "h", now + LEASE) for message_id in ("one", "other")]
    fences = {claim.claimed_by for claim in claims if isinstance(claim, Claim)}
    assert len(fences) == 2
    assert all(now <= int(row["updated"]["N"]) < now + LEASE for row in port.contents.tables["ledger"].values())
