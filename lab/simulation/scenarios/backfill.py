"""`oneslot backfill`, into the queue or into the ledger, under faults, while workers consume."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from lab.explore.practice import booking
from lab.simulation.scenarios.workers import FAULTS_SECONDS, run_worker
from lab.simulation.systems.application import LEDGER, Application, Request
from lab.simulation.systems.senders import Accepted, Repeated
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.simulation import Simulation
from oneslot.errors import OneslotError
from oneslot.runtime.identity import payload_hash
from oneslot.runtime.protocol import COMPLETE
from oneslot.sending.backfill import DIFFERENT, HANDED_OVER, KNOWN, UNFINISHED, UNFIT, Access, Feeder, Seeder
from oneslot.sending.request_file import LARGEST_BODY_BYTES
from oneslot.worker.settings import WorkerSettings

EACH_ROW = "Q16"
DUPLICATE = "Q17"
ENDS = "Q15"

ENDS_WITHIN = 400.0
"""Seconds after the last fault."""

MOST_ROWS = 24


@dataclass(frozen=True)
class Row:
    """A row of a historical file, as an executor gets it."""

    message_id: str
    body: str


def queue(simulation: Simulation) -> None:
    """Send the rows of a file to a standard or a FIFO queue. Spark repeats a part that failed."""
    world = Backfill(simulation, fifo=simulation.chance("fifo", 2))
    accepted = Accepted(world.application)
    rows = [Row(each.message_id, each.body) for each in world.requests]
    if simulation.chance("large", 8):
        rows.append(Row("large", booking("large", 0, service_type="x" * LARGEST_BODY_BYTES).body))
    parts = world.parts(rows)

    def feed(process: Process, part: Sequence[Row]) -> Counter[str]:
        surroundings = simulation.surroundings(process)
        return Feeder(world.access(process), world.application.queue_url, world.rate, surroundings)(part)

    world.run([Part(world, f"feed-{at + 1}", part, feed) for at, part in enumerate(parts)])
    if missing := {row.message_id for row in rows} - {"large"} - set(accepted.ids.values()):
        simulation.breach(EACH_ROW, f"not in the queue: {', '.join(sorted(missing))}")
    world.application.check()


def ledger(simulation: Simulation) -> None:
    """Enter the rows into the ledger while the same requests come through the queue, one of them with another content."""
    world = Backfill(simulation)
    application = world.application
    rows = [Row(each.message_id, each.body) for each in world.requests]
    if simulation.chance("changed", 2):
        rows[-1] = Row(rows[-1].message_id, booking(rows[-1].message_id, 2, not_after="2026-11-23T12:00:00Z").body)
    for request in world.requests:
        world.send(request)

    def enter(process: Process, part: Sequence[Row]) -> Counter[str]:
        surroundings = simulation.surroundings(process)
        tally = Seeder(world.access(process), LEDGER, 86_400, world.rate, surroundings)(part)
        world.check_entered(part, tally)
        return tally

    world.run([Part(world, f"seed-{at + 1}", part, enter) for at, part in enumerate(world.parts(rows))])
    for letter in application.dead_letters():
        message_id = str(json.loads(letter.body)["message_id"])
        changed = message_id == rows[-1].message_id and rows[-1].body != letter.body
        if application.requests[message_id].healthy and letter.source_arn is None and not changed:
            simulation.breach(DUPLICATE, f"{message_id} is quarantined: {dict(letter.attributes)}")
    application.check()


class Backfill:
    """The application with workers, and the requests of a file."""

    def __init__(self, simulation: Simulation, *, fifo: bool = False) -> None:
        self.simulation = simulation
        self.application = application = Application(simulation, fifo=fifo)
        application.open_slots(simulation.number("slots", 1, 6))
        self.rate = float(simulation.number("rate", 1, 40))
        self.requests = [self._request(at) for at in range(simulation.number("rows", 1, MOST_ROWS))]
        settings = WorkerSettings(threads=2, limit_seconds=30, wait_seconds=2, grace_seconds=10)
        self._lease = settings.limit_seconds + settings.hidden_seconds
        for number in range(simulation.number("workers", 1, 2)):
            simulation.keep_running(
                f"worker-{number + 1}",
                lambda process: run_worker(application, process, settings, application.consumer(process)),
            )

    def access(self, process: Process) -> Access:
        """Return an executor's access to the simulated services."""
        return cast("Access", _Access(self.simulation, process))

    def parts(self, rows: Sequence[Row]) -> list[Sequence[Row]]:
        """Return the rows in one part, or in two."""
        half = len(rows) // 2 if self.simulation.chance("two parts", 2) else 0
        return [part for part in (rows[:half], rows[half:]) if part]

    def send(self, request: Request) -> None:
        """Let the queue accept a request at some time."""
        kernel = self.simulation.kernel
        after = self.simulation.random_of(f"time of {request.message_id}").random() * FAULTS_SECONDS / 2
        kernel.at(kernel.now + int(after * MICROSECONDS), lambda: self.application.send(request))

    def run(self, parts: Sequence[Part]) -> None:
        """Let the parts end, first under faults, then without, and the queue drain."""
        simulation = self.simulation
        simulation.run_for(FAULTS_SECONDS)
        simulation.stop_faults()
        if not simulation.run_until(lambda: all(part.done for part in parts), ENDS_WITHIN):
            simulation.breach(ENDS, f"not {ENDS_WITHIN:g} s after the last fault")
        self.application.must_drain(within=2 * self._lease)

    def check_entered(self, rows: Sequence[Row], tally: Mapping[str, int]) -> None:
        """Check the outcomes of rows that were entered, against the ledger as it is now."""
        ledger = self.application.rows(LEDGER, "message_id")
        found: Counter[str] = Counter()
        for row in rows:
            known = ledger.get(row.message_id)
            same = known and known["payload_hash"] == payload_hash(json.loads(row.body))
            found["absent" if known is None else known["status"] if same else DIFFERENT] += 1
        complete = tally[HANDED_OVER] + tally[KNOWN]
        # A row that was in progress may be complete by now.
        most = complete + tally[UNFINISHED]
        holds = complete <= found[COMPLETE] <= most and found[DIFFERENT] == tally[DIFFERENT]
        if not holds or found["absent"] > tally[UNFIT]:
            self.simulation.breach(EACH_ROW, f"the ledger has {dict(found)}, and counted: {dict(tally)}")

    def _request(self, number: int) -> Request:
        return self.application.request(number, self.simulation.random_of(f"request {number}"))


class Part(Repeated):
    """One partition of the file. Spark repeats it whole after an error, or when its executor was killed."""

    def __init__(self, world: Backfill, name: str, rows: Sequence[Row], hand_over: Any) -> None:
        self.name = name
        self.rows = rows
        self.tally: Counter[str] = Counter()
        self._world = world
        self._hand_over = hand_over
        super().__init__(world.simulation, name, self._try)

    def _try(self, process: Process) -> bool:
        simulation = self._world.simulation
        try:
            self.tally = self._hand_over(process, self.rows)
        except (OneslotError, ClientError, BotoCoreError) as error:
            simulation.note(process.name, "ends with an error", type(error).__name__)
            return False
        if self.tally.total() != len(self.rows):
            simulation.breach(EACH_ROW, f"{self.name}: {len(self.rows)} rows, and counted: {json.dumps(self.tally)}")
        return True


class _Access:
    def __init__(self, simulation: Simulation, process: Process) -> None:
        self._simulation = simulation
        self._process = process

    def client(self, service: str) -> Any:
        """Return a client, with the attempts of a real one."""
        return self._simulation.client(self._process, service, attempts=3, read_timeout=10)
