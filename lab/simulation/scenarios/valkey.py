"""The ledger in Valkey, with effects in the same database, and a failover that loses its last writes.

At most once means here: in the history that survives, each request takes effect once at most. A commit that a failover loses is
lost whole. If its message was deleted by then, the request is lost; no ledger in Valkey can prevent that.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from lab.simulation.scenarios.workers import FAULTS_SECONDS, run_worker, short_settings
from lab.simulation.systems.application import Application
from lab.simulation.systems.valkey import Hash, Valkey, ValkeyClient
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.simulation import Simulation
from oneslot.runtime.effects import Effects, Once, Put, Update
from oneslot.runtime.protocol import COMPLETE
from oneslot.runtime.stores.valkey import ValkeyLedger
from oneslot.runtime.surroundings import Surroundings

SURVIVES = "Q20"
NOT_LOST = "Q21"

TICKETS, COUNTER = "tickets", {"name": "tickets"}
RETENTION_SECONDS = 86_400


def failover(simulation: Simulation) -> None:
    """Let workers hand out numbered tickets while the primary fails over, more than once."""
    application = Application(simulation)
    desk = Desk(simulation)
    settings = short_settings(threads=simulation.number("threads", 1, 3))
    application.send_over(simulation.number("messages", 1, 8), FAULTS_SECONDS / 2)
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(
            f"worker-{number + 1}",
            lambda process: run_worker(application, process, settings, desk.consumer(application, process)),
        )
    for number in range(simulation.number("failovers", 0, 3)):
        desk.fail_over_at(
            simulation.number(f"failover {number} at_ms", 1, 40_000), simulation.number(f"lost {number}", 0, 3)
        )
    application.must_recover(FAULTS_SECONDS, within=settings.limit_seconds + 2 * settings.hidden_seconds + 5)
    application.check_deliveries()
    desk.check(application)


class Desk:
    """A desk that gives each request the next ticket, and keeps the tickets in Valkey.

    Attributes:
        commits, lost: how often a request's row became COMPLETE, and how often a failover took that back.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.commits: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self._simulation = simulation
        self._server = Valkey(lambda: simulation.now_ms)
        self._server.lost = self._take_back
        simulation.network.services["valkey"] = self._server
        simulation.journal.observers.append(self._observe)
        self._complete: set[str] = set()
        ledger = _ledger(ValkeyClient(self._server), simulation.surroundings(simulation.kernel.outside))
        self._server.hset(key=ledger.item_key(TICKETS, COUNTER), name="next", value="1")
        self._server.replicate()

    def consumer(self, application: Application, process: Process) -> Any:
        """Return a process's consumer, with its ledger in Valkey."""
        consumer = application.consumer(process)
        network = self._simulation.network.client(process, "valkey", attempts=1)
        client = ValkeyClient(self._server, lambda operation, **parameters: getattr(network, operation)(**parameters))
        ledger = _ledger(client, consumer.ledger.surroundings)

        def decide(message: Any) -> Effects:
            counter = ledger.item(TICKETS, COUNTER)
            number = counter["next"] if counter else 1
            take = Update(TICKETS, COUNTER, expect={"next": number}, set={"next": number + 1})
            ticket = Put(TICKETS, {"request": message.message_id, "number": number}, key="request")
            return Effects(
                {"outcome": "booked", "ticket": number}, (take,), once=Once(ticket, lambda item: {"outcome": "booked"})
            )

        return replace(consumer, ledger=ledger, decide=decide)

    def fail_over_at(self, milliseconds: int, lost: int) -> None:
        """Let the primary fail at this time; a replica that lacks the last writes answers some seconds later."""
        kernel = self._simulation.kernel

        def fail() -> None:
            gone = self._server.fail_over(lost)
            self._simulation.journal.note("valkey", f"FAILOVER loses {gone} writes")
            self._simulation.journal.reached["failover that loses writes" if gone else "failover"] += 1
            self._simulation.network.take_down("valkey", 0, 3)

        kernel.at(kernel.now + milliseconds * MICROSECONDS // 1000, fail)

    def check(self, application: Application) -> None:
        """Check what survived."""
        simulation = self._simulation
        tickets = self._tickets()
        quarantined = {json.loads(letter.body)["message_id"] for letter in application.dead_letters()}
        for message_id, count in self.commits.items():
            if count > 1 + self.lost[message_id]:
                simulation.breach(SURVIVES, f"{message_id}: {count} commits, {self.lost[message_id]} lost")
        if len(set(tickets.values())) < len(tickets) or self._next() != len(tickets) + 1:
            simulation.breach(SURVIVES, f"the next ticket is {self._next()}, and given were {tickets}")
        if tickets.keys() != self._complete:
            simulation.breach(SURVIVES, f"tickets for {sorted(tickets)}, and answers for {sorted(self._complete)}")
        for message_id in application.requests:
            if message_id not in self._complete | quarantined and not self.lost[message_id]:
                simulation.breach(NOT_LOST, message_id)

    def _observe(self, _: str, operation: str, parameters: Mapping[str, Any], answer: Any) -> None:
        if operation == "evalsha" and answer == ["committed"]:
            message_id = _message_id(parameters["keys"][0])
            self.commits[message_id] += 1
            self._complete.add(message_id)
            owner = self._server.hashes[parameters["keys"][0]]["claimed_by"]
            if owner != parameters["args"][2]:
                self._simulation.breach(SURVIVES, f"{message_id} is claimed by {owner}, not by {parameters['args'][0]}")

    def _take_back(self, key: str, gone: Hash | None, back: Hash | None) -> None:
        was, is_now = ((row or {}).get("status") for row in (gone, back))
        if was == COMPLETE and is_now != COMPLETE:
            self.lost[_message_id(key)] += 1
            self._complete.discard(_message_id(key))

    def _tickets(self) -> dict[str, int]:
        """Return the number of each request's ticket."""
        items = [value for value in self._server.hashes.values() if "request" in value]
        return {json.loads(item["request"]): int(item["number"]) for item in items}

    def _next(self) -> int:
        return next(int(value["next"]) for value in self._server.hashes.values() if "next" in value)


def _ledger(client: ValkeyClient, surroundings: Surroundings) -> ValkeyLedger:
    return ValkeyLedger(cast("Any", client), retention_seconds=RETENTION_SECONDS, surroundings=surroundings)


def _message_id(row_key: str) -> str:
    return row_key.rpartition(":")[2]
