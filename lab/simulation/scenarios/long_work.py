"""Work outside the ledger, under a lock that lasts longer than ten receives of its message."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from lab.explore.practice import LEDGER
from lab.simulation.scenarios.workers import run_worker
from lab.simulation.systems.application import Application
from lab.simulation.world.faults import mild_faults
from lab.simulation.world.kernel import Process
from lab.simulation.world.simulation import Simulation
from oneslot.runtime.handlers import make_handler_idempotent
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.worker.settings import WorkerSettings

FAULTS_SECONDS = 240.0
LOCK_SECONDS = 450
LONGEST_WORK_SECONDS = 120.0


def mild(simulation: Simulation) -> None:
    """Long work where SQS throttles a few entries or answers slowly: each message is received once."""
    if simulation.plan.faults is None:
        simulation.faults = mild_faults(simulation.plan.seed)
    long_work(simulation)


def long_work(simulation: Simulation) -> None:
    """Let workers with the default settings call an idempotent handler, first under faults, then without.

    A kill leaves a lock that outlasts ten times of visibility. The message must wait for its end, and not spend its
    receives. While their process lives, two handlers never work on one message.
    """
    settings = WorkerSettings(threads=simulation.number("threads", 1, 3))
    application = Application(simulation)
    at_work: dict[str, list[Process]] = {}
    done: Counter[str] = Counter()

    def run(process: Process) -> None:
        surroundings = simulation.surroundings(process)
        ledger = DynamoDBLedger(
            simulation.client(process, "dynamodb"), LEDGER, retention_seconds=None, surroundings=surroundings
        )

        def work(message: Mapping[str, Any], key: str) -> None:
            handlers = at_work.setdefault(key, [])
            handlers[:] = [other for other in handlers if not other.ended]
            if handlers:
                simulation.breach("Q1", f"{key}: at work in {handlers[0].name} and in {process.name}")
            handlers.append(process)
            surroundings.sleep(crc32(key.encode()) % int(LONGEST_WORK_SECONDS * 1000) / 1000)
            handlers.remove(process)
            done[key] += 1

        handle = make_handler_idempotent(work, lambda message: str(message["message_id"]), ledger, LOCK_SECONDS)
        run_worker(
            application, process, settings, lambda event, context: handle(json.loads(event["Records"][0]["body"]))
        )

    application.send_over(simulation.number("messages", 1, 4), FAULTS_SECONDS / 2)
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", run)
    simulation.run_for(FAULTS_SECONDS)
    simulation.stop_faults()
    backlog = len(application.requests) * LONGEST_WORK_SECONDS
    # A second copy may wait for a killed worker's lock, and then for that of its twin.
    application.must_drain(within=2 * LOCK_SECONDS + 2 * settings.hidden_seconds + 5 + backlog)
    application.check_deliveries()
    letters = {json.loads(letter.body)["message_id"] for letter in application.dead_letters()}
    for message_id in application.requests:
        if not done[message_id] and message_id not in letters:
            simulation.breach("Q6", f"{message_id}: left the queue undone")
