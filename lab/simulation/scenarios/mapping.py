"""An event source mapping on one queue, which invokes the deployed consumer, and is started again whenever it ends."""

import builtins
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lab.explore.practice import LEDGER
from lab.simulation.systems.application import Application
from lab.simulation.systems.function import MAPPING_ID, ExecutionEnvironment, Handler, LambdaService
from lab.simulation.world.faults import COPIED, STOPPING, UNDELETED, kind_of
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.simulation import Simulation
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.installation import Installation
from oneslot.local.mapping.poller import PAYLOAD_LIMIT

CLIENT: Mapping[str, Any] = {"attempts": 3, "read_timeout": 30}
"""The local stack's settings of an AWS client (`Connection.client`)."""

MILD_SECONDS = 1.0
"""A mapping cannot keep a message hidden beyond its visibility timeout: longer answers may cost a receive."""

LONGEST_DEPLOYMENT = 60  # seconds, until the next

FAULTS_SECONDS = 90.0
"""Faults happen in this part of a run."""

RELEASE = "a working release of the function"
"""A service that is down while the deployed function is broken, in one of the ways below."""

NOT_LOADED, RAISING, MISTAKEN, HANGING, RESERVING_NONE, SLOW = range(6)

EXPIRY_SECONDS = 105
"""DynamoDB deletes a row this long after it has expired: longer than any process stands still."""


def standard(simulation: Simulation) -> None:
    """Let a mapping consume a standard queue."""
    application = Application(simulation, visibility_seconds=simulation.number("visibility", 10, 30))
    application.open_slots(simulation.number("slots", 1, 6))
    consume(application, simulation.number("messages", 1, 12))


def fifo(simulation: Simulation) -> None:
    """Let a mapping consume a FIFO queue."""
    application = Application(simulation, fifo=True)
    application.open_slots(simulation.number("slots", 1, 6))
    consume(application, simulation.number("messages", 1, 12))


def large(simulation: Simulation) -> None:
    """Let a mapping consume messages of which three fill an invocation's payload; the others are carried into the next."""
    application = Application(simulation, fifo=simulation.chance("fifo", 2))
    application.padding = "\t" * 900_000
    application.open_slots(4)
    consume(application, simulation.number("messages", 4, 7), seconds=0.1, least_batch=10)


def broken_release(simulation: Simulation) -> None:
    """Let a mapping invoke a function whose release is broken for a time, or has no concurrency: the next repairs it."""
    application = Application(simulation)
    application.open_slots(4)
    simulation.network.take_down(
        RELEASE, simulation.number("broken_from", 0, 3), simulation.number("broken_for", 1, 40)
    )
    consume(
        application, simulation.number("messages", 1, 8), recovery=LONGEST_DEPLOYMENT + application.visibility_seconds
    )


def throttled(simulation: Simulation) -> None:
    """Let batches collect in a window, and then wait for the one environment of a slow function."""
    application = Application(simulation, visibility_seconds=15)
    application.open_slots(4)
    simulation.network.take_down(RELEASE, 0, FAULTS_SECONDS)
    consume(
        application,
        simulation.number("messages", 6, 24),
        recovery=LONGEST_DEPLOYMENT + application.visibility_seconds,
        least_batch=3,
        is_throttled=True,
    )


