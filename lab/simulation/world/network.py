"""The network between simulated processes and the services: every call takes time, and may meet a fault."""

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Never, cast

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from lab.simulation.world.faults import (
    BLAMED,
    CALL,
    COPIED,
    IGNORED,
    PARTIAL,
    SAMPLED,
    SILENT,
    SLOW,
    UNDELETED,
    UNSENT,
    Fault,
    Faults,
    choices,
    reached_name,
)
from lab.simulation.world.journal import Journal
from lab.simulation.world.kernel import MICROSECONDS, START_MS, Kernel, Process, Waiter
from oneslot.explorer.faults import DEATH, LATER, NEVER, SILENCE, Choice
from oneslot.runtime.failures import THROTTLED

REGION = "eu-west-2"
SLOWEST_SECONDS = 0.04
"""The longest way of a call to the service, and of its answer back, without a fault."""
CONNECT_SECONDS = 1.0
STIRRING = ("send_message", "change_message", "delete_message")
"""Calls after which a long poll may find a message: on a FIFO queue a deletion shows the next one of the group."""


class Network:
    """The way to the services, and what goes wrong on it.

    Attributes:
        services: what performs the calls of each service, by its name.
        last_fault: when the last one ends (microseconds).
    """

    def __init__(self, kernel: Kernel, journal: Journal, draw: Callable[[], float], faults: Faults) -> None:
        self.kernel = kernel
        self.journal = journal
        self.draw = draw
        self.faults = faults
        self.services: dict[str, Any] = {}
        self.last_fault = 0
        self._down: dict[str, tuple[int, int]] = {}
        self._polls: dict[str, list[Waiter]] = {}

    def client(self, process: Process, service: str, *, attempts: int = 4, read_timeout: float = 3.0) -> Any:
        """Return a client of a service in this process. The defaults are the consumer's own."""
        return Client(self, process, service, attempts, read_timeout)

    @property
    def calm(self) -> bool:
        """Whether no fault happened."""
        return not self.faults.met and not self._down

    @property
    def only_crashes(self) -> bool:
        """Whether every fault that happened was a crash."""
        return not self._down and all("crash" in fault.name for fault in self.faults.met)

    @property
    def had_outage(self) -> bool:
        """Whether a service was down for a time."""
        return bool(self._down)

    def fault_met(self, fault: Fault, what: str) -> None:
        """Note that a fault happens to `what`."""
        self.last_fault = max(self.last_fault, self.kernel.now + int(fault.seconds * MICROSECONDS))
        self.journal.reached[reached_name(fault.name, what)] += 1
        self.journal.note(fault.process, f"FAULT {fault.name}", (what, fault.number, fault.seconds))

    def take_down(self, service: str, from_seconds: float, seconds: float) -> None:
        """Let no connection to a service succeed for this long."""
        start = self.kernel.now + int(from_seconds * MICROSECONDS)
        self._down[service] = (start, start + int(seconds * MICROSECONDS))
        self.last_fault = max(self.last_fault, start + int(seconds * MICROSECONDS))

    def is_down(self, service: str) -> bool:
        """Return whether a service cannot be reached now."""
        start, end = self._down.get(service, (0, 0))
        return start <= self.kernel.now < end

    def polls(self, queue_url: str) -> list[Waiter]:
        """Return the long polls that wait at a queue."""
        return self._polls.setdefault(queue_url, [])

    def stir(self, queue_url: str) -> None:
        """Wake the long polls of a queue: its messages have changed."""
        for poll in self._polls.pop(queue_url, ()):
            poll.wake()

    def performed(self, process: Process, operation: str, parameters: Mapping[str, Any], answer: Any) -> None:
        """Note that a service has performed a call."""
        self.journal.note(process.name, operation, (parameters, answer))
        for observe in self.journal.observers:
            observe(process.name, operation, parameters, answer)


