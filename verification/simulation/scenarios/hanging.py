"""Handlers that hang: a worker gives their messages up at the hard limit, and replaces their threads."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from oneslot.worker.settings import WorkerSettings
from verification.simulation.scenarios.workers import deciding_after, run_worker
from verification.simulation.systems.application import Application
from verification.simulation.world.kernel import Process
from verification.simulation.world.simulation import Simulation

FAULTS_SECONDS = 120.0
LIMIT_SECONDS = 20
LONGEST_HANG_SECONDS = 40
"""Beyond the limit, and then the handler returns after all."""


def hanging(simulation: Simulation) -> None:
    """Let most messages hang in their first attempt of all; every thread must come back into use."""
    settings = WorkerSettings(
        threads=simulation.number("threads", 1, 3), limit_seconds=LIMIT_SECONDS, wait_seconds=2, grace_seconds=10
    )
    application = Application(simulation)
    hung: set[str] = set()

    def run(process: Process) -> None:
        surroundings = simulation.surroundings(process)

        def hang(message: Any) -> None:
            if message.message_id not in hung:
                hung.add(message.message_id)
                surroundings.sleep(crc32(message.message_id.encode()) % (LONGEST_HANG_SECONDS * 1000) / 1000)

        run_worker(application, process, settings, deciding_after(application, process, hang))

    application.open_slots(simulation.number("slots", 1, 6))
    application.send_over(simulation.number("messages", 1, 8), FAULTS_SECONDS / 2, duplicates=False)
    simulation.keep_running("worker", run)
    simulation.run_for(FAULTS_SECONDS)
    simulation.stop_faults()
    backlog = len(application.requests) * LONGEST_HANG_SECONDS
    application.must_drain(within=2 * (settings.limit_seconds + settings.hidden_seconds) + 5 + backlog)
    application.check()
