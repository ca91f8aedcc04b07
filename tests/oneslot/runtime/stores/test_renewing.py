"""Leases that are kept alive: short for the consumer that comes after a death, long enough for work that lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from oneslot.runtime.effects import Effects, Once, Put
from oneslot.runtime.protocol import Busy, Claim, Committed, Duplicate, Exists
from oneslot.runtime.stores import renewing as kept_ledger
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.stores.renewing import RenewingLedger
from tests.kits.consumer import Clock, surroundings

LEASE = 9_000
WHOLE = 100_000


@dataclass
class Kept:
    clock: Clock = field(default_factory=Clock)
    put_forward: int = 0
    """By how much this host's clock was put forward since the beginning; the other hosts' clocks were not."""

    def __post_init__(self) -> None:
        steady = replace(surroundings(self.clock), steady=lambda: (self.others_clock - 7_777) / 1000)
        self.plain = MemoryLedger(surroundings=steady)
        self.ledger = RenewingLedger(self.plain, lease_seconds=LEASE / 1000)

    @property
    def others_clock(self) -> int:
        return self.clock() - self.put_forward

    def put_clock_forward(self, milliseconds: int) -> None:
        self.clock.now += milliseconds
        self.put_forward += milliseconds

    def claim(self, whole: int = WHOLE) -> Claim:
        granted = self.ledger.claim("m", "h", self.clock() + whole)
        assert isinstance(granted, Claim)
        return granted

    def pass_by(self, milliseconds: int) -> None:
        """Time passes, with a beat every three seconds."""
        for _ in range(milliseconds // 3_000):
            self.clock.now += 3_000
            self.ledger.beat()

    def other(self) -> object:
        there = DynamoDBLedger(
            self.plain.client, "ledger", retention_seconds=None, surroundings=surroundings(Clock(self.others_clock))
        )
        return there.claim("m", "h", self.others_clock + WHOLE)

    def watch_extensions(self, patch: pytest.MonkeyPatch, meanwhile: Callable[[Claim], object] = id) -> list[int]:
        """The ends that the store is asked for from now on; `meanwhile` runs before each is granted."""
        asked: list[int] = []
        extend = self.plain.extend

        def watched(claim: Claim, until: int) -> bool:
            asked.append(until)
            meanwhile(claim)
            return extend(claim, until)

        patch.setattr(self.plain, "extend", watched)
        return asked


def test_a_dead_consumers_message_is_free_after_the_short_lease() -> None:
    kept = Kept()
    kept.claim()
    assert kept.other() == Busy(LEASE)
    kept.clock.now += LEASE + 1
    assert isinstance(kept.other(), Claim)


def test_a_living_consumers_message_stays_its_own() -> None:
    kept = Kept()
    mine = kept.claim()
    kept.pass_by(60_000)
    assert isinstance(kept.other(), Busy)
    assert kept.ledger.commit(mine, Effects({})) == Committed({})
    row = dict(kept.plain.rows["m"])
    kept.pass_by(60_000)
    assert kept.plain.rows["m"] == row


def test_claim_is_refused_after_the_block() -> None:
    """Made in a `with` block of a module that a worker imports, it has ended before the first message comes."""
    kept = Kept()
    with kept.ledger:
        kept.claim()
    with pytest.raises(RuntimeError, match="has ended and extends no lease"):
        kept.ledger.claim("other", "h", kept.clock() + WHOLE)
    assert "other" not in kept.plain.rows


@pytest.mark.parametrize("seconds", [0, -1, 0.0009])
def test_lease_under_a_millisecond_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=f"lease_seconds of {seconds} is too short"):
        RenewingLedger(MemoryLedger(), lease_seconds=seconds)
    assert RenewingLedger(MemoryLedger(), lease_seconds=0.001)


def test_the_lease_is_kept_while_a_commit_leaves_work_to_do() -> None:
    kept = Kept()
    kept.plain.tables["things"] = {'{"key":"a"}': {"key": "a"}}
    mine = kept.claim()
    once = Effects({}, once=Once(Put("things", {"key": "a"}, key="key"), dict))
    assert kept.ledger.commit(mine, once) == Exists({"key": "a"})
    kept.pass_by(30_000)
    assert isinstance(kept.other(), Busy)


def test_the_lease_is_kept_while_a_commit_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than three leases: it waits for a store that is throttled, say."""
    kept = Kept()
    mine = kept.claim()
    commit = kept.plain.commit

    def slow(claim: Claim, effects: Effects) -> object:
        kept.pass_by(30_000)
        assert isinstance(kept.other(), Busy)
        return commit(claim, effects)

    monkeypatch.setattr(kept.plain, "commit", slow)
    assert kept.ledger.commit(mine, Effects({})) == Committed({})


def test_refusals_of_the_store_pass_through() -> None:
    kept = Kept()
    mine = kept.claim()
    assert kept.ledger.claim("m", "h", kept.clock() + WHOLE) == Busy(LEASE)
    kept.ledger.commit(mine, Effects({"a": 1}))
    assert kept.ledger.claim("m", "h", kept.clock() + WHOLE) == Duplicate({"a": 1}, 1, mine.claimed_by)


