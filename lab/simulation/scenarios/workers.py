"""Workers on one queue, started again whenever they die; with poison in every group, and with clocks an hour apart."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.explore.practice import booking
from lab.simulation.systems.application import GROUPS, Application, Request
from lab.simulation.world.faults import late_commits
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.network import Watched
from lab.simulation.world.simulation import Simulation
from oneslot.worker.job import State
from oneslot.worker.log import WorkerLog
from oneslot.worker.poller import LONGEST_PAUSE
from oneslot.worker.pool import Handler
from oneslot.worker.settings import WorkerSettings
from oneslot.worker.visibility import configuration
from oneslot.worker.worker import Worker

FAULTS_SECONDS = 60.0
"""Faults happen in this part of a run."""
LIMIT_SECONDS = 30
POISON_RECEIVES = 3
SLOW_SECONDS = 3.0
HOUR_MS = 3_600_000
LATEST_SECONDS = 90.0
"""The longest way of a transaction to DynamoDB."""


def standard(simulation: Simulation) -> None:
    """Workers on a standard queue."""
    workers(simulation, Application(simulation))


def fifo(simulation: Simulation) -> None:
    """Workers on a FIFO queue."""
    workers(simulation, Application(simulation, fifo=True))


def poison(simulation: Simulation) -> None:
    """A poisonous message in every group of a FIFO queue: the redrive policy removes it, and its group goes on."""
    application = Application(simulation, fifo=True, maximum_receives=POISON_RECEIVES)
    messages = [booking(f"poison-{group}") for group in GROUPS]

    def send() -> None:
        for group, message in zip(GROUPS, messages, strict=True):
            application.send(Request(message.message_id, message.body, group, healthy=False, poisonous=True))

    def fail(message: Any) -> None:
        if application.requests[message.message_id].poisonous:
            raise RuntimeError("poison")

    simulation.kernel.at(simulation.number("poison_at_ms", 0, 10_000) * 1000, send)
    workers(simulation, application, before=fail, recovery=POISON_RECEIVES * 2 * LIMIT_SECONDS)


def triplets(simulation: Simulation) -> None:
    """Three copies of each request at once, and slow decisions: most copies meet another one at work."""
    application = Application(simulation)
    application.thrice = True
    workers(simulation, application, before=lambda message: simulation.kernel.sleep(SLOW_SECONDS), recovery=60)


def outages(simulation: Simulation) -> None:
    """One service is gone for a while, and the other is there: nothing is received, or nothing is decided."""
    gone = ("dynamodb", "sqs")[simulation.number("gone", 0, 1)]
    simulation.take_down(gone, simulation.number("gone_at_s", 0, 30), simulation.number("gone_for_s", 5, 60))
    workers(simulation, Application(simulation), recovery=LONGEST_PAUSE)


def clocks(simulation: Simulation) -> None:
    """Two workers on hosts whose clocks are up to an hour apart: a lease ends that much early or late."""
    apart = simulation.number("clocks_apart_ms", 0, HOUR_MS)
    workers(simulation, Application(simulation), offsets=(-apart // 2, apart // 2), recovery=HOUR_MS / 1000)


def late(simulation: Simulation) -> None:
    """Commits that DynamoDB performs when another worker has long taken the request over."""
    if simulation.plan.faults is None:
        simulation.faults = late_commits(simulation.plan.seed)
    workers(simulation, Application(simulation), recovery=LATEST_SECONDS)


def workers(
    simulation: Simulation,
    application: Application,
    *,
    before: Callable[[Any], None] = lambda message: None,
    offsets: Sequence[int] = (0, 0),
    recovery: float = 0.0,
) -> None:
    """Let workers consume requests, first under faults, then without; the queue must drain, and every law hold.

    before: called with each message before its decision. offsets: of the hosts' clocks, ms. recovery: seconds that the
    scenario adds to the longest recovery.
    """
    settings = WorkerSettings(
        threads=simulation.number("threads", 1, 3), limit_seconds=LIMIT_SECONDS, wait_seconds=2, grace_seconds=10
    )

    def run(process: Process) -> None:
        run_worker(application, process, settings, deciding_after(application, process, before))

    application.open_slots(simulation.number("slots", 1, 6))
    application.send_over(simulation.number("messages", 1, 6), FAULTS_SECONDS / 2)
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", run, wall_offset_ms=offsets[number])
    simulation.run_for(FAULTS_SECONDS)
    simulation.stop_faults()
    application.must_drain(within=settings.limit_seconds + 2 * settings.hidden_seconds + 5 + recovery)
    application.check()


def deciding_after(application: Application, process: Process, before: Callable[[Any], None]) -> Handler:
    """Return the application's consumer, which calls `before` with each message before its decision."""
    consumer = application.consumer(process)

    def decide(message: Any) -> Any:
        before(message)
        return consumer.decide(message)

    return replace(consumer, decide=decide)


def run_worker(
    application: Application,
    process: Process,
    settings: WorkerSettings,
    consume: Handler,
    *,
    stop_after: float | None = None,
    hurry_after: float = math.inf,
) -> None:
    """Run one worker until it stops: when it is stuck, or after this many seconds by a signal; a second one may follow."""
    simulation = application.simulation
    surroundings = simulation.surroundings(process)
    heartbeat: Any = configuration(settings)
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

    def note_log(text: str) -> None:
        line = json.loads(text)
        simulation.note(process.name, "logs", line)
        if line.get("event") == "over_limit":
            application.given_up[line["sqs_message_id"]] += 1

    asked: Counter[str] = Counter()

    def asks(request: Mapping[str, Any]) -> None:
        asked["now"] += request["MaxNumberOfMessages"]
        running = sum(job.state is State.RUNNING for job in worker._in_hand.all())
        if running + asked["now"] > settings.threads:
            simulation.breach("Q5", f"{process.name}: asks for {asked['now']} messages while {running} are at work")

    def asked_for(request: Mapping[str, Any], _: Any) -> None:
        asked["now"] -= request["MaxNumberOfMessages"]

    own = simulation.client(process, "sqs", read_timeout=30)
    client: Any = Watched(own, {"receive_message": asks}, {"receive_message": asked_for})
    worker = Worker(
        client,
        application.queue_url,
        application.arn_of(application.queue_url),
        handle,
        settings,
        heartbeat_client=simulation.client(process, "sqs", attempts=1, read_timeout=heartbeat.read_timeout),
        log=WorkerLog(note_log, surroundings),
        surroundings=surroundings,
    )
    application.in_hand.append(lambda: 0 if process.ended else len(worker._in_hand._jobs))
    kernel = simulation.kernel
    signals = ((stop_after, worker.stop), (stop_after + hurry_after, worker.hurry)) if stop_after is not None else ()
    for after, act in signals:
        if math.isfinite(after):
            kernel.at(kernel.now + int(after * MICROSECONDS), lambda act=act: process.ended or process.start(act))  # type: ignore[misc]
    worker.run()
