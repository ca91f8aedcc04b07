"""A worker's short leases, which it renews, on hosts whose clocks jump and whose processes freeze."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from lab.explore.practice import LEDGER
from lab.simulation.scenarios.workers import run_worker
from lab.simulation.systems.application import Application
from lab.simulation.world.faults import NOTHING
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.simulation import Simulation
from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import Busy, Claim, Committed, Conflict, Duplicate, Exists, Fenced, Store, Taken
from oneslot.worker.settings import WorkerSettings

BOUNDED = "Q18"
KEPT = "Q19"

FAULTS_SECONDS = 120.0
LIMIT_SECONDS = 600
"""How long work may take; without renewing, a crash would hide its message for so long."""
SLACK_MS = 1_000
"""An extension's own time."""
MAXIMUM_RECEIVES = 100
"""A second copy of a message at work spends one receive in each lease."""
LONGEST_WORK_SECONDS = 40.0
HOUR_MS = 3_600_000
CLOCK_SET = {"long limit": 1, "clock": 1, "wrong before": 0, "workers": 2}
"""The numbers of a run in which a clock is set while leases are held."""


@dataclass(frozen=True)
class Granted:
    """A claim, with the process that holds it, its latest end, and how wrong its host's clock was when it was made (ms)."""

    process: Process
    claim: Claim
    until: int
    offset: int


def renewing(simulation: Simulation) -> None:
    """Let workers do long work under short leases; a dead worker's message must be free again in seconds.

    The clock of one host is set once in the meantime: to a wrong time, or from a wrong one to the right one.
    """
    application = Application(simulation, maximum_receives=MAXIMUM_RECEIVES)
    lease_seconds = simulation.number("lease_s", 3, 20)
    settings = WorkerSettings(
        threads=simulation.number("threads", 1, 3),
        limit_seconds=LIMIT_SECONDS if simulation.chance("long limit", 2) else lease_seconds - 1,
        visibility_seconds=lease_seconds - lease_seconds // 3,
        buffer_seconds=lease_seconds // 3,
        wait_seconds=2,
        grace_seconds=10,
    )
    watch = Watch(simulation, settings)
    stops = simulation.chance("stops", 3)

    def run(process: Process) -> None:
        consumer = application.consumer(process)
        surroundings = consumer.ledger.surroundings

        def decide(message: Any) -> Any:
            longest = min(LONGEST_WORK_SECONDS, settings.limit_seconds / 2)
            surroundings.sleep(crc32(message.message_id.encode()) % int(longest * 1000) / 1000)
            return consumer.decide(message)

        working = replace(consumer, ledger=ReportingStore(watch, process, consumer.ledger), decide=decide)
        stop_after = 20 + surroundings.jitter() * 60 if stops else None
        run_worker(application, process, settings, working, stop_after=stop_after)

    wrong = simulation.number("clock_wrong_ms", -HOUR_MS, HOUR_MS) if simulation.chance("clock", 2) else 0
    before = simulation.chance("wrong before", 2)
    watch.set_clock(wrong if before else 0)
    at = simulation.kernel.now + simulation.number("set_at_s", 1, int(FAULTS_SECONDS)) * MICROSECONDS
    simulation.kernel.at(at, lambda: watch.set_clock(0 if before else wrong))
    application.open_slots(simulation.number("slots", 1, 6))
    messages = simulation.number("messages", 1, 5)
    application.send_over(messages, FAULTS_SECONDS / 2, duplicates=False)
    for at_s in range(0, int(FAULTS_SECONDS), int(FAULTS_SECONDS / messages)):
        simulation.kernel.at(at_s * MICROSECONDS, lambda: send_again(application))
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", run)
    simulation.run_for(FAULTS_SECONDS)
    simulation.faults.stop()
    watch.set_clock(0)
    backlog = 2 * messages * LONGEST_WORK_SECONDS
    application.must_drain(within=lease_seconds + 2 * settings.hidden_seconds + 5 + backlog + abs(wrong) / 1000)
    application.check()
    watch.check()


