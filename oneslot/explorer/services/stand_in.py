"""The stand-ins for AWS's services, as the explorer of any handler calls them: one function an operation.

Here are those of few operations: HTTP, Step Functions, Systems Manager's parameters and Secrets Manager. They leave out
connections that are kept, the states and the end of an execution, a task's own timeout, and writes of values.
"""

import json
import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest, refuse, refuse_unknown
from oneslot.explorer.services import objects, outside, sqs
from oneslot.explorer.services.account import (
    READING,
    SAFE_METHODS,
    Account,
    Answer,
    Operation,
    Parameters,
    operations,
)

PARAMETERS, SECRETS = "parameters", "secrets"
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)
"""When the values were written."""

MAXIMUM_NAME = 80
_FORBIDDEN = re.compile(r"""[\s<>{}\[\]?*"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]""")
"""What the name of an execution may not include (API reference, StartExecution)."""


def request(account: Account, method: str, parameters: Parameters) -> Answer:
    """Answer a request of HTTP as the user says, and record it as an outside effect unless it only reads.

    A request with the Idempotency-Key of an earlier one takes effect once. Raises `UnsupportedRequest` without an answer.
    """
    url, headers, body = parameters["url"], parameters["headers"], parameters["body"]
    address = f"{method.upper()} {url.partition('?')[0]}"
    given = next((one for pattern, one in account.answers.items() if fnmatchcase(address, pattern)), None)
    if given is None:
        raise UnsupportedRequest(
            f'no answer is given. Give it: answers={{"{address}": {{"status": 200, "body": {{}}}}}}'
        )
    if method not in SAFE_METHODS:
        key = headers.get("idempotency-key")
        if account.is_first(address, key):
            text = body.decode(errors="replace")
            account.record("http", method, url, {"body": text, **({"key": key} if key else {})})
    answer = given(parameters) if callable(given) else given
    content = answer.get("body", b"")
    text = content if isinstance(content, bytes | str) else json.dumps(content)
    sent = {"Content-Type": "application/json", **answer.get("headers", {})}
    body = text if isinstance(text, bytes) else text.encode()
    return {"status": answer.get("status", 200), "headers": sent, "body": body}


def _parameter(name: str, value: Any) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "String",
        "Value": value if isinstance(value, str) else ",".join(value),
        "Version": 1,
        "LastModifiedDate": WRITTEN,
        "ARN": f"arn:aws:ssm:eu-west-2:000000000000:parameter/{name.lstrip('/')}",
        "DataType": "text",
    }


def _given(account: Account, kind: str, asked: str) -> Answer:
    """Return the given values. Raises `UnsupportedRequest`, with the remedy, if there are none of this kind at all."""
    if kind not in account.values:
        raise UnsupportedRequest(f'no values are given. Give them: {kind}={{"{asked}": "..."}}')
    return account.values[kind]


def get_parameter(account: Account, parameters: Parameters) -> Answer:
    """Return one parameter."""
    name = parameters["Name"]
    values = _given(account, PARAMETERS, name)
    if name not in values:
        refuse("GetParameter", "ParameterNotFound", f"Parameter {name} not found.")
    return {"Parameter": _parameter(name, values[name])}


def get_parameters(account: Account, parameters: Parameters) -> Answer:
    """Return parameters by their names."""
    values = _given(account, PARAMETERS, parameters["Names"][0])
    found = [_parameter(name, values[name]) for name in parameters["Names"] if name in values]
    return {"Parameters": found, "InvalidParameters": [name for name in parameters["Names"] if name not in values]}


def get_parameters_by_path(account: Account, parameters: Parameters) -> Answer:
    """Return the parameters below a path."""
    path = f"{parameters['Path'].rstrip('/')}/"
    values = _given(account, PARAMETERS, f"{path}name")
    names = [name for name in sorted(values) if name.startswith(path)]
    if not parameters.get("Recursive"):
        names = [name for name in names if "/" not in name[len(path) :]]
    return {"Parameters": [_parameter(name, values[name]) for name in names]}