def test_lease_is_extended_after_a_third_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    began = kept.clock()
    kept.claim()
    asked = kept.watch_extensions(monkeypatch)
    for _ in range(9):
        kept.clock.now += 1_000
        kept.ledger.beat()
    assert asked == [began + passed + LEASE for passed in (3_000, 6_000, 9_000)]


def test_one_that_reaches_to_its_deadline_is_extended_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    began = kept.clock()
    kept.claim(12_000)
    asked = kept.watch_extensions(monkeypatch)
    kept.pass_by(30_000)
    assert asked == [began + 12_000]


def test_lease_ends_at_its_deadline_without_any_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(claim: Claim) -> None:
        raise ConnectionError

    kept = Kept()
    began = kept.clock()
    kept.claim(12_000)
    asked = kept.watch_extensions(monkeypatch, fail)
    kept.pass_by(30_000)
    assert asked == [began + 12_000] * 3


@pytest.mark.parametrize("jump", [-3_600_000, -5_000, 5_000, 3_600_000])
def test_hanging_work_keeps_its_message_until_the_deadline_when_the_clock_jumps(jump: int) -> None:
    kept = Kept()
    deadline = kept.clock() + 30_000
    kept.claim(30_000)
    kept.pass_by(6_000)
    kept.put_clock_forward(jump)
    for _ in range(8):
        kept.pass_by(3_000)
        assert isinstance(kept.other(), Busy)
    assert kept.other() == Busy(0)
    assert kept.plain.rows["m"]["lease_until"] == deadline
    kept.clock.now += 1
    assert isinstance(kept.other(), Claim)


def test_corrected_clock_counts_from_the_next_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease was made by a clock behind the others', for whom it ended early; it does not stay so."""
    kept = Kept()
    kept.claim()
    asked = kept.watch_extensions(monkeypatch)
    kept.put_clock_forward(4_000)
    kept.pass_by(3_000)
    assert asked == [kept.clock() + LEASE]


def test_extension_is_retried_no_longer_than_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would hold up all others; how long a store waits, it measures by the host's clock."""
    kept = Kept()
    kept.claim()
    patience: list[int] = []
    kept.watch_extensions(monkeypatch, lambda claim: patience.append(claim.lease_until - kept.clock()))
    kept.put_clock_forward(-3_600_000)
    kept.pass_by(6_000)
    assert patience == [LEASE, LEASE]


END_IT: dict[str, Callable[[Kept, Claim], object]] = {
    "committed": lambda kept, mine: kept.ledger.commit(mine, Effects({})),
    "released": lambda kept, mine: kept.ledger.release(mine),
}


@pytest.mark.parametrize("how", END_IT)
def test_finished_message_costs_no_further_call(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    mine = kept.claim()
    END_IT[how](kept, mine)
    asked = kept.watch_extensions(monkeypatch)
    kept.pass_by(30_000)
    assert asked == []


@pytest.mark.parametrize("how", END_IT)
def test_message_finished_during_an_extension_is_left_alone(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    mine = kept.claim()
    asked = kept.watch_extensions(monkeypatch, lambda claim: END_IT[how](kept, mine))
    kept.pass_by(30_000)
    assert len(asked) == 1


def test_one_that_was_taken_over_costs_one_call_more(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    kept.claim()
    kept.clock.now += LEASE + 1
    assert isinstance(kept.other(), Claim)
    asked = kept.watch_extensions(monkeypatch)
    kept.pass_by(30_000)
    assert len(asked) == 1


def test_an_end_that_the_owner_asked_for_stays() -> None:
    """Nothing extends it any more. One before the end that the lease has already leaves that as it is."""
    for asked, end in ((2_000, LEASE), (12_000, 12_000)):
        kept = Kept()
        mine = kept.claim()
        assert kept.ledger.extend(mine, kept.clock() + asked)
        kept.pass_by(end)
        assert kept.other() == Busy(0)
        kept.clock.now += 1
        assert isinstance(kept.other(), Claim)


def test_its_own_thread_keeps_it_in_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_ledger, "BEATS_PER_LEASE", LEASE // 10)  # a beat every 10 ms, whatever the clock says
    kept = Kept()
    with kept.ledger:
        mine = kept.claim()
        for _ in range(3):
            end = kept.plain.rows["m"]["lease_until"]
            kept.clock.now += LEASE * 2 // 3
            patience = time.monotonic() + 20
            while kept.plain.rows["m"]["lease_until"] == end:
                assert time.monotonic() < patience
                time.sleep(0.01)
        assert isinstance(kept.other(), Busy), "two leases later"
        assert kept.ledger.commit(mine, Effects({})) == Committed({})


def test_no_extension_runs_after_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = MemoryLedger()
    begun, ended = threading.Event(), threading.Event()

    def slow(claim: Claim, until: int) -> bool:
        begun.set()
        time.sleep(0.3)
        ended.set()
        return True

    monkeypatch.setattr(plain, "extend", slow)
    with RenewingLedger(plain, lease_seconds=0.03) as ledger:
        ledger.claim("m", "h", plain.surroundings.now_ms() + 60_000)
        assert begun.wait(15)
    assert ended.is_set()
