"""Workers on one queue, started again whenever they die."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from oneslot.worker.log import WorkerLog
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.visibility import configuration
from oneslot.worker.worker import Worker
from verification.simulation.application import Application
from verification.simulation.kernel import Process
from verification.simulation.simulation import Simulation

FAULTS_SECONDS = 60.0
"""Faults happen in this part of a run."""


def standard(simulation: Simulation) -> None:
    """Workers on a standard queue."""
    workers(simulation, Application(simulation))


def fifo(simulation: Simulation) -> None:
    """Workers on a FIFO queue."""
    workers(simulation, Application(simulation, fifo=True))


def workers(simulation: Simulation, application: Application) -> None:
    """Let workers consume requests, first under faults, then without; the queue must drain, and every law hold."""
    settings = WorkerSettings(
        threads=simulation.number("threads", 1, 3), limit_seconds=30, wait_seconds=2, grace_seconds=10
    )
    application.open_slots(simulation.number("slots", 1, 6))
    application.send_over(simulation.number("messages", 1, 6), FAULTS_SECONDS / 2)
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", lambda process: run_worker(application, process, settings))
    simulation.run_for(FAULTS_SECONDS)
    simulation.stop_faults()
    lease = settings.limit_seconds + settings.hidden_seconds
    application.must_drain(within=lease + settings.hidden_seconds + 5)
    application.check()


def run_worker(application: Application, process: Process, settings: WorkerSettings) -> None:
    """Run one worker until it stops."""
    simulation = application.simulation
    surroundings = simulation.surroundings(process)
    heartbeat: Any = configuration(settings)
    consume = application.consumer(process)
    at_work: list[str] = []

    def handle(event: Mapping[str, Any], context: Any) -> Any:
        process.check()
        at_work.append(context.aws_request_id)
        if len(at_work) > settings.threads + worker._pool.abandoned:
            simulation.breach("Q5", f"{process.name}: {len(at_work)} messages at work in {settings.threads} threads")
        try:
            return consume(event, context)
        finally:
            at_work.remove(context.aws_request_id)

    worker = Worker(
        simulation.client(process, "sqs", read_timeout=10),
        application.queue_url,
        application.arn_of(application.queue_url),
        handle,
        settings,
        heartbeat_client=simulation.client(process, "sqs", attempts=1, read_timeout=heartbeat.read_timeout),
        log=WorkerLog(lambda line: simulation.note(process.name, "logs", json.loads(line)), surroundings),
        surroundings=surroundings,
    )
    worker.run()
