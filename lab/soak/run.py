"""One run of the soak: deploy the real stack, start hosts and load, inject faults, drain, judge."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lab.soak.deployment import reach_aws_through, shortened
from lab.soak.disturber import Disturber
from lab.soak.hosts import Host, HostSettings
from lab.soak.load import Load, Size, schedule_for
from lab.soak.plan import NETWORK_SHARES, NetworkFault, NetworkPlan, disturbances
from lab.soak.proxy_process import ProxyProcess
from lab.soak.report import Report, summarise
from oneslot.errors import BadInput, OneslotError
from oneslot.evidence.gathering import Gathered, gather
from oneslot.evidence.verdict import judge
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.local.state import LocalState
from oneslot.runtime.sqs.queue_depth import queue_depth
from oneslot.target import ARCHIVE_FILE, format_command, local_target
from oneslot.terminal import Terminal
from workload.generator import utc_now
from workload.seeding import SlotWriter, seed

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

DRAIN_SECONDS = 600.0
WANTED_SECONDS = 300.0
_LOOK_SECONDS = 0.5
_SAY_SECONDS = 30.0


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        size: of the load.
        expected_messages: the number of messages that slots are seeded for.
        seed: of every choice.
        lease_seconds: the function's timeout, which is the longest lease.
        hosts, handlers: pollers, and handler processes of each.
        gap_seconds: the mean time between two process faults.
        script: faults of single calls, as in `NetworkPlan`.
        wanted: kinds of faults; the load continues until each has happened, or for `WANTED_SECONDS`.
    """

    size: Size
    expected_messages: int
    seed: int
    lease_seconds: int = 6
    hosts: int = 2
    handlers: int = 2
    gap_seconds: float = 4.0
    script: Mapping[tuple[str, int], NetworkFault] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()


def run(
    settings: Settings, stack: SynthesisedStack, connection: Connection, folder: Path, terminal: Terminal
) -> Report:
    """Deploy the stack into the account of `connection`, run the soak, and return its report.

    folder: for logs and the archive; see `refuse_used`. Raises `OneslotError` if the queue is not empty `DRAIN_SECONDS`
    after the last fault.
    """
    with ExitStack() as things:
        deployment = deploy(shortened(stack, settings.lease_seconds), connection)
        sqs = things.enter_context(closing(connection.sqs()))
        dynamodb = things.enter_context(closing(connection.dynamodb()))
        schedule = schedule_for(settings.expected_messages, settings.seed, utc_now().date())
        with terminal.progress("slots seeded", schedule.slots) as advance:
            seed(schedule.items(), SlotWriter(dynamodb, deployment.outputs["SlotsTableName"]), progress=advance)
        plan = NetworkPlan(settings.seed, NETWORK_SHARES, settings.script)
        proxy = things.enter_context(ProxyProcess(plan, connection.endpoint_url, folder))
        reach_aws_through(deployment, proxy.endpoint_url)
        hosts = [things.enter_context(Host(each)) for each in _host_settings(settings, deployment, folder)]
        archive = folder / ARCHIVE_FILE
        load = Load(
            sqs,
            deployment.outputs["QueueUrl"],
            schedule=schedule,
            size=settings.size,
            seed=settings.seed,
            archive=archive,
        )
        plan_of_faults = disturbances(settings.seed, settings.gap_seconds)
        disturber = Disturber(hosts, plan_of_faults, settings.lease_seconds)
        began = time.monotonic()
        load.start()
        disturber.start()
        try:
            _watch(load, disturber, proxy, terminal, settings)
        finally:
            disturber.stop()
        network = proxy.calm()
        calmed = time.monotonic()
        terminal.say("The faults have stopped; draining.")
        _drain(sqs, deployment, terminal)
        ended = time.monotonic()
        with terminal.working("reading the evidence"):
            gathered = evidence_of(deployment, folder, hosts)
        return summarise(
            gathered,
            judge(gathered, lambda verb: format_command(verb, None)),
            seed=settings.seed,
            messages=load.sent,
            seconds=ended - began,
            drain_seconds=ended - calmed,
            network=network,
            process_faults=dict(disturber.done),
        )


def refuse_used(folder: Path) -> None:
    """Raise `BadInput` if the folder has an earlier run's archive or logs, which would be judged with this run's."""
    used = [path for path in (folder / ARCHIVE_FILE, *sorted(folder.glob("host-*"))) if path.exists()]
    if used:
        raise BadInput(
            f"--folder {folder} has the {used[0].name} of an earlier run, which would be judged with this one. "
            "Name a new folder, or remove that one."
        )


def _host_settings(settings: Settings, deployment: Deployment, folder: Path) -> Iterator[HostSettings]:
    mapping_id = deployment.outputs["EventSourceMappingId"]
    for number in range(settings.hosts):
        yield HostSettings(deployment.connection, mapping_id, folder / f"host-{number}", settings.handlers)


def _watch(load: Load, disturber: Disturber, proxy: ProxyProcess, terminal: Terminal, settings: Settings) -> None:
    shown, began = 0, time.monotonic()
    said = began
    with terminal.progress("messages sent", settings.size.messages or None) as advance:
        while not load.finished:
            happened = [*proxy.counts().injected, *disturber.done] if settings.wanted else []
            if settings.wanted.issubset(happened) or time.monotonic() - began >= WANTED_SECONDS:
                load.may_end.set()
            time.sleep(_LOOK_SECONDS)
            disturber.check()
            sent = load.sent
            advance(sent - shown)
            shown = sent
            if time.monotonic() - said >= _SAY_SECONDS:
                said = time.monotonic()
                terminal.say(_so_far(load, disturber, proxy))
    terminal.say(_so_far(load, disturber, proxy))


def _so_far(load: Load, disturber: Disturber, proxy: ProxyProcess) -> str:
    counts = proxy.counts()
    return (
        f"{load.sent:,} messages sent; {counts.total_injected:,} faults in {counts.total_calls:,} calls, "
        f"{disturber.done.total():,} on processes."
    )


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


def evidence_of(deployment: Deployment, folder: Path, hosts: Iterable[Host]) -> Gathered:
    """Gather the run's evidence, as `oneslot check` does."""
    log = folder / "consumer.jsonl"
    with log.open("wb") as together:
        for host in hosts:
            together.write(host.log_file.read_bytes())
            together.write(b"\n")  # a killed handler may have left its last line unfinished
    target = local_target(LocalState.of(deployment, log), folder)
    with closing(target.sqs), closing(target.dynamodb), closing(target.functions):
        return gather(target)
