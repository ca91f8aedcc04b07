"""A rolling deployment every minute: each worker is stopped with a time of grace, and the next version starts."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from lab.simulation.scenarios.workers import deciding_after, run_worker
from lab.simulation.systems.application import Application
from lab.simulation.world.kernel import Process
from lab.simulation.world.simulation import Simulation
from oneslot.worker.settings import WorkerSettings

DEPLOYMENT_SECONDS = 60.0
DEPLOYMENTS = 4
LONGEST_WORK_SECONDS = 25.0
"""More than the grace time, so that a stop can leave a message unfinished."""


def deployments(simulation: Simulation) -> None:
    """Let workers with slow decisions consume requests while each of them is replaced again and again.

    A stop shows what it leaves unfinished, claim and all, so the next worker begins it with the very next receive.
    """
    application = Application(simulation)
    settings = WorkerSettings(
        threads=simulation.number("threads", 1, 3), limit_seconds=60, wait_seconds=5, grace_seconds=10
    )
    workers = simulation.number("workers", 1, 2)
    hurry = simulation.number("hurry_after_ms", 0, int(settings.grace_seconds * 2000)) / 1000
    longest_ms = simulation.number("longest_work_ms", 0, int(LONGEST_WORK_SECONDS * 1000))
    until = DEPLOYMENTS * DEPLOYMENT_SECONDS

    def run(process: Process) -> None:
        surroundings = simulation.surroundings(process)

        def work(message: Any) -> None:
            surroundings.sleep(crc32(message.message_id.encode()) % (longest_ms + 1) / 1000)

        consumer = deciding_after(application, process, work)
        stop_after = DEPLOYMENT_SECONDS if surroundings.steady() < until else None
        run_worker(application, process, settings, consumer, stop_after=stop_after, hurry_after=hurry)

    application.open_slots(simulation.number("slots", 1, 6))
    application.send_over(simulation.number("messages", 1, 8), until - DEPLOYMENT_SECONDS)
    for number in range(workers):
        simulation.keep_running(f"worker-{number + 1}", run, after_seconds=1.0)
        simulation.run_for(DEPLOYMENT_SECONDS / workers)
    simulation.run_for(until)
    simulation.stop_faults()
    backlog = len(application.requests) * LONGEST_WORK_SECONDS
    application.must_drain(within=settings.limit_seconds + 2 * settings.hidden_seconds + 5 + backlog)
    application.check()
