"""Lambda in a simulated world: a deployed function, and the execution environments that its mapping starts.

An environment starts cold, and stays warm between invocations. It is killed at the function's timeout, with its mapping, after
a while without work, or by a fault. What kills a process, such as the lack of memory, is a crash.
"""

import base64
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.simulation.world.kernel import Process, Waiter
from lab.simulation.world.simulation import Simulation
from oneslot.local.mapping.handler_process import INIT_SECONDS, Answered, FunctionError
from oneslot.runtime.sqs.answer import REPORT_FAILURES

Handler = Callable[[Mapping[str, Any], Any], Any]

MAPPING_ID = "mapping"
_CRASHED, _TIMED_OUT = FunctionError("crash", "Runtime.ExitError"), FunctionError("timeout", "Sandbox.Timedout")
_ARN = "arn:aws:lambda:eu-west-2:111122223333:function:consumer"


@dataclass(frozen=True, slots=True)
class Context:
    """Lambda's context of one invocation."""

    aws_request_id: str
    process: Process
    deadline_ms: int

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the environment is killed."""
        return max(0, self.deadline_ms - self.process.now_ms)


@dataclass
class LambdaService:
    """The service behind a Lambda client, with one function and its mapping.

    Attributes:
        mapping: fields of the mapping, by their API names.
    """

    queue_arn: str
    timeout_seconds: int
    reserved_concurrency: Callable[[], int | None]
    mapping: Mapping[str, Any]

    def get_event_source_mapping(self, **_: Any) -> Mapping[str, Any]:
        """Return the mapping."""
        answers = {"FunctionResponseTypes": [REPORT_FAILURES], "FunctionArn": _ARN, "EventSourceArn": self.queue_arn}
        return {"UUID": MAPPING_ID, **answers, **self.mapping}

    def update_event_source_mapping(self, **_: Any) -> Mapping[str, Any]:
        """Disable the mapping."""
        return {}

    def get_function(self, **_: Any) -> Mapping[str, Any]:
        """Return the function, with the address of its code."""
        configuration = {
            "FunctionName": "consumer",
            "FunctionArn": _ARN,
            "Version": "$LATEST",
            "Handler": "handler.lambda_handler",
            "Timeout": self.timeout_seconds,
            "MemorySize": 512,
        }
        reserved = self.reserved_concurrency()
        concurrency = {} if reserved is None else {"ReservedConcurrentExecutions": reserved}
        return {"Configuration": configuration, "Code": {"Location": _CODE}, "Concurrency": concurrency}

    def start_environment(self, **_: Any) -> Mapping[str, Any]:
        """Let an environment start: a cold start's way to the function's code, which can fail as any call."""
        return {}


class ExecutionEnvironment:
    """One process of the function, with the interface of `HandlerProcess`.

    Args:
        load: returns the handler, in the environment's process.
        offered: called with each event that the mapping brings, and its size in bytes.
        idle_seconds: without work for this long, the process ends.
    """

    def __init__(
        self,
        simulation: Simulation,
        mapping: Process,
        load: Callable[[Process], Handler],
        offered: Callable[[Mapping[str, Any], int], None],
        idle_seconds: float,
    ) -> None:
        self._simulation = simulation
        self._kernel = simulation.kernel
        self._load = load
        self._offered = offered
        self._idle_seconds = idle_seconds
        self._callers: list[Waiter] = []
        self._idle: list[Waiter] = []
        self._ready = False
        self._invocation: tuple[Mapping[str, Any], Context] | None = None
        self._outcome: Answered | FunctionError | None = None
        self._process = simulation.process("lambda", self._main, wall_offset_ms=mapping.wall_offset)
        self._process.on_end.append(lambda: _wake(self._callers))
        mapping.on_end.append(self._process.end)

    @property
    def pid(self) -> int:
        """The number in its process's name."""
        return int(self._process.name.partition(".")[2] or 1)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return not self._process.ended

    def wait_until_ready(self) -> FunctionError | None:
        """Wait until the handler is loaded; return the error if that fails."""
        if not self._ready and self.alive:
            self._kernel.wait(self._callers, INIT_SECONDS)
        if self._ready:
            return None
        self._simulation.journal.reached["function error: init"] += 1
        failed = self._outcome
        return failed if isinstance(failed, FunctionError) else FunctionError("init", "Runtime.ExitError")

    def invoke(self, event: dict[str, Any], *, request_id: str, timeout_seconds: float) -> Answered | FunctionError:
        """Invoke the handler with one event; kill the process at the deadline."""
        payload = json.dumps(event)
        self._offered(event, len(payload))
        if error := self.wait_until_ready():
            return error
        deadline = self._process.now_ms + int(timeout_seconds * 1000)
        self._outcome = None
        self._invocation = json.loads(payload), Context(request_id, self._process, deadline)
        _wake(self._idle)
        if self.alive:
            self._kernel.wait(self._callers, timeout_seconds)
        outcome = self._outcome
        if outcome is None:
            outcome = _TIMED_OUT if self.alive else _CRASHED
        if outcome == _TIMED_OUT:
            self.close()
        if isinstance(outcome, FunctionError):
            self._simulation.journal.reached[f"function error: {outcome.kind}"] += 1
        return outcome

    def close(self, grace_seconds: float = 0.0) -> None:
        """End the process."""
        self._process.end()

    def _main(self, process: Process) -> None:
        try:
            self._simulation.network.client(process, "lambda").start_environment()
            handler = self._load(process)
        except Exception as error:
            self._outcome = FunctionError("init", type(error).__name__)
            return
        self._ready = True
        _wake(self._callers)
        while True:
            if self._invocation is None:
                self._kernel.wait(self._idle, self._idle_seconds)
            if self._invocation is None:
                return
            invocation, self._invocation = self._invocation, None
            try:
                self._outcome = Answered(json.dumps(handler(*invocation)))
            except Exception as error:
                self._outcome = FunctionError("exception", type(error).__name__)
            _wake(self._callers)


def _wake(waiters: list[Waiter]) -> None:
    while waiters:
        waiters.pop(0).wake()


def _packed() -> str:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("handler.py"), "")
    return "data:application/zip;base64," + base64.b64encode(content.getvalue()).decode()


_CODE = _packed()
