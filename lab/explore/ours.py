"""Our consumer as a subject of the explorer, composed as in Lambda and otherwise unchanged."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from booking.compose import compose
from booking.configuration import Configuration
from lab.explore.laws import OurLaws
from lab.explore.practice import APPOINTMENTS, DEAD_LETTERS, LEDGER, QUEUE, SLOTS
from oneslot.explorer.execution.clients import BotocoreClients, PortClient, serve
from oneslot.explorer.execution.process import Context, Process, StrandExecutor
from oneslot.explorer.scenario import MOST_REDELIVERIES, Subject
from oneslot.runtime.sqs.deferral import Deferral

CONFIGURATION = Configuration(
    ledger_table=LEDGER,
    slots_table=SLOTS,
    appointments_table=APPOINTMENTS,
    queue_url=QUEUE,
    dead_letter_queue_url=DEAD_LETTERS,
    ledger_retention_seconds=30 * 86_400,
    batch_concurrency=1,
    candidate_slots=20,
    content_based_deduplication=False,
    # With so few receives the first wait already lasts for the lease. A copy may be delivered at any time anyway.
    deferral=Deferral(max_receive_count=MOST_REDELIVERIES),
)


def our_program(
    process: Process,
    context: Context,
    records: Sequence[dict[str, Any]],
    side_by_side: bool,
    configuration: Configuration = CONFIGURATION,
    /,
    **ways: Any,
) -> Mapping[str, Any]:
    """Run one invocation of our consumer on the stand-in's clients. `ways` are `compose`'s `attempt` and `process`."""
    client = PortClient(process)
    consumer = compose(
        configuration,
        client,
        client,
        lambda delivery: process.log(asdict(delivery)),
        executor=StrandExecutor(process) if side_by_side else None,
        surroundings=process.surroundings,
        **ways,
    )
    return consumer({"Records": list(records)}, context)


def group_program(
    process: Process, context: Context, records: Sequence[dict[str, Any]], side_by_side: bool
) -> Mapping[str, Any]:
    """Run one invocation with the setting `group_commit`."""
    return our_program(process, context, records, side_by_side, replace(CONFIGURATION, group_commit=True))


@functools.cache
def _botocore_clients() -> BotocoreClients:
    return BotocoreClients()


def botocore_program(
    process: Process, context: Context, records: Sequence[dict[str, Any]], side_by_side: bool
) -> Mapping[str, Any]:
    """Run one invocation on boto3's own clients, to show that the stand-in's clients change nothing."""
    clients = _botocore_clients()
    serve(process)
    consumer = compose(
        CONFIGURATION,
        clients.dynamodb,
        clients.sqs,
        lambda delivery: process.log(asdict(delivery)),
        surroundings=process.surroundings,
    )
    return consumer({"Records": list(records)}, context)


OURS = Subject("Oneslot", our_program, OurLaws())
OURS_IN_GROUPS = Subject("Oneslot, group commit", group_program, OurLaws())
