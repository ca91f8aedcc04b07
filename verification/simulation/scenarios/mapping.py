"""An event source mapping on one queue, which invokes the deployed consumer, and is started again whenever it dies."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.installation import Installation
from verification.simulation.application import Application
from verification.simulation.function import MAPPING_ID, ExecutionEnvironment, Handler, LambdaService
from verification.simulation.kernel import Process
from verification.simulation.simulation import Simulation

FAULTS_SECONDS = 90.0
"""Faults happen in this part of a run."""


def standard(simulation: Simulation) -> None:
    """A mapping on a standard queue."""
    mapping(simulation, Application(simulation))


def fifo(simulation: Simulation) -> None:
    """A mapping on a FIFO queue."""
    mapping(simulation, Application(simulation, fifo=True))


def mapping(simulation: Simulation, application: Application) -> None:
    """Let the function consume requests, first under faults, then without; the queue must drain, and every law hold."""
    application.open_slots(simulation.number("slots", 1, 6))
    application.send_over(simulation.number("messages", 1, 12), FAULTS_SECONDS / 2)
    start_mapping(application)
    simulation.run_for(FAULTS_SECONDS)
    simulation.stop_faults()
    application.must_drain(within=2 * application.visibility_seconds + 5)
    application.check()


def start_mapping(application: Application) -> None:
    """Deploy the function with its mapping, and keep the mapping running."""
    simulation = application.simulation
    timeout = simulation.number("timeout", 10, application.visibility_seconds)
    window = 0 if application.fifo else min(simulation.number("window", 0, 5), application.visibility_seconds - timeout)
    fields: dict[str, Any] = {
        "BatchSize": simulation.number("batch_size", 1, 12 if window else 10),
        "MaximumBatchingWindowInSeconds": window,
    }
    if simulation.chance("capped", 3):
        fields["ScalingConfig"] = {"MaximumConcurrency": 2}
    processes = simulation.number("processes", 1, 3)
    reserved = simulation.number("reserved", 1, processes) if simulation.chance("is_reserved", 2) else None
    simulation.services["lambda"] = LambdaService(application.arn_of(application.queue_url), timeout, reserved, fields)
    changes = {
        "batch_concurrency": simulation.number("batch_concurrency", 1, 3),
        "group_commit": simulation.chance("group_commit", 2),
    }
    simulation.keep_running("mapping", lambda process: run_mapping(application, process, processes, changes))


def run_mapping(application: Application, process: Process, processes: int, changes: Mapping[str, Any]) -> None:
    """Run one mapping, until it cannot start or is stopped, as for a new version of the function."""
    simulation = application.simulation

    def load(environment: Process) -> Handler:
        return application.consumer(environment, through_powertools=True, **changes)

    def make(installation: Installation) -> ExecutionEnvironment:
        process.check()
        return ExecutionEnvironment(simulation, process, load, installation)

    connection: Any = SimpleNamespace(
        sqs=lambda: simulation.client(process, "sqs", read_timeout=10),
        functions=lambda: simulation.client(process, "lambda"),
    )
    deployed = EventSourceMapping(
        connection,
        MAPPING_ID,
        folder=simulation.home,
        processes=processes,
        surroundings=simulation.surroundings(process),
        make=make,
    )
    try:
        deployed.start()
    except (ClientError, BotoCoreError, OSError):
        return
    simulation.kernel.sleep(simulation.number("seconds_between_deployments", 20, 60))
    deployed.stop()
