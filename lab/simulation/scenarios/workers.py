"""Workers on one queue, started again whenever they die; with poison in every group, and with clocks an hour apart."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from zlib import crc32

from lab.explore.practice import LEDGER, booking
from lab.simulation.systems.application import GROUPS, Application, Request
from lab.simulation.world.faults import CRASHING, LATE_COMMITS, MILD_ONLY, STOPPING, Rates
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.network import Watched
from lab.simulation.world.simulation import Simulation
from oneslot.runtime.handlers import make_handler_idempotent
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.worker.job import State
from oneslot.worker.log import WorkerLog
from oneslot.worker.pool import LONGEST_PAUSE, Handler
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


short_settings = partial(WorkerSettings, limit_seconds=LIMIT_SECONDS, wait_seconds=2, grace_seconds=10)
"""The settings of a worker with short limits."""


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
    simulation.network.take_down(gone, simulation.number("gone_at_s", 0, 30), simulation.number("gone_for_s", 5, 60))
    workers(simulation, Application(simulation), recovery=LONGEST_PAUSE)


def clocks(simulation: Simulation) -> None:
    """Two workers on hosts whose clocks are up to an hour apart: a lease ends that much early or late."""
    apart = simulation.number("clocks_apart_ms", 0, HOUR_MS)
    workers(simulation, Application(simulation), offsets=(-apart // 2, apart // 2), recovery=HOUR_MS / 1000)


def late(simulation: Simulation) -> None:
    """Commits that DynamoDB performs when another worker has long taken the request over."""
    simulation.faults.rates = LATE_COMMITS
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
    settings = short_settings(threads=simulation.number("threads", 1, 3))

    def run(process: Process) -> None:
        run_worker(application, process, settings, deciding_after(application, process, before))

    application.open_slots(simulation.number("slots", 1, 6))
    application.send_over(simulation.number("messages", 1, 6), FAULTS_SECONDS / 2)
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", run, wall_offset_ms=offsets[number])
    longest = settings.limit_seconds + 2 * settings.hidden_seconds + 5
    application.must_recover(FAULTS_SECONDS, within=longest + recovery)
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
        simulation.journal.note(process.name, "logs", line)
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

    own = simulation.network.client(process, "sqs", read_timeout=30)
    client: Any = Watched(own, {"receive_message": asks}, {"receive_message": asked_for})
    worker = Worker(
        client,
        application.queue_url,
        application.arn_of(application.queue_url),
        handle,
        settings,
        heartbeat_client=simulation.network.client(process, "sqs", attempts=1, read_timeout=heartbeat.read_timeout),
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


DEPLOYMENT_SECONDS = 60.0
DEPLOYMENTS = 4
SLOWEST_DECISION_SECONDS = 25.0
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
    longest_ms = simulation.number("longest_work_ms", 0, int(SLOWEST_DECISION_SECONDS * 1000))
    until = DEPLOYMENTS * DEPLOYMENT_SECONDS

    def run(process: Process) -> None:
        surroundings = simulation.surroundings(process)

        def work(message: Any) -> None:
            surroundings.sleep(crc32(message.message_id.encode()) % (longest_ms + 1) / 1000)

        consumer = deciding_after(application, process, work)
        stop_after = DEPLOYMENT_SECONDS if surroundings.steady() < until else None
        run_worker(application, process, settings, consumer, stop_after=stop_after, hurry_after=hurry)

    application.open_slots(simulation.number("slots", 1, 6))
    messages = simulation.number("messages", 1, 8)
    application.send_over(messages, until - DEPLOYMENT_SECONDS)
    for number in range(workers):
        simulation.keep_running(f"worker-{number + 1}", run, after_seconds=1.0)
        simulation.run_for(DEPLOYMENT_SECONDS / workers)
    longest = settings.limit_seconds + 2 * settings.hidden_seconds + 5
    application.must_recover(until, within=longest + messages * SLOWEST_DECISION_SECONDS)
    application.check()


HANGING_SECONDS = 120.0
SHORT_LIMIT_SECONDS = 20
LONGEST_HANG_SECONDS = 40
"""Beyond the limit, and then the handler returns after all."""

DEATHS_AND_STOPS = Rates((CRASHING, STOPPING), calls=60, statements=500, shortest=10.0)
"""Deaths, and stops that mostly outlast a message's visibility and its lease."""


def hanging(simulation: Simulation) -> None:
    """Let most messages hang in their first attempt of all; every thread must come back into use."""
    settings = short_settings(threads=simulation.number("threads", 1, 3), limit_seconds=SHORT_LIMIT_SECONDS)
    _hang(simulation, settings, attempts=1, workers=1)


def taken_over(simulation: Simulation) -> None:
    """Let messages hang in two attempts, on hosts that stop or die.

    The second holder takes over while the first still works. If the first acknowledges, the death of the second loses the
    request.
    """
    simulation.faults.rates = DEATHS_AND_STOPS
    settings = short_settings(threads=simulation.number("threads", 2, 4), limit_seconds=SHORT_LIMIT_SECONDS)
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
    messages = simulation.number("messages", 1, 8)
    application.send_over(messages, HANGING_SECONDS / 2, duplicates=False)
    for number in range(workers):
        simulation.keep_running(f"worker-{number + 1}", run)
    longest = 2 * (settings.limit_seconds + settings.hidden_seconds) + 5
    application.must_recover(HANGING_SECONDS, within=longest + messages * attempts * LONGEST_HANG_SECONDS)
    application.check()


LONG_FAULTS_SECONDS = 240.0
LOCK_SECONDS = 450
LONGEST_WORK_SECONDS = 120.0


def mild(simulation: Simulation) -> None:
    """Long work where SQS throttles a few entries or answers slowly: each message is received once."""
    simulation.faults.rates = MILD_ONLY
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
            simulation.network.client(process, "dynamodb"), LEDGER, retention_seconds=None, surroundings=surroundings
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

    messages = simulation.number("messages", 1, 4)
    application.send_over(messages, LONG_FAULTS_SECONDS / 2)
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", run)
    # A second copy may wait for a killed worker's lock, and then for that of its twin.
    longest = 2 * LOCK_SECONDS + 2 * settings.hidden_seconds + 5
    application.must_recover(LONG_FAULTS_SECONDS, within=longest + messages * LONGEST_WORK_SECONDS)
    application.check_deliveries()
    letters = {json.loads(letter.body)["message_id"] for letter in application.dead_letters()}
    for message_id in application.requests:
        if not done[message_id] and message_id not in letters:
            simulation.breach("Q6", f"{message_id}: left the queue undone")
