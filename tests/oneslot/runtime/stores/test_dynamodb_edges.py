"""The ledger at its limits, on the prover's in-memory port: the largest result, the most writes, the real clock."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from lab.explore.practice import TABLES
from oneslot.explorer.services.dynamodb import InMemoryDynamoDB
from oneslot.runtime.backoff import Backoff
from oneslot.runtime.effects import MAXIMUM_RESULT_BYTES, MAXIMUM_WRITES, Effects, InvalidEffects, Put
from oneslot.runtime.protocol import Claim, Committed
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.expressions import DynamoDB, from_attributes
from oneslot.runtime.surroundings import Surroundings
from tests.kits.consumer import Failing, service_error

LEASE = 30_000
PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def port() -> InMemoryDynamoDB:
    return InMemoryDynamoDB(lambda: 0, TABLES)


def ledger(port: InMemoryDynamoDB, surroundings: Surroundings | None = None) -> DynamoDBLedger:
    return DynamoDBLedger(
        cast("DynamoDB", port),
        "ledger",
        retention_seconds=100,
        tables={"appointments": "appointments"},
        surroundings=surroundings,
    )


def rows(port: InMemoryDynamoDB) -> list[dict[str, Any]]:
    return [from_attributes(row) for row in port.contents.tables["ledger"].values()]


class Clock:
    """A clock (epoch ms) that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 5_000
        self.sleeps: list[float] = []

    def surroundings(self, jitter: float = 0.0) -> Surroundings:
        ids = iter("abcdef")
        return Surroundings(lambda: self.now, lambda: next(ids), self.sleep, lambda: jitter)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += int(seconds * 1000)


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


def test_the_largest_row_fits_into_an_item(port: InMemoryDynamoDB) -> None:
    """400 KB with all names and values (DynamoDB's quotas), which the port does not count; a key has 2,048 bytes at most."""
    made = ledger(port, Surroundings(now_ms=lambda: 2**53))
    claim = made.claim("m" * 2_048, "h" * 1_024, 2**53 + LEASE)
    assert isinstance(claim, Claim)
    effects = result_of(MAXIMUM_RESULT_BYTES - 5)
    largest = Effects({"text": effects.result["text"][:-1] + "\u00e9"})
    assert made.commit(claim, largest) == Committed(largest.result)
    (row,) = port.contents.tables["ledger"].values()
    assert len(row["result"]["S"]) == MAXIMUM_RESULT_BYTES
    size = sum(len(name.encode()) + len(str(value).encode()) for name, item in row.items() for value in item.values())
    assert size < 400 * 1024


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


