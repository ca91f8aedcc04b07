"""The client of the code under test: it stops the code at every call, and answers as boto3's client would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation


class PortClient:
    """DynamoDB's and SQS's client in one: each method is an API call of the process."""

    def __init__(self, process: RunningInvocation) -> None:
        self._process = process

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)
        return lambda **parameters: self._process.call(operation, parameters)
