"""Powertools' BatchProcessor, with the records of a batch side by side: a record waits for DynamoDB, it hardly computes."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType

from oneslot.runtime.sqs.fifo import HeldBack, group_of


class ConcurrentBatchProcessor(BatchProcessor):
    """Records with the same key run one after the other, in their order; different keys run on `executor`'s threads.

    `is_answered` says of a record that nothing is left to wait for: it needs no thread.

    Records of a FIFO queue have their message group as key, and the first failure stops its group: the rest of the group is
    reported as failed too, untried, so that it comes again behind it.

    Without an executor everything runs in the calling thread. A batch that fails as a whole is reported record by record
    and not raised: an exception would make Lambda slow the queue down for everybody.
    """

    def __init__(
        self,
        key: Callable[[Mapping[str, Any]], str],
        executor: Executor | None = None,
        is_answered: Callable[[Mapping[str, Any]], bool] = lambda _: False,
    ) -> None:
        super().__init__(EventType.SQS, raise_on_entire_batch_failure=False)
        self._key = key
        self._executor = executor
        self._is_answered = is_answered

    def process(self) -> list[tuple[Any, ...]]:
        """Process all records; the answers are in the records' order."""
        groups: dict[str, list[int]] = {}
        for position, record in enumerate(self.records):
            group = group_of(record)
            groups.setdefault(self._key(record) if group is None else group, []).append(position)

        def process_group(positions: list[int]) -> list[tuple[int, tuple[Any, ...]]]:
            answers: list[tuple[int, tuple[Any, ...]]] = []
            failed = False
            for position in positions:
                record = self.records[position]
                answer = self._hold_back(record) if failed else self._process_record(record)
                failed = failed or (answer[0] == "fail" and group_of(record) is not None)
                answers.append((position, answer))
            return answers

        executor = self._executor if len(groups) > 1 else None
        here, elsewhere = [], []
        for positions in groups.values():
            if executor is None or all(self._is_answered(self.records[position]) for position in positions):
                here.append(positions)
            else:
                # In its own copy of the context: threads are kept, and must not keep anything else.
                elsewhere.append(executor.submit(contextvars.copy_context().run, process_group, positions))
        answered = [process_group(positions) for positions in here]
        answered += [future.result() for future in elsewhere]
        return [
            answer for _, answer in sorted((pair for group in answered for pair in group), key=lambda pair: pair[0])
        ]

    def _hold_back(self, record: dict[str, Any]) -> tuple[Any, ...]:
        held = HeldBack("an earlier record of this message group failed")
        return self.failure_handler(self._to_batch_type(record, self.event_type), (HeldBack, held, None))