def test_clock_follows_the_system_after_a_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that counts from the start stands still with a frozen environment, and is a picture's after a restore."""
    surroundings = Surroundings()
    for now in (2_000_000_000_000, 1_000_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now * 1_000_000)
        assert surroundings.now_ms() == now


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here; Lambda's system has them")
def test_forks_of_one_snapshot_draw_different_ids() -> None:
    """As environments do with SnapStart. With the same fence neither could tell its own claim from the other's."""
    restored = (
        "import os; from oneslot.runtime.stores.dynamodb import Surroundings; made = Surroundings()\n"
        "first = made.new_id(), made.jitter()\n"
        "for _ in range(2):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        print(made.new_id(), made.jitter(), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    told = subprocess.run([sys.executable, "-c", restored], capture_output=True, text=True, check=True, env=PATHS)
    (one, one_pause), (other, other_pause) = (line.split() for line in told.stdout.splitlines())
    assert one != other
    assert one_pause != other_pause


@pytest.mark.parametrize("retention", [100, None])
def test_complete_row_holds_exactly_its_attributes(port: InMemoryDynamoDB, retention: int | None) -> None:
    """`expires_at` counts from the last change; rows that are kept for ever have none, whatever they had before."""
    clock = Clock()
    forgetful = DynamoDBLedger(cast("DynamoDB", port), "ledger", retention_seconds=7, surroundings=clock.surroundings())
    first = forgetful.claim("m", "h", clock.now + 1)
    assert isinstance(first, Claim)
    clock.now += 2_000
    made = DynamoDBLedger(
        cast("DynamoDB", port), "ledger", retention_seconds=retention, surroundings=clock.surroundings()
    )
    claim = made.claim("m", "h", clock.now + LEASE)
    assert isinstance(claim, Claim)
    assert ("expires_at" in rows(port)[0]) == (retention is not None)
    clock.now += 3_000
    made.commit(claim, Effects({"outcome": "refused"}))
    expiry = {} if retention is None else {"expires_at": 10 + retention}
    assert rows(port) == [
        {
            "message_id": "m",
            "status": "COMPLETE",
            "consumption_count": 2,
            "updated": 10_000,
            "claimed_by": claim.claimed_by,
            "payload_hash": "h",
            "result": '{"outcome":"refused"}',
            **expiry,
        }
    ]


def test_a_row_that_had_an_expiry_loses_it_at_the_commit(port: InMemoryDynamoDB) -> None:
    """Claimed by a consumer that forgets, completed by one that does not, under the same claim."""
    clock = Clock()
    tables = (cast("DynamoDB", port), "ledger")
    claim = DynamoDBLedger(*tables, retention_seconds=7, surroundings=clock.surroundings()).claim(
        "m", "h", clock.now + LEASE
    )
    assert isinstance(claim, Claim)
    DynamoDBLedger(*tables, retention_seconds=None, surroundings=clock.surroundings()).commit(claim, Effects({}))
    assert "expires_at" not in rows(port)[0]
    assert "lease_until" not in rows(port)[0]


def test_a_released_claim_cannot_be_extended(port: InMemoryDynamoDB) -> None:
    """Neither by its owner, nor by an extension that was sent before and arrives late."""
    clock = Clock()
    made = ledger(port, clock.surroundings())
    claim = made.claim("m", "h", clock.now + LEASE)
    assert isinstance(claim, Claim)
    assert made.extend(claim, clock.now + 2 * LEASE)
    assert rows(port)[0]["lease_until"] == clock.now + 2 * LEASE
    assert made.release(claim)
    assert not made.extend(claim, clock.now + 2 * LEASE)
    assert rows(port)[0]["lease_until"] == 0


def test_patience_leaves_time_to_report_the_error() -> None:
    """Of a short time half, of a longer one `REPORTING_MS`. A pause that would end in it is not begun."""
    clock, client = Clock(), Failing(service_error("ThrottlingException"))
    made = DynamoDBLedger(
        cast("DynamoDB", client), "ledger", retention_seconds=1, surroundings=clock.surroundings(jitter=1.0)
    )
    with pytest.raises(ClientError):
        made.claim("m", "h", clock.now + 50)
    assert (client.calls, clock.sleeps) == (1, [])
    with pytest.raises(ClientError):
        made.claim("m", "h", clock.now + 51)
    assert (client.calls, clock.sleeps) == (3, [0.025])


def test_pauses_double_up_to_one_second() -> None:
    clock, client = Clock(), Failing(service_error("ThrottlingException"))
    made = DynamoDBLedger(
        cast("DynamoDB", client), "ledger", retention_seconds=1, surroundings=clock.surroundings(jitter=1.0)
    )
    with pytest.raises(ClientError):
        made.claim("m", "h", clock.now + 7_000)
    assert clock.sleeps == [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_patience_is_over_a_second_and_a_half_before_the_lease() -> None:
    clock = Clock()
    patience = Backoff(clock.surroundings(jitter=0.0), clock.now + 30_000)
    clock.now += 28_499
    assert patience.pause()
    clock.now += 1
    assert not patience.pause()


def test_time_counts_from_the_start_of_the_work() -> None:
    clock = Clock()
    started, clock.now = clock.now, clock.now + 8_000
    backoff = Backoff(clock.surroundings(jitter=0.0), clock.now + 2_000, started)
    clock.now += 500
    assert not backoff.pause()


def test_no_retry_after_the_lease() -> None:
    clock = Clock()
    assert not Backoff(clock.surroundings(jitter=0.0), clock.now).pause()
    assert not Backoff(clock.surroundings(jitter=0.0), clock.now - 10_000).pause()


def test_retention_is_refused_when_rows_would_expire_at_once(port: InMemoryDynamoDB) -> None:
    with pytest.raises(ValueError, match="from 1 second to 100 years, not 0; None keeps rows for ever"):
        DynamoDBLedger(cast("DynamoDB", port), "ledger", retention_seconds=0)
