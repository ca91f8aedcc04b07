"""Claims of a message that a worker has in work: short leases, renewed, and released with their message."""

from collections.abc import Iterator
from typing import Any

import pytest

from oneslot.runtime import powertools
from oneslot.runtime.attempt import Claims, attempt, current, on_release, take_claim
from oneslot.runtime.effects import Effects
from oneslot.runtime.handlers import make_handler_idempotent
from oneslot.runtime.protocol import Busy, Claim, Committed, Fenced
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.typed import JsonMessage

LEASE = 9_000
LIMIT = 100_000
START = 1_000_000
MESSAGE = JsonMessage("m-1", "digest")


class Host:
    """A host whose wall clock may be set; `passed` is the true time (ms)."""

    def __init__(self) -> None:
        self.passed = self.ahead = 0
        self.surroundings = Surroundings(
            now_ms=lambda: START + self.passed + self.ahead, steady=lambda: self.passed / 1e3
        )
        self.ledger = MemoryLedger(surroundings=self.surroundings)
        self.hidden = LEASE
        """When SQS delivers the message again."""
        self.claims = Claims(self.surroundings, lambda: self.hidden / 1e3, LIMIT / 1e3)

    def claim(self, *, fenced: bool = True, lease: int = LIMIT) -> Claim:
        until = self.surroundings.now_ms() + lease
        taken = take_claim(self.ledger, "m-1", "digest", until, fenced=fenced)
        assert isinstance(taken, Claim)
        return taken

    @property
    def lease(self) -> int:
        """The end of the row's lease, from the start."""
        return int(self.ledger.rows["m-1"]["lease_until"]) - START

    def work(self, milliseconds: int) -> None:
        """Time passes, with a beat every second, and an extension of the message when only a third is left."""
        for _ in range(milliseconds // 1_000):
            self.passed += 1_000
            if self.hidden - self.passed <= LEASE // 3:
                self.hidden = self.passed + LEASE
            self.claims.renew()


@pytest.fixture
def host() -> Iterator[Host]:
    """A host whose worker has a message in work."""
    made = Host()
    token = current.set(made.claims)
    yield made
    current.reset(token)


@pytest.fixture
def claims(host: Host) -> Claims:
    return host.claims


def test_lease_ends_with_the_visibility_of_its_message(host: Host) -> None:
    ends = []
    host.work(2_000)
    claim = host.claim()
    for _ in range(12):
        ends.append(host.lease)
        host.work(1_000)
    assert ends == [LEASE] * 4 + [LEASE + 6_000] * 6 + [LEASE + 12_000] * 2
    assert claim.lease_until == START + 2_000 + LIMIT
    assert host.ledger.commit(claim, Effects({})) == Committed({})


def test_lease_ends_with_its_message_when_that_is_lost(host: Host) -> None:
    host.claim()
    for _ in range(30):
        host.passed += 1_000
        host.claims.renew()
    assert host.lease == LEASE


def test_first_lease_is_long_enough_for_the_store_when_its_message_is_hidden_for_less(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.ledger, "shortest_lease_ms", 20_000, raising=False)
    host.claim()
    assert host.lease == 20_000
    host.work(3_000)
    assert host.lease == 20_000
    host.work(LEASE + 3_000)
    assert host.lease == 21_000


def test_lease_is_as_long_as_asked_and_extended_to_the_limit_when_no_transaction_ends_the_work(host: Host) -> None:
    host.claim(fenced=False, lease=12_000)
    assert host.lease == 12_000
    host.work(2 * LIMIT)
    assert host.lease == LIMIT


def test_lease_ends_at_the_asked_time_when_work_hangs(host: Host) -> None:
    host.claim(lease=12_000)
    host.work(30_000)
    assert host.lease == 12_000


def test_dead_workers_message_is_free_after_one_lease(host: Host) -> None:
    host.claim()
    host.work(30_000)
    end = host.lease
    assert end - host.passed <= LEASE
    host.passed = end + 1
    assert isinstance(host.ledger.claim("m-1", "digest", START + 10 * LIMIT), Claim)


@pytest.mark.parametrize("jump", [-3_600_000, -5_000, 5_000, 3_600_000])
def test_lease_lasts_for_hosts_with_either_time_when_the_clock_is_set(host: Host, jump: int) -> None:
    host.claim()
    host.work(6_000)
    host.ahead = jump
    for _ in range(12):
        host.work(3_000)
        assert host.lease == min(LIMIT, host.hidden + max(0, jump))


def test_extension_is_tried_again_at_the_next_beat_when_it_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def fail(claim: Claim, until: int) -> bool:
        asked.append((until - START, claim.lease_until - START))
        raise ConnectionError

    monkeypatch.setattr(host.ledger, "extend", fail)
    host.claim()
    host.work(8_000)
    assert asked == [(15_000, 6_000), (15_000, 7_000), (15_000, 8_000)]  # each with no time for the store's own retries
    assert host.lease == LEASE


def test_claim_is_extended_no_more_when_it_was_taken_over(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = host.claim()
    host.passed = LEASE + 1
    other = host.ledger.claim("m-1", "digest", START + host.passed + LEASE)
    host.work(1_000)
    assert host.lease == 2 * LEASE + 1
    assert host.ledger.commit(mine, Effects({})) == Fenced(mine)
    monkeypatch.setattr(host.ledger, "extend", lambda *_: pytest.fail("extended again"))
    host.work(30_000)
    assert isinstance(other, Claim)


@pytest.mark.parametrize("end", ["commit", "release"])
def test_finished_claim_is_left_alone(host: Host, end: str) -> None:
    claim = host.claim()
    host.ledger.commit(claim, Effects({})) if end == "commit" else host.ledger.release(claim)
    row = dict(host.ledger.rows["m-1"])
    host.work(30_000)
    assert host.ledger.rows["m-1"] == row


@pytest.mark.parametrize("in_worker", [True, False])
@pytest.mark.parametrize("fenced", [True, False])
def test_claim_is_busy_when_its_answer_comes_after_its_lease(
    host: Host, monkeypatch: pytest.MonkeyPatch, fenced: bool, in_worker: bool
) -> None:
    claim = host.ledger.claim

    def answer_late(message_id: str, payload_hash: str, lease_until: int) -> Any:
        answer = claim(message_id, payload_hash, lease_until)
        host.passed = 10_001
        return answer

    monkeypatch.setattr(host.ledger, "claim", answer_late)
    token = current.set(host.claims if in_worker else None)
    taken = take_claim(host.ledger, "m-1", "digest", START + 10_000, fenced=fenced)
    current.reset(token)
    assert taken == Busy(0)
    assert isinstance(claim("m-1", "digest", START + LIMIT), Claim)


@pytest.mark.parametrize("make_attempt", [attempt, powertools.attempt])
def test_attempts_claim_is_released_with_its_message(host: Host, make_attempt: Any) -> None:
    ledger, leases = host.ledger, list[int]()

    def decide(_: JsonMessage) -> Effects:
        leases.append(host.lease)
        assert host.claims.release() == []
        leases.append(host.lease)
        return Effects({})

    make_attempt(ledger, MESSAGE, decide, START + LIMIT)

    assert leases == [LEASE, -START]


@pytest.mark.parametrize(("options", "lease"), [({}, 30_000), ({"may_overlap": True}, -START)])
def test_handlers_lock_is_released_when_it_may_overlap(host: Host, options: dict[str, Any], lease: int) -> None:
    ledger, leases = host.ledger, list[int]()
    wrap: Any = make_handler_idempotent

    def work(_: JsonMessage, __: str) -> None:
        host.claims.release()
        leases.append(host.lease)

    handle = wrap(work, lambda message: message.message_id, ledger, 30, **options)
    handle(MESSAGE)
    handle(MESSAGE)  # a duplicate has no lock to release

    assert leases == [lease]


def test_claim_is_released_at_once_when_its_message_was_released_before(claims: Claims) -> None:
    released: list[str] = []

    on_release(lambda: released.append("early"))
    claims.release()
    on_release(lambda: released.append("late"))

    assert released == ["early", "late"]


def test_claims_are_all_released_when_one_fails(claims: Claims) -> None:
    released: list[str] = []
    error = ConnectionError()

    def fail() -> None:
        raise error

    on_release(fail)
    on_release(lambda: released.append("second"))

    assert claims.release() == [error]
    assert released == ["second"]


def test_nothing_is_released_outside_a_worker() -> None:
    on_release(lambda: pytest.fail("released"))
