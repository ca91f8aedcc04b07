"""A small interpreter of the Amazon States Language with JSONata, as far as the audit's definition uses it.

The test answers the tasks. Waiting takes no time and moves the execution's clock; so does a task that never answers. The
interpreter refuses a state that it does not know.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jsonata.jsonata import Jsonata  # type: ignore[import-untyped]

Arguments = Any
Task = Callable[[Arguments], Any]
KNOWN_KEYS = {
    *("Type", "Comment", "Next", "Assign", "Output", "Arguments", "Resource", "Retry", "Catch", "Choices", "Default"),
    *("Seconds", "Items", "ItemProcessor", "Error", "Cause", "TimeoutSeconds"),
}


class StateFailure(Exception):
    """A task's error, by the name that Step Functions gives it."""

    def __init__(self, error: str, cause: str = "") -> None:
        super().__init__(error, cause)
        self.error, self.cause = error, cause


class NeverAnswered(Exception):
    """The exception of a task that hangs: the state's timeout ends it, or without one the execution's."""


class ExecutionTimedOut(Exception):
    """The execution's own timeout, which no state can catch."""


@dataclass
class Ended:
    """The end of an execution: its output, or its error."""

    output: Any = None
    failure: StateFailure | None = None


@dataclass
class Interpreter:
    """Runs a definition. `tasks` answers each resource, named by what follows `:states:::`; `visited` keeps the way."""

    definition: Mapping[str, Any]
    tasks: Mapping[str, Task]
    context: Mapping[str, Any]
    visited: list[str] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0  # since the execution's start

    def run(self, given: Any) -> Ended:
        """Execute with an input."""
        assert self.definition["QueryLanguage"] == "JSONata", "without it Step Functions reads JSONPath"
        try:
            return Ended(output=self._run(self.definition, given, {}))
        except StateFailure as failure:
            return Ended(failure=failure)
        except ExecutionTimedOut:
            return Ended(failure=StateFailure("States.Timeout"))

    def _pass(self, seconds: float) -> None:
        self.seconds += seconds
        if self.seconds >= self.definition["TimeoutSeconds"]:
            raise ExecutionTimedOut

    def _run(self, machine: Mapping[str, Any], given: Any, outer: Mapping[str, Any]) -> Any:
        variables = dict(outer)
        name = machine["StartAt"]
        while True:
            state = machine["States"][name]
            assert state.keys() <= KNOWN_KEYS, state.keys()
            self.visited.append(name)
            then, given = self._step(state, given, variables)
            if then is None:
                return given
            name = then

    def _step(self, state: Mapping[str, Any], given: Any, variables: dict[str, Any]) -> tuple[str | None, Any]:
        kind = state["Type"]
        if kind == "Choice":
            for choice in state["Choices"]:
                if self._value(choice["Condition"], {"input": given}, variables) is True:
                    return choice["Next"], given
            return state["Default"], given
        if kind == "Fail":
            cause = self._value(state["Cause"], {"input": given}, variables)
            raise StateFailure(state["Error"], str(cause))
        if kind == "Wait":
            self._pass(state["Seconds"])
        if kind in ("Pass", "Wait", "Succeed"):
            return self._leave(state, given, {"input": given}, variables)
        try:
            result = self._work(state, given, variables)
            return self._leave(state, result, {"input": given, "result": result}, variables)
        except StateFailure as failure:
            for catcher in state.get("Catch", ()):
                if {"States.ALL", failure.error} & set(catcher["ErrorEquals"]):
                    # What timed out has no cause.
                    answer = {"Error": failure.error, **({"Cause": failure.cause} if failure.cause else {})}
                    return self._leave(catcher, answer, {"input": given, "errorOutput": answer}, variables)
            raise

    def _work(self, state: Mapping[str, Any], given: Any, variables: dict[str, Any]) -> Any:
        if state["Type"] == "Map":
            items = self._value(state["Items"], {"input": given}, variables)
            return self._side_by_side(state["ItemProcessor"], items, variables)
        assert state["Type"] == "Task"
        resource = state["Resource"].partition(":states:::")[2]
        arguments = self._value(state["Arguments"], {"input": given}, variables)
        while True:
            try:
                return self._answer(state, resource, arguments)
            except StateFailure as failure:
                tried = self.attempts[resource] = self.attempts.get(resource, 0) + 1
                if tried > self._allowed(state, failure):
                    raise

    def _side_by_side(self, machine: Mapping[str, Any], items: list[Any], variables: Mapping[str, Any]) -> list[Any]:
        began, ends, results = self.seconds, [self.seconds], []
        for item in items:
            self.seconds = began
            results.append(self._run(machine, item, variables))
            ends.append(self.seconds)
        self.seconds = max(ends)
        return results

    def _answer(self, state: Mapping[str, Any], resource: str, arguments: Any) -> Any:
        try:
            return deepcopy(self.tasks[resource](arguments))
        except NeverAnswered:
            self._pass(state.get("TimeoutSeconds", math.inf))
            raise StateFailure("States.Timeout") from None

    @staticmethod
    def _allowed(state: Mapping[str, Any], failure: StateFailure) -> int:
        # States.TaskFailed stands for every error but States.Timeout.
        names = {failure.error} | ({"States.TaskFailed"} if failure.error != "States.Timeout" else set())
        for retrier in state.get("Retry", ()):
            if names & set(retrier["ErrorEquals"]):
                return int(retrier["MaxAttempts"])
        return 0

    def _leave(
        self, state: Mapping[str, Any], result: Any, states: Mapping[str, Any], variables: dict[str, Any]
    ) -> tuple[str | None, Any]:
        assigned = {name: self._value(value, states, variables) for name, value in state.get("Assign", {}).items()}
        output = self._value(state["Output"], states, variables) if "Output" in state else result
        variables.update(assigned)
        return state.get("Next"), output

    def _context(self) -> Mapping[str, Any]:
        began = datetime.fromisoformat(self.context["Execution"]["StartTime"])
        now = (began + timedelta(seconds=self.seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {**self.context, "State": {"EnteredTime": now}}

    def _value(self, template: Any, states: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
        if isinstance(template, dict):
            return {name: self._value(value, states, variables) for name, value in template.items()}
        if isinstance(template, list):
            return [self._value(value, states, variables) for value in template]
        if not (isinstance(template, str) and template.startswith("{%") and template.endswith("%}")):
            return template
        # Step Functions fails at an unassigned variable; this JSONata would continue without a value.
        own = {"states", *re.findall(r"function\(\$(\w+)\)", template), *re.findall(r"\$(\w+) :=", template)}
        unknown = set(re.findall(r"\$(\w+)\b(?!\()", template)) - own - variables.keys()
        assert not unknown, f"{unknown} of {template}"
        expression = Jsonata.jsonata(template[2:-2].strip())
        for name, value in {**variables, "states": {**states, "context": self._context()}}.items():
            expression.assign(name, value)
        expression.register_lambda("parse", _parse)
        value = expression.evaluate(None)
        assert value is not None, f"undefined: {template}"
        return value


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise StateFailure("States.QueryEvaluationError") from None
