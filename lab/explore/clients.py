"""What the lab's consumers are made with: clients and threads of a process of the explorer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation, StrandFuture


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
