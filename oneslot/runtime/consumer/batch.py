"""A batch's records side by side: a record mostly waits for DynamoDB and hardly computes."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol, TypeVar

from oneslot.runtime.consumer.record import Record
from oneslot.runtime.protocol import M
from oneslot.runtime.sqs.fifo import HeldBack

T = TypeVar("T")

Handle = Callable[[Record[M]], None]
"""Makes an attempt at one record; raises if SQS must deliver it again."""


class Process(Protocol):
    """A way to process a batch: `process` below, or Powertools' batch processor."""

    def __call__(
        self,
        records: Sequence[Record[M]],
        handle: Handle[M],
        executor: Executor | None,
        is_answered: Callable[[Record[M]], bool],
    ) -> list[str]:
        """Handle every record; return the SQS MessageIds of those that failed."""


def process(
    records: Sequence[Record[M]],
    handle: Handle[M],
    executor: Executor | None,
    is_answered: Callable[[Record[M]], bool],
) -> list[str]:
    """Handle every record; return the SQS MessageIds of those that failed, in the records' order.

    A batch that fails as a whole is reported record by record and not raised: an exception would make Lambda slow the queue
    down for everybody.
    """

    def succeeds(record: Record[M]) -> bool:
        try:
            handle(record)
        except Exception:
            return False
        return True

    succeeded = run_side_by_side(records, succeeds, executor, is_answered)
    return [record.sqs_message_id for record, success in zip(records, succeeded, strict=True) if not success]


def run_side_by_side(
    records: Sequence[Record[M]],
    run: Callable[[Record[M]], T],
    executor: Executor | None,
    is_answered: Callable[[Record[M]], bool],
) -> list[T]:
    """Run each record; return the results in the records' order.

    Records of one message, or of one message group, run in turn and in their order; the others on `executor`'s threads.
    Without an executor all run in the calling thread. So does a record for which `is_answered`: it has nothing to wait for.
    """
    lines: dict[str, list[int]] = {}
    for position, record in enumerate(records):
        lines.setdefault(record.group or record.message_id or record.sqs_message_id, []).append(position)

    def run_line(positions: Sequence[int]) -> list[tuple[int, T]]:
        return [(position, run(records[position])) for position in positions]

    here, elsewhere = [], []
    for positions in lines.values():
        if executor is None or len(lines) == 1 or all(is_answered(records[position]) for position in positions):
            here.append(positions)
        else:
            # In its own copy of the context: threads are kept, and must not keep anything else.
            elsewhere.append(executor.submit(contextvars.copy_context().run, run_line, positions))
    done = [run_line(positions) for positions in here]
    done += [future.result() for future in elsewhere]
    return [result for _, result in sorted((pair for line in done for pair in line), key=lambda pair: pair[0])]


def stopping_groups(handle: Handle[M]) -> Handle[M]:
    """Wrap `handle` for FIFO queues: the first failure stops its message group.

    The rest of the group raises `HeldBack`, untried, so that SQS delivers it again behind the failed record.
    """
    stopped: set[str] = set()

    def handle_in_order(record: Record[M]) -> None:
        group = record.group
        if group in stopped:
            raise HeldBack("an earlier record of this message group failed")
        try:
            handle(record)
        except BaseException:
            if group is not None:
                stopped.add(group)
            raise

    return handle_in_order