def clock_set(simulation: Simulation) -> None:
    """Let nothing fail but the clock of one host, which is set to a wrong time in the middle of its work."""
    simulation.plan = replace(simulation.plan, numbers={**CLOCK_SET, **simulation.plan.numbers})
    simulation.faults.rates = NOTHING
    renewing(simulation)


def send_again(application: Application) -> None:
    """Let the queue accept a second copy of the newest request, which is at work."""
    request = next(reversed(application.requests.values()), None)
    if request is not None:
        application.send(request)


class Watch:
    """Who holds which claim, by the simulated truth, and every lease that the table had."""

    def __init__(self, simulation: Simulation, settings: WorkerSettings) -> None:
        self._simulation = simulation
        self._beat_ms = settings.beat_seconds * 1000
        self.limit_ms = int(settings.limit_seconds * 1000)
        self._offset = 0
        self._set_at = 0
        self._hosts: list[Process] = []
        self._granted: dict[str, Granted] = {}
        self._held: dict[str, Granted] = {}
        self._leases: list[tuple[str, int]] = []
        simulation.writers.append(self._written)

    def begins(self, process: Process) -> None:
        """Note a process. That of the first host gets the host's clock."""
        if process.name.startswith("worker-1"):
            process.wall_offset = self._offset
            self._hosts.append(process)

    def set_clock(self, offset: int) -> None:
        """Set the wall clock of the first host to another time, this many ms from the right one."""
        self._offset = offset
        self._set_at = self._simulation.now_ms
        for process in self._hosts:
            process.wall_offset = offset

    def grant(self, granted: Granted) -> None:
        """Note a claim, and check that it took nothing over that was still held."""
        claim = granted.claim
        before = self._held.get(claim.message_id)
        self._granted[claim.claimed_by] = self._held[claim.message_id] = granted
        if before is None or before.process.ended or granted.process.wall_offset:
            return
        answered = self._simulation.network.calm or self._simulation.network.only_crashes
        since = self._simulation.now_ms - self._set_at
        corrected = not before.process.wall_offset and since > self._beat_ms + SLACK_MS
        if answered and (not before.offset or corrected) and before.process.now_ms < before.until:
            self._simulation.breach(KEPT, f"{claim.message_id}: {before.process.name}, by {granted.process.name}")

    def end(self, claim: Claim) -> None:
        """Note that a claim ends, or its work does."""
        held = self._held.get(claim.message_id)
        if held is not None and held.claim.claimed_by == claim.claimed_by:
            del self._held[claim.message_id]

    def check(self) -> None:
        """Check the leases that the table had."""
        for claimed_by, lease_until in self._leases:
            granted = self._granted.get(claimed_by)
            if granted is not None and lease_until > granted.until:
                self._simulation.breach(BOUNDED, f"{claimed_by}: {lease_until - granted.until} ms later")

    def _written(self, table: str, key: str, before: Any, after: Mapping[str, Any] | None) -> None:
        if table == LEDGER and after is not None and "lease_until" in after:
            self._leases.append((after["claimed_by"]["S"], int(after["lease_until"]["N"])))


class ReportingStore:
    """A store that reports its claims to a `Watch`."""

    def __init__(self, watch: Watch, process: Process, store: Store) -> None:
        self.surroundings = store.surroundings
        self._watch = watch
        self._process = process
        watch.begins(process)
        self._store = store

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """See `Store`."""
        offset, until = self._process.wall_offset, self._process.now_ms + self._watch.limit_ms
        outcome = self._store.claim(message_id, payload_hash, lease_until)
        if isinstance(outcome, Claim):
            self._watch.grant(Granted(self._process, outcome, until, offset))
        return outcome

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """See `Store`."""
        outcome = self._store.commit(claim, effects)
        if not isinstance(outcome, Taken | Exists):
            self._watch.end(claim)
        return outcome

    def release(self, claim: Claim) -> bool:
        """See `Store`."""
        self._watch.end(claim)
        return self._store.release(claim)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """See `Store`."""
        return self._store.extend(claim, lease_until)
