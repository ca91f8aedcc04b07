"""A fast start for the Lambda function. Import it first: it stops garbage collection while the imports are made.

The objects that imports make stay. Searching them for garbage again and again took a seventh of a start's CPU.
"""

from __future__ import annotations

import gc

gc.disable()

from threading import Lock  # noqa: E402 - after the line above, as all imports of a start
from typing import Any  # noqa: E402

import boto3  # noqa: E402
from botocore.config import Config  # noqa: E402


def resume_garbage_collection() -> None:
    """Collect as usual from now on, leaving out what the start has made."""
    gc.freeze()
    gc.enable()


class SQSOnFirstUse:
    """An SQS client made for the first message that is busy or unprocessable: to make it takes a sixth of a start."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = Lock()  # boto3 cannot make two clients at once
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            self._client = self._client or boto3.client("sqs", config=self._config)
        return getattr(self._client, name)
