"""A batch's records side by side: a record mostly waits for DynamoDB and hardly computes."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from oneslot.runtime.consumer.record import Record
from oneslot.runtime.protocol import M
from oneslot.runtime.surroundings import Executor

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
    ) -> Mapping[str, Any]:
        """Handle every record; return Lambda's partial batch response, which names the failed records."""


def process(
    records: Sequence[Record[M]],
    handle: Handle[M],
    executor: Executor | None,
    is_answered: Callable[[Record[M]], bool],
) -> Mapping[str, Any]:
    """Handle every record; return Lambda's partial batch response, the failed records in their order.

    A batch that fails as a whole is reported record by record and not raised: an exception would make Lambda slow the
    whole queue down.
    """

    def succeeds(record: Record[M]) -> bool:
        try:
            handle(record)
        except Exception:
            return False
        return True

    succeeded = run_side_by_side(records, succeeds, executor, is_answered)
    failed = (record for record, success in zip(records, succeeded, strict=True) if not success)
    return {"batchItemFailures": [{"itemIdentifier": record.receipt.sqs_message_id} for record in failed]}


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
        lines.setdefault(record.group or record.message_id or record.receipt.sqs_message_id, []).append(position)
    results: dict[int, T] = {}

    def run_line(positions: Sequence[int]) -> None:
        for position in positions:
            results[position] = run(records[position])

    here, elsewhere = [], []
    for positions in lines.values():
        if executor is None or len(lines) == 1 or all(is_answered(records[position]) for position in positions):
            here.append(positions)
        else:
            # In its own copy of the context: threads are kept, and must not keep anything else.
            elsewhere.append(executor.submit(contextvars.copy_context().run, run_line, positions))
    for positions in here:
        run_line(positions)
    for future in elsewhere:
        future.result()
    return list(map(results.__getitem__, range(len(records))))