def end_of_retention(simulation: Simulation) -> None:
    """Let copies of requests arrive around the time at which DynamoDB deletes their rows."""
    retention = simulation.number("retention", 60, 120)
    application = Application(simulation, retention_seconds=retention)
    application.open_slots(simulation.number("slots", 1, 6))
    number = simulation.number("messages", 1, 8)
    late = simulation.number("copies_after", retention // 2, 2 * retention + EXPIRY_SECONDS)
    for each in range(number):
        again = simulation.random_of(f"late copy {each}").random() * 10 + late
        simulation.kernel.at(int(again * MICROSECONDS), partial(application.send_again, f"m{each}"))
    start_expiry(application)
    consume(application, number, seconds=10.0, faults_seconds=late + 30.0)


def consume(
    application: Application,
    messages: int,
    *,
    seconds: float = FAULTS_SECONDS / 2,
    faults_seconds: float = FAULTS_SECONDS,
    recovery: float = 0.0,
    least_batch: int = 1,
    is_throttled: bool = False,
) -> None:
    """Let the function consume requests, first under faults, then without; the queue must drain, and every law hold.

    recovery: seconds that the scenario adds to the longest recovery. is_throttled: see `throttled`.
    """
    application.send_over(messages, seconds)
    start_mapping(application, least_batch, is_throttled=is_throttled)
    # A mapping that starts while its calls have no answers waits for all of them.
    starts = CLIENT["attempts"] * CLIENT["read_timeout"]
    application.must_recover(faults_seconds, within=starts + 2 * application.visibility_seconds + 5 + recovery)
    application.check()


class BrokenRelease(Exception):
    """The error of a release that does not load, or does not work."""


@dataclass(frozen=True)
class Deployment:
    """A deployed function: the variables that it sets, and the mapping's processes."""

    application: Application
    timeout: int
    batch_size: int
    processes: int
    allowed: int
    seconds: float  # until the next deployment
    idle_seconds: float
    broken_way: int
    variables: Mapping[str, str]


def start_mapping(application: Application, least_batch: int, *, is_throttled: bool) -> None:
    """Deploy the function with its mapping, and keep the mapping running."""
    simulation = application.simulation
    application.mild_seconds = MILD_SECONDS
    least_window, least_processes = (3, 3) if is_throttled else (0, 1)
    timeout = simulation.number("timeout", 10, application.visibility_seconds - least_window)
    longest = application.visibility_seconds - timeout
    window = 0 if application.fifo else min(simulation.number("window", least_window, 5), longest)
    batch_size = simulation.number("batch_size", least_batch, 12 if window else 10)
    fields: dict[str, Any] = {"BatchSize": batch_size, "MaximumBatchingWindowInSeconds": window}
    if simulation.chance("capped", 3):
        fields["ScalingConfig"] = {"MaximumConcurrency": 2}
    processes = simulation.number("processes", least_processes, 3)
    reserved = simulation.number("reserved", 1, processes) if simulation.chance("is_reserved", 2) else None
    way = simulation.number("broken_way", NOT_LOADED, RESERVING_NONE)
    if is_throttled:
        reserved, way = 1, SLOW

    def reserved_now() -> int | None:
        return 0 if way == RESERVING_NONE and simulation.network.is_down(RELEASE) else reserved

    queue_arn = application.arn_of(application.queue_url)
    simulation.network.services["lambda"] = LambdaService(queue_arn, timeout, reserved_now, fields)
    deployment = Deployment(
        application,
        timeout=timeout,
        batch_size=batch_size,
        processes=processes,
        allowed=processes if reserved is None else reserved,
        seconds=simulation.number("seconds_between_deployments", 20, LONGEST_DEPLOYMENT),
        idle_seconds=simulation.number("idle_seconds", 2, 60),
        broken_way=way,
        variables={
            "BATCH_CONCURRENCY": str(simulation.number("batch_concurrency", 1, 3)),
            "GROUP_COMMIT": str(simulation.chance("group_commit", 2)).lower(),
        },
    )
    simulation.keep_running("mapping", lambda process: run_mapping(deployment, process))


def run_mapping(deployment: Deployment, process: Process) -> None:
    """Run one mapping, until it cannot start or is stopped, as for a new version of the function."""
    simulation = deployment.application.simulation
    environments: list[ExecutionEnvironment] = []

    def make(_: Installation) -> ExecutionEnvironment:
        process.check()
        if sum(each.alive for each in environments) >= deployment.allowed:
            simulation.breach("M1", f"{process.name}: more than {deployment.allowed} environments")
        environment = ExecutionEnvironment(
            simulation,
            process,
            lambda own: load(deployment, own),
            lambda event, size: check_offer(deployment, process, event, size),
            deployment.idle_seconds,
        )
        environments.append(environment)
        return environment

    connection: Any = SimpleNamespace(
        sqs=lambda: simulation.network.client(process, "sqs", **CLIENT),
        functions=lambda: simulation.network.client(process, "lambda", **CLIENT),
        session_token=None,
    )
    mapping = EventSourceMapping(
        connection,
        MAPPING_ID,
        folder=simulation.home,
        processes=deployment.processes,
        surroundings=simulation.surroundings(process),
        make=make,
    )
    try:
        mapping.start()
    except (ClientError, BotoCoreError):
        return
    simulation.kernel.sleep(deployment.seconds)
    mapping.stop()
    end = mapping.statistics
    simulation.journal.reached["a batch is throttled"] += end.throttles
    if end.in_flight or end.records != end.deleted + end.delete_refused + end.failed:
        simulation.breach("M3", f"{process.name} stopped with a wrong account: {end}")
    if hasattr(builtins, end.last_error):  # neither the service's nor the function's
        simulation.breach("Q9", f"{process.name}: a poller goes on after {end.last_error}")
    if any(each.alive for each in environments):
        simulation.breach("M3", f"{process.name} stopped, and left environments alive")


def load(deployment: Deployment, process: Process) -> Handler:
    """Return the function's handler in an environment.

    A broken release fails to load, raises, answers wrongly, hangs or is slow.
    """
    application, simulation = deployment.application, deployment.application.simulation
    broken, way = simulation.network.is_down(RELEASE), deployment.broken_way
    if broken and way == NOT_LOADED:
        raise BrokenRelease
    consumer = application.consumer(process, deployment.variables)

    def handle(event: Mapping[str, Any], context: Any) -> Any:
        if broken and way == RAISING:
            raise BrokenRelease
        if broken and way == SLOW:
            simulation.kernel.sleep(simulation.draw() * deployment.timeout)
        answer = consumer(event, context)
        if broken and way == MISTAKEN:
            simulation.journal.reached["function error: answer"] += 1
            return {"batchItemFailures": [{"itemIdentifier": ""}]}
        if broken and way == HANGING:
            simulation.kernel.sleep(deployment.timeout)
        return answer

    return handle


def check_offer(deployment: Deployment, process: Process, event: Mapping[str, Any], size: int) -> None:
    """Check an offer's limits, and that SQS still hides each message, unless a process stood still or SQS showed it."""
    application, simulation = deployment.application, deployment.application.simulation
    count = len(event["Records"])
    if count > deployment.batch_size or (count > 1 and size > PAYLOAD_LIMIT):
        simulation.breach("M1", f"{process.name}: offers too much, {count} messages")
    shown = {COPIED.name, UNDELETED.name}
    if any(kind_of(fault.name) == STOPPING or fault.name in shown for fault in simulation.faults.met):
        return
    messages = {message.message_id: message for message in application.sqs.messages(application.queue_url)}
    for record in event["Records"]:
        message, receives = messages.get(record["messageId"]), int(record["attributes"]["ApproximateReceiveCount"])
        if message is not None and (message.receives > receives or not message.hidden):
            simulation.breach("M2", f"{process.name}: {json.loads(record['body'])['message_id']} is visible again")


def start_expiry(application: Application) -> None:
    """Delete the ledger's expired rows late, as DynamoDB does: a line of the delivery log may be written late, too."""
    simulation = application.simulation

    def expire() -> None:
        rows = application.rows(LEDGER, "message_id")
        for message_id, row in rows.items():
            if row["expires_at"] + EXPIRY_SECONDS <= simulation.now_ms // 1000:
                simulation.dynamodb.delete_item(TableName=LEDGER, Key={"message_id": {"S": message_id}})
                simulation.journal.reached["a row expires"] += 1
        simulation.kernel.at(simulation.kernel.now + MICROSECONDS, expire)

    expire()
