"""The clients of the code under test. Both stop it at every call, and look to it like boto3's.

`PortClient` answers as boto3's client would. `BotocoreClients` are boto3's own, with each request intercepted before it is
sent: slower, and equal in every state, as the tests show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import boto3
import botocore.endpoint
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from oneslot.explorer.execution.process import Process
from oneslot.explorer.world import Request


class PortClient:
    """DynamoDB's and SQS's client in one: each method is an API call of the process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)
        return lambda **parameters: self._process.call(operation, parameters)


class _Pauses:
    """A replacement of `time` in botocore's endpoint, with pauses that take no time."""

    @staticmethod
    def sleep(seconds: float) -> None:
        """Return at once."""


_process: ContextVar[Process] = ContextVar("process")
_exhausted: ContextVar[str | None] = ContextVar("exhausted", default=None)


class BotocoreClients:
    """boto3's own clients, with every request intercepted in `before-send` and answered by the process that makes it.

    The retry mode is `legacy` rather than `standard`, because `standard` keeps a quota between calls, and a replay would
    depend on earlier runs.
    """

    def __init__(self) -> None:
        config = Config(retries={"mode": "legacy", "max_attempts": 3}, read_timeout=3)
        session = boto3.Session("AKIAEXPLORER", "none", region_name="eu-west-2")
        self.dynamodb: Any = session.client("dynamodb", config=config, endpoint_url="https://dynamodb.example")
        self.sqs: Any = session.client("sqs", config=config, endpoint_url="https://sqs.example")
        for client in (self.dynamodb, self.sqs):
            intercept_requests(client)


def serve(process: Process) -> None:
    """Make the calls of all intercepted clients, in this context, the calls of this process."""
    _process.set(process)


def intercept_requests(client: Any) -> None:
    """Intercept all requests of a boto3 client, and skip botocore's pauses between attempts."""
    botocore.endpoint.time = _Pauses  # type: ignore[attr-defined]
    client.meta.events.register("before-call", _forget_last_call)
    client.meta.events.register("before-send", _answer_request)


def _forget_last_call(**event: Any) -> None:
    _exhausted.set(None)


def _answer_request(request: Any, event_name: str, **event: Any) -> AWSResponse:
    operation = _snake(event_name.rpartition(".")[2])
    # An error stands for all of the SDK's attempts, so the remaining attempts see it again.
    observation = _exhausted.get() or _process.get().wait(Request.of(operation, json.loads(request.body)))
    seen = json.loads(observation)
    if "answer" in seen:
        answer = {name: value for name, value in seen["answer"].items() if name != "ResponseMetadata"}
        return _response(request.url, 200, answer)
    _exhausted.set(observation)
    if "unanswered" in seen:
        raise ReadTimeoutError(endpoint_url=request.url)
    error = seen["error"]
    body = {
        "__type": f"com.amazonaws.dynamodb.v20120810#{error['Error']['Code']}",
        "message": error["Error"].get("Message", ""),
        **{name: value for name, value in error.items() if name not in ("Error", "ResponseMetadata")},
    }
    return _response(request.url, 500 if "Internal" in error["Error"]["Code"] else 400, body)


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **options: Any) -> list[bytes]:
        return [self._content]


def _response(url: str, status: int, body: Mapping[str, Any]) -> AWSResponse:
    headers = HTTPHeaders.from_dict({"content-type": "application/x-amz-json-1.0"})
    return AWSResponse(url, status, headers, _Body(json.dumps(body).encode()))


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
