"""Step Functions: executions of standard workflows, and tasks that wait for a token. Both exist by use.

It leaves out the states, the end of an execution, express workflows, and a task's own timeout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from oneslot.dynamodb_in_memory.answers import refuse, refuse_unknown
from oneslot.explorer.services.account import Account, Operation

MAXIMUM_NAME = 80
_FORBIDDEN = re.compile(r"""[\s<>{}\[\]?*"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]""")
"""What the name of an execution may not include (API reference, StartExecution)."""

Parameters = Mapping[str, Any]


def start_execution(account: Account, parameters: Parameters) -> Mapping[str, Any]:
    """Start an execution.

    With "the same name and input as a running execution, the call succeeds and return the same response as the original
    request"; with another input it is refused (API reference). Without a name each call starts one.
    """
    name = "StartExecution"
    refuse_unknown(name, parameters, "stateMachineArn name input traceHeader")
    arn, given = parameters["stateMachineArn"], parameters.get("input", "{}")
    wanted = parameters.get("name")
    if wanted is not None and (not 1 <= len(wanted) <= MAXIMUM_NAME or _FORBIDDEN.search(wanted)):
        refuse(name, "InvalidName", f"Invalid Name: '{wanted}'")
    try:
        json.loads(given)
    except ValueError:
        refuse(name, "InvalidExecutionInput", f"Invalid State Machine Execution Input: '{given[:80]}'")
    executions = account.state.setdefault(f"states/{arn}", {})
    if wanted in executions:
        started = executions[wanted]
        if started["input"] != given:
            refuse(name, "ExecutionAlreadyExists", f"Execution Already Exists: '{_arn(arn, wanted)}'")
        return {"executionArn": _arn(arn, wanted), "startDate": started["startDate"]}
    effect_id = account.record("stepfunctions", "start_execution", arn, parameters)
    executions[wanted or effect_id] = {"input": given, "startDate": account.now}
    return {"executionArn": _arn(arn, wanted or effect_id), "startDate": account.now}


def describe_execution(account: Account, parameters: Parameters) -> Mapping[str, Any]:
    """Describe an execution, which runs."""
    arn = parameters["executionArn"]
    machine, _, wanted = arn.replace(":execution:", ":stateMachine:").rpartition(":")
    started = account.state.get(f"states/{machine}", {}).get(wanted)
    if started is None:
        refuse("DescribeExecution", "ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
    return {"executionArn": arn, "stateMachineArn": machine, "name": wanted, "status": "RUNNING", **started}


def _end_task(operation: str, name: str, account: Account, parameters: Parameters) -> Mapping[str, Any]:
    """End a task. A token serves once: a task that has ended is refused as one that timed out (API reference)."""
    token = parameters["taskToken"]
    ended = account.state.setdefault("states/ended tasks", {})
    if token in ended:
        refuse(name, "TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
    ended[token] = {}
    account.record("stepfunctions", operation, token, parameters)
    return {}


def _arn(machine: str, name: str) -> str:
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


OPERATIONS: dict[str, Operation] = {
    "stepfunctions.start_execution": start_execution,
    "stepfunctions.describe_execution": describe_execution,
    "stepfunctions.send_task_success": partial(_end_task, "send_task_success", "SendTaskSuccess"),
    "stepfunctions.send_task_failure": partial(_end_task, "send_task_failure", "SendTaskFailure"),
}
