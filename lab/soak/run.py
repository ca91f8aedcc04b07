"""One run of the soak: deploy the real stack, start hosts and load, kill and freeze processes, drain, judge."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.generator import utc_now
from demo.seeding import SlotWriter, seed
from lab.soak.deployment import shortened
from lab.soak.faults import Faults
from lab.soak.hosts import Host
from lab.soak.load import Load, Size, schedule_for
from oneslot.errors import OneslotError
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.local.state import LocalState
from oneslot.operator.evidence.gathering import Gathered, gather
from oneslot.operator.evidence.verdict import CheckVerdict, judge
from oneslot.runtime.sqs.queue_depth import queue_depth
from oneslot.target import ARCHIVE_FILE, format_command, local_target
from oneslot.terminal import Terminal

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

DRAIN_SECONDS = 600.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        size: of the load.
        expected_messages: the number of messages that slots are seeded for.
        seed: of every choice.
        lease_seconds: the function's timeout, which is the longest lease.
        hosts, handlers: pollers, and handler processes of each.
        gap_seconds: the mean time between two faults.
    """

    size: Size
    expected_messages: int
    seed: int
    lease_seconds: int = 6
    hosts: int = 2
    handlers: int = 2
    gap_seconds: float = 4.0


def run(
    settings: Settings, stack: SynthesisedStack, connection: Connection, folder: Path, terminal: Terminal
) -> tuple[dict[str, Any], CheckVerdict]:
    """Deploy the stack into the account of `connection`, run the soak, and return its figures and the verdict.

    folder: an empty one for logs and the archive. Raises `OneslotError` if the queue is not empty `DRAIN_SECONDS` after
    the last fault.
    """
    with ExitStack() as things:
        deployment = deploy(shortened(stack, settings.lease_seconds), connection)
        outputs = deployment.outputs
        sqs = things.enter_context(closing(connection.sqs()))
        dynamodb = things.enter_context(closing(connection.dynamodb()))
        schedule = schedule_for(settings.expected_messages, settings.seed, utc_now().date())
        with terminal.progress("slots seeded", schedule.slots) as advance:
            seed(schedule.items(), SlotWriter(dynamodb, outputs["SlotsTableName"]), progress=advance)
        mapping = outputs["EventSourceMappingId"]
        hosts = [
            things.enter_context(closing(Host(connection, mapping, folder / f"host-{number}", settings.handlers)))
            for number in range(settings.hosts)
        ]
        load = Load(sqs, outputs["QueueUrl"], schedule, settings.size, folder / ARCHIVE_FILE)
        faults = Faults(hosts, settings.seed, settings.gap_seconds, settings.lease_seconds)
        began = time.monotonic()
        with ThreadPoolExecutor(2) as executor:
            sending, injecting = executor.submit(load.run), executor.submit(faults.run)
            try:
                _watch(load, (sending, injecting), terminal, settings)
            finally:
                faults.stopping.set()
        terminal.say(f"{load.sent:,} messages sent; {faults.done.total():,} faults. Draining.")
        _drain(sqs, deployment, terminal)
        seconds = time.monotonic() - began
        gathered = _evidence_of(deployment, folder, hosts)
        verdict = judge(gathered, lambda verb: format_command(verb, None))
        figures = {
            "seed": settings.seed,
            "messages": load.sent,
            "seconds": round(seconds, 1),
            "faults": faults.done.total(),
            "faults_by_kind": dict(faults.done),
            "deliveries": dict(Counter(line["outcome"] for line in gathered.evidence.deliveries)),
            "claimed_more_than_once": sum(row["consumption_count"] > 1 for row in gathered.evidence.ledger.values()),
            "violations": len(verdict.breaches),
        }
        return {**figures, **verdict.document()}, verdict


def _watch(load: Load, running: Sequence[Future[None]], terminal: Terminal, settings: Settings) -> None:
    """Show what is sent until all is. Raises the error of either thread."""
    shown = 0
    with terminal.progress("messages sent", settings.size.messages or None) as advance:
        while not any(each.done() for each in running):
            time.sleep(_LOOK_SECONDS)
            advance(load.sent - shown)
            shown = load.sent
    for each in running:
        if each.done():
            each.result()


def _drain(sqs: SQSClient, deployment: Deployment, terminal: Terminal) -> None:
    deadline = time.monotonic() + DRAIN_SECONDS
    with terminal.working("draining"):
        while not (depth := queue_depth(sqs, deployment.outputs["QueueUrl"])).empty:
            if time.monotonic() > deadline:
                raise OneslotError(
                    f"The queue still holds {depth.total:,} messages {DRAIN_SECONDS:.0f} s after the last fault: "
                    "redelivery does not converge. See the logs in the run's folder."
                )
            time.sleep(_LOOK_SECONDS)


def _evidence_of(deployment: Deployment, folder: Path, hosts: Sequence[Host]) -> Gathered:
    """Gather the run's evidence, as `oneslot check` does."""
    log = folder / "consumer.jsonl"
    with log.open("wb") as together:
        for host in hosts:
            together.write(host.log_file.read_bytes())
            together.write(b"\n")  # a killed handler may have left its last line unfinished
    target = local_target(LocalState.of(deployment, log), folder)
    with closing(target.sqs), closing(target.dynamodb), closing(target.functions):
        return gather(target)