class Client:
    """A client of one service, in a process, with boto3's method names.

    Args:
        attempts, read_timeout: as in botocore's `Config`: how often the SDK sends a call that has no answer, and how long
            it waits for one (seconds).
    """

    def __init__(self, network: Network, process: Process, service: str, attempts: int, read_timeout: float) -> None:
        self.meta = SimpleNamespace(region_name=REGION)
        self._network = network
        self._kernel = network.kernel
        self._process = process
        self._service = service
        self._performer = network.services[service]
        self._attempts = attempts
        self._read_timeout = read_timeout

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)

        def call(**parameters: Any) -> Any:
            return self._call(operation, parameters)

        setattr(self, operation, call)
        return call

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        silent = ReadTimeoutError(endpoint_url=f"https://{self._service}.example/")
        for _ in range(self._attempts):
            self._process.check()
            self._process.calls += 1
            found = self._network.faults.at(
                self._process.name, CALL, self._process.calls, lambda: choices(self._service, operation, parameters)
            )
            if self._network.is_down(self._service):
                self._kernel.sleep(CONNECT_SECONDS)
                silent = cast("Any", EndpointConnectionError(endpoint_url=f"https://{self._service}.example/"))
                continue
            if found is None:
                return self._undisturbed(operation, parameters)
            self._network.fault_met(found[1], operation)
            answered, value = self._disturbed(operation, parameters, *found)
            if answered:
                return value
        raise silent

    def _undisturbed(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        self._travel()
        answer = self._perform(operation, parameters)
        self._travel()
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def _disturbed(
        self, operation: str, parameters: Mapping[str, Any], choice: Choice, fault: Fault
    ) -> tuple[bool, Any]:
        """Return whether there was an answer, and the answer. May raise it, or end the process."""
        self._travel()
        answer: Any = None
        if choice.performed == LATER:
            late = self._kernel.now + int((self._read_timeout + fault.seconds) * MICROSECONDS)
            self._kernel.at(late, lambda: self._perform_now(operation, parameters))
        elif choice.conflict is not None:
            answer = self._in_conflict(choice.conflict, parameters)
        elif choice in (PARTIAL, BLAMED, SILENT, IGNORED):
            answer = self._split(operation, parameters, choice, fault)
        elif choice in (COPIED, UNDELETED, SAMPLED):
            answer = self._with_anomaly(operation, parameters, choice)
        elif choice.performed != NEVER:
            answer = self._perform(operation, parameters)
        if choice.seen == DEATH:
            self._process.crash()
        if choice is UNSENT:
            self._kernel.sleep(CONNECT_SECONDS)
            return False, None
        slow = fault.seconds if choice is SLOW else 0.0
        if choice.seen == SILENCE or slow > self._read_timeout:
            self._kernel.sleep(self._read_timeout)
            return False, None
        self._kernel.sleep(slow)
        self._travel()
        if choice.observation is not None:
            self._raise(choice.observation, operation)
        if isinstance(answer, ClientError):
            raise answer
        return True, answer

    def _raise(self, observation: str, operation: str) -> Never:
        seen = json.loads(observation)
        if "unanswered" in seen:
            self._kernel.sleep(self._read_timeout * (self._attempts - 1))
            raise ReadTimeoutError(endpoint_url=f"https://{self._service}.example/")
        raise ClientError(seen["error"], operation)

    def _travel(self) -> None:
        self._kernel.sleep(SLOWEST_SECONDS * self._network.draw())

    def _perform(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        if operation == "receive_message" and parameters.get("WaitTimeSeconds"):
            return self._poll(parameters)
        return self._perform_now(operation, parameters)

    def _perform_now(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Return the service's answer, or its error."""
        try:
            answer = getattr(self._performer, operation)(**parameters)
        except ClientError as error:
            answer = error
        self._network.performed(self._process, operation, parameters, answer)
        if operation.startswith(STIRRING):
            self._network.stir(parameters["QueueUrl"])
        return answer

    def _poll(self, parameters: Mapping[str, Any]) -> Any:
        """Return the answer to a long poll. The service polls on when the process that asked has ended."""
        end = self._kernel.now + int(parameters["WaitTimeSeconds"] * MICROSECONDS)
        asked = {**parameters, "WaitTimeSeconds": 0}
        url = parameters["QueueUrl"]
        answers: list[Any] = []
        waiting: list[Waiter] = []

        def poll() -> None:
            while True:
                answer = self._perform_now("receive_message", asked)
                now = self._kernel.now
                if isinstance(answer, ClientError) or answer.get("Messages") or now >= end:
                    break
                visible_ms = self._performer.queue(url).next_visible_ms()
                next_look = end if visible_ms is None else min(end, (visible_ms - START_MS) * 1000)
                self._kernel.wait(self._network.polls(url), max(0.001, (next_look - now) / MICROSECONDS))
            answers.append(answer)
            if waiting and not self._process.ended:
                waiting[0].wake()

        self._kernel.outside.start(poll)
        if not answers:
            self._kernel.wait(waiting, None)
        return answers[0]

    def _with_anomaly(self, operation: str, parameters: Mapping[str, Any], choice: Choice) -> Any:
        """Perform a receive of a standard queue where SQS does what its documentation allows."""
        url = parameters["QueueUrl"]
        if choice is COPIED:
            self._performer.queue(url).deliver_again()
        elif choice is UNDELETED:
            self._performer.queue(url).undelete()
        self._performer.missing = 0.5 if choice is SAMPLED else 0.0
        try:
            return self._perform(operation, parameters)
        finally:
            self._performer.missing = 0.0

    def _in_conflict(self, position: int, parameters: Mapping[str, Any]) -> Any:
        try:
            self._performer.refuse_for_conflict(position, **parameters)
        except ClientError as error:
            return error

    def _split(self, operation: str, parameters: Mapping[str, Any], choice: Choice, fault: Fault) -> Any:
        """Perform a part of a batch; the answer refuses the other entries, or leaves them out."""
        entries = parameters["Entries"]
        hit = [entry for at, entry in enumerate(entries) if not at or (fault.number >> at) & 1]
        left = [entry for entry in entries if entry not in hit]
        performed = entries if choice is SILENT else left
        answer: Any = self._perform_now(operation, {**parameters, "Entries": performed}) if performed else {}
        if isinstance(answer, ClientError):
            return answer
        ids = {entry["Id"] for entry in hit}
        refusal = {"SenderFault": choice is BLAMED, "Code": sorted(THROTTLED)[0], "Message": "injected"}
        refused = [{"Id": entry["Id"], **refusal} for entry in hit] if choice in (PARTIAL, BLAMED) else []
        return {
            "Successful": [each for each in answer.get("Successful", ()) if each["Id"] not in ids],
            "Failed": [*(each for each in answer.get("Failed", ()) if each["Id"] not in ids), *refused],
        }


class Watched:
    """A client whose calls are watched: `before` gets an operation's request, `after` also its answer, None for an error."""

    def __init__(
        self,
        client: Any,
        before: Mapping[str, Callable[[Mapping[str, Any]], None]] | None = None,
        after: Mapping[str, Callable[[Mapping[str, Any], Any], None]] | None = None,
    ) -> None:
        self._client = client
        self._before, self._after = before or {}, after or {}

    def __getattr__(self, operation: str) -> Any:
        perform = getattr(self._client, operation)
        if operation not in self._before and operation not in self._after:
            return perform
        before, after = self._before.get(operation), self._after.get(operation)

        def call(**request: Any) -> Any:
            if before is not None:
                before(request)
            answer: Any = None
            try:
                answer = perform(**request)
            finally:
                if after is not None:
                    after(request, answer)
            return answer

        return call
