"""Our consumer as a subject of the explorer, composed as in Lambda and otherwise unchanged, on its clients and threads."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict
from typing import Any

from booking.consumer import appointments_consumer
from lab.explore.laws import OurLaws
from lab.explore.practice import APPOINTMENTS, DEAD_LETTERS, LEDGER, QUEUE, SLOTS
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation, StrandFuture
from oneslot.explorer.scenario import MOST_REDELIVERIES, ExploredSubject

ENVIRONMENT: Mapping[str, str] = {
    "ONESLOT_LEDGER_TABLE": LEDGER,
    "ONESLOT_TABLE_SLOTS": SLOTS,
    "ONESLOT_TABLE_APPOINTMENTS": APPOINTMENTS,
    "ONESLOT_QUEUE_URL": QUEUE,
    "ONESLOT_DEAD_LETTER_QUEUE_URL": DEAD_LETTERS,
    "ONESLOT_LEDGER_RETENTION_SECONDS": str(30 * 86_400),
    # With so few receives the first wait already lasts for the lease. A copy may be delivered at any time anyway.
    "ONESLOT_MAX_RECEIVE_COUNT": str(MOST_REDELIVERIES),
    "BATCH_CONCURRENCY": "1",
    "CANDIDATE_SLOTS": "20",
}


def our_program(
    process: RunningInvocation,
    context: InvocationContext,
    records: Sequence[dict[str, Any]],
    side_by_side: bool,
    environment: Mapping[str, str] = ENVIRONMENT,
    /,
    **ways: Any,
) -> Mapping[str, Any]:
    """Run one invocation of our consumer on the stand-in's clients. `ways` are the consumer's `attempt` and `process`."""
    client = PortClient(process)
    consumer = appointments_consumer(
        environment,
        lambda delivery: process.log(asdict(delivery)),
        dynamodb=client,
        sqs=client,
        executor=StrandExecutor(process) if side_by_side else None,
        surroundings=process.surroundings,
        **ways,
    )
    return consumer({"Records": list(records)}, context)


def group_program(
    process: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
) -> Mapping[str, Any]:
    """Run one invocation with the setting `group_commit`."""
    return our_program(process, context, records, side_by_side, {**ENVIRONMENT, "GROUP_COMMIT": "true"})


OURS = ExploredSubject("Oneslot", our_program, OurLaws())
OURS_IN_GROUPS = ExploredSubject("Oneslot, group commit", group_program, OurLaws())


class PortClient:
    """DynamoDB's and SQS's client in one: each method is an API call of the process.

    It serves the consumers that the explorer makes itself. An unmodified handler has boto3's own clients: `handlers/aws.py`.
    """

    def __init__(self, process: RunningInvocation) -> None:
        self._process = process

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)
        return lambda **parameters: self._process.call(operation, parameters)


class StrandExecutor(Executor):
    """Threads for a process: each task is a strand, and the explorer interleaves the strands' calls."""

    def __init__(self, process: RunningInvocation) -> None:
        self._process = process

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task. Its future's `result` waits in the explorer's time."""
        future = StrandFuture(self._process)

        def body() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self._process.start_strand(body)
        return future
