"""Handlers that hang: a worker abandons their messages at the hard limit, and replaces their threads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from lab.simulation.scenarios.workers import deciding_after, run_worker
from lab.simulation.systems.application import Application
from lab.simulation.world.faults import CRASHING, STOPPING, DrawnFaults, Rates
from lab.simulation.world.kernel import Process
from lab.simulation.world.simulation import Simulation
from oneslot.worker.settings import WorkerSettings

FAULTS_SECONDS = 120.0
LIMIT_SECONDS = 20
LONGEST_HANG_SECONDS = 40
"""Beyond the limit, and then the handler returns after all."""

DEATHS_AND_STOPS = Rates((CRASHING, STOPPING), calls=60, statements=500, shortest=10.0)
"""Deaths, and stops that mostly outlast a message's visibility and its lease."""


def hanging(simulation: Simulation) -> None:
    """Let most messages hang in their first attempt of all; every thread must come back into use."""
    settings = WorkerSettings(
        threads=simulation.number("threads", 1, 3), limit_seconds=LIMIT_SECONDS, wait_seconds=2, grace_seconds=10
    )
    _hang(simulation, settings, attempts=1, workers=1)


def taken_over(simulation: Simulation) -> None:
    """Let messages hang in two attempts, on hosts that stop or die.

    The second holder takes over while the first still works. If the first acknowledges, the death of the second loses the
    request.
    """
    if isinstance(simulation.faults, DrawnFaults):
        simulation.faults = DrawnFaults(simulation.plan.seed, DEATHS_AND_STOPS)
    settings = WorkerSettings(
        threads=simulation.number("threads", 2, 4), limit_seconds=LIMIT_SECONDS, wait_seconds=2, grace_seconds=10
    )
    _hang(simulation, replace(settings, visibility_seconds=5, buffer_seconds=5), attempts=2, workers=2)


def _hang(simulation: Simulation, settings: WorkerSettings, *, attempts: int, workers: int) -> None:
    """Let each message hang in its first attempts."""
    application = Application(simulation)
    begun: Counter[str] = Counter()

    def run(process: Process) -> None:
        surroundings = simulation.surroundings(process)

        def hang(message: Any) -> None:
            begun[message.message_id] += 1
            number = begun[message.message_id]
            if number <= attempts:
                share = simulation.random_of(f"attempt {number} of {message.message_id}").random()
                surroundings.sleep(share * LONGEST_HANG_SECONDS)

        run_worker(application, process, settings, deciding_after(application, process, hang))

    application.open_slots(simulation.number("slots", 1, 6))
    application.send_over(simulation.number("messages", 1, 8), FAULTS_SECONDS / 2, duplicates=False)
    for number in range(workers):
        simulation.keep_running(f"worker-{number + 1}", run)
    simulation.run_for(FAULTS_SECONDS)
    simulation.stop_faults()
    backlog = len(application.requests) * attempts * LONGEST_HANG_SECONDS
    application.must_drain(within=2 * (settings.limit_seconds + settings.hidden_seconds) + 5 + backlog)
    application.check()