def get_secret_value(account: Account, parameters: Parameters) -> Answer:
    """Return one secret, by its name or ARN."""
    asked = parameters["SecretId"]
    values = _given(account, SECRETS, asked)
    name = asked if asked in values else asked.rpartition(":secret:")[2].rpartition("-")[0]
    if name not in values:
        message = "Secrets Manager can't find the specified secret."
        refuse("GetSecretValue", "ResourceNotFoundException", message)
    value = values[name]
    content = value if isinstance(value, bytes | str) else json.dumps(value)
    return {
        "ARN": f"arn:aws:secretsmanager:eu-west-2:000000000000:secret:{name}-a1b2c3",
        "Name": name,
        "VersionId": "00000000-0000-4000-8000-000000000001",
        "SecretBinary" if isinstance(value, bytes) else "SecretString": content,
        "VersionStages": ["AWSCURRENT"],
        "CreatedDate": WRITTEN,
    }


def start_execution(account: Account, parameters: Parameters) -> Answer:
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


def describe_execution(account: Account, parameters: Parameters) -> Answer:
    """Describe an execution, which runs."""
    arn = parameters["executionArn"]
    machine, _, wanted = arn.replace(":execution:", ":stateMachine:").rpartition(":")
    started = account.state.get(f"states/{machine}", {}).get(wanted)
    if started is None:
        refuse("DescribeExecution", "ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
    return {"executionArn": arn, "stateMachineArn": machine, "name": wanted, "status": "RUNNING", **started}


def _end_task(operation: str, name: str, account: Account, parameters: Parameters) -> Answer:
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
    **sqs.OPERATIONS,
    **outside.OPERATIONS,
    **objects.OPERATIONS,
    "stepfunctions.start_execution": start_execution,
    "stepfunctions.describe_execution": describe_execution,
    "stepfunctions.send_task_success": partial(_end_task, "send_task_success", "SendTaskSuccess"),
    "stepfunctions.send_task_failure": partial(_end_task, "send_task_failure", "SendTaskFailure"),
    "ssm.get_parameter": get_parameter,
    "ssm.get_parameters": get_parameters,
    "ssm.get_parameters_by_path": get_parameters_by_path,
    "secretsmanager.get_secret_value": get_secret_value,
}
"""The operations by "service.operation", with the names that boto3 gives them. DynamoDB has a class."""

_TARGETS = ("FunctionName", "TopicArn", "QueueUrl", "Bucket", "Name", "Id")


def perform(account: Account, service: str, operation: str, parameters: Parameters) -> Answer:
    """Perform a call in the account: by the user's answer, else by the stand-in, else it is refused by name.

    A call that the user answers leaves the account, unless it only reads, or has the idempotency token of an earlier one:
    https://smithy.io/2.0/spec/behavior-traits.html#idempotencytoken-trait.
    """
    name = f"{service}.{operation}"
    if service == "http":
        return request(account, operation, parameters)
    given = account.answers.get(name)
    if given is not None:
        has_token = any(map(parameters.get, operations(service)[operation].idempotent_members))
        # AWS refuses other parameters with the token.
        token = json.dumps(parameters, sort_keys=True, default=repr) if has_token else None
        if not operation.startswith(READING) and account.is_first(name, token):
            target = next((str(parameters[one]) for one in _TARGETS if one in parameters), "")
            account.record(service, operation, target, parameters)
        return given(parameters) if callable(given) else given  # type: ignore[no-any-return]
    if service == "dynamodb":
        dynamodb = InMemoryDynamoDB(lambda: account.now_ms, account.tables, account.contents, account.depends_on_time)
        method = getattr(dynamodb, operation, None)
        if method is not None:
            return method(**parameters)  # type: ignore[no-any-return]
    if name not in OPERATIONS:
        raise UnsupportedRequest(f'it has no stand-in. Give its answer: answers={{"{name}": {{...}}}}')
    return OPERATIONS[name](account, parameters)
